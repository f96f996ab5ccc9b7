"""Labels in front of a value that is known to vary: what they say it is, if it looks the part."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from kvtools.fields.patterns import SEPARATOR

if TYPE_CHECKING:
    from kvtools.fields.patterns import Kind, Label


class Compile(Protocol):
    """Compiles a regular expression to an object with ``search`` and ``fullmatch``."""

    def __call__(self, regex: str, /) -> Any:
        """Return ``regex`` compiled."""


class LabelRule:
    """One label, compiled: does it stand right before a value, and may the value be what it names?"""

    def __init__(self, label: Label, compiled: Compile) -> None:
        self.kind: Kind = label.kind
        self._before = compiled(rf"(?i:{label.words})(?:{SEPARATOR}|[ _-]?#?)$")
        self._fits = compiled(label.fits)

    def stands_in(self, before: str) -> bool:
        """Return whether ``before`` ends in this label."""
        return self._before.search(before) is not None

    def fits(self, value: str) -> bool:
        """Return whether ``value`` may be what the label names."""
        return self._fits.fullmatch(value) is not None
