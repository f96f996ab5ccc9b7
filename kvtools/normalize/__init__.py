"""Rewrite prompts so that their stable text stands in front: nothing is lost, and nothing else is touched."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvtools.normalize.forms import FORMS, OneForm, one_form
    from kvtools.normalize.given_templates import read_templates
    from kvtools.normalize.hoist import Moved, Moves
    from kvtools.normalize.manifest import TemplateFile, ValuesFile, write_templates
    from kvtools.normalize.normalizer import Normalizer
    from kvtools.normalize.rewriting import Rewriting, Rewritten

__all__ = [
    "FORMS",
    "Moved",
    "Moves",
    "Normalizer",
    "OneForm",
    "Rewriting",
    "Rewritten",
    "TemplateFile",
    "ValuesFile",
    "one_form",
    "read_templates",
    "write_templates",
]

_MODULE_OF = {
    "FORMS": "forms",
    "Moved": "hoist",
    "Moves": "hoist",
    "Normalizer": "normalizer",
    "OneForm": "forms",
    "Rewriting": "rewriting",
    "Rewritten": "rewriting",
    "TemplateFile": "manifest",
    "ValuesFile": "manifest",
    "one_form": "forms",
    "read_templates": "given_templates",
    "write_templates": "manifest",
}


def __getattr__(name: str) -> Any:
    # When used: byte forms load pandas, while a service that applies templates must not.
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
