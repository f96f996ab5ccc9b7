"""What varies in the prompts: sections grouped by the text they share, and templates with a gap for each value."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvtools.fields.grouping import Group, grouped
    from kvtools.fields.learning import Learned, learn_group
    from kvtools.fields.sample import SectionSample, SectionText, sections_of
    from kvtools.fields.template import Gap, SectionTemplate

__all__ = [
    "Gap",
    "Group",
    "Learned",
    "SectionSample",
    "SectionTemplate",
    "SectionText",
    "grouped",
    "learn_group",
    "sections_of",
]

_MODULE_OF = {
    "Gap": "template",
    "Group": "grouping",
    "Learned": "learning",
    "SectionSample": "sample",
    "SectionTemplate": "template",
    "SectionText": "sample",
    "grouped": "grouping",
    "learn_group": "learning",
    "sections_of": "sample",
}


def __getattr__(name: str) -> Any:
    # When used: learning loads pandas and numba, while applying a template must not.
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
