r"""Move values to the end of their own message; a placeholder stays where each of them stood.

``Current time: 10:41\nYou are …`` becomes ``Current time: [time]\nYou are …\n\n[time]: 10:41``. The message keeps
its role, every value and all of its other text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvtools.fields.template import SectionTemplate

BLOCK_GAP = "\n\n"
"""Stands between a message's text and its block of values."""


@dataclass(frozen=True, slots=True)
class Moves:
    """Which gaps of a template move (their numbers, in order)."""

    template: SectionTemplate
    gaps: tuple[int, ...]

    def apply(self, text: str) -> str | None:
        """Return the message with these values at its end, ``None`` where it is not made from the template."""
        values = self.template.match(text)
        return None if values is None else hoisted(self.template, values, self.gaps)


def hoisted(template: SectionTemplate, values: Sequence[str], gaps: Sequence[int]) -> str:
    """Return the text with the values of ``gaps`` behind it, each under the placeholder that it left."""
    kept, block = list(values), []
    for gap in gaps:
        mark = f"[{template.gaps[gap].name}]"
        # A value of whole lines leaves a whole line.
        kept[gap] = mark + "\n" if values[gap].endswith("\n") else mark
        block.append(f"{mark}: {values[gap]}" if "\n" not in values[gap] else f"{mark}:\n{values[gap]}")
    return template.render(kept) + BLOCK_GAP + "\n".join(block)
