"""The first changes of a run as text: asked for by name, since it shows prompts."""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import unified_diff
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvtools.normalize.lines import NewLine

MOST = 10


@dataclass(slots=True)
class Changes:
    """Collects what became of the first texts."""

    lines: list[str] = field(default_factory=list)
    _shown: int = 0

    def __call__(self, source: str, new: NewLine) -> None:
        """Take one rewritten line."""
        for place, one in new.sections:
            if self._shown == MOST:
                return
            self._shown += 1
            old, now = place.text.split("\n"), one.text.split("\n")
            self.lines += unified_diff(old, now, f"{source} {place.role}", "normalized", n=1, lineterm="")

    def text(self) -> str:
        """Return the changes as a unified diff."""
        return "".join(line + "\n" for line in self.lines)
