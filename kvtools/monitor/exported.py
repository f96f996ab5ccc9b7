"""What an export wrote and what it left out, for a terminal and as JSON. Figures: docs/metrics.md."""

from __future__ import annotations

import textwrap

import msgspec

from kvtools.report.numbers import counted, percent

_WIDTH = 100


class NotExported(msgspec.Struct, frozen=True, kw_only=True):
    """An alert that no metric carries, and why."""

    name: str
    why: str


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """The file of an export; ``hit_rate`` of the log and ``hit_rate_low``, the lower edge of its band (0..1).

    ``alerts`` are the names of all that were written; ``check`` is the command that checks the file.
    """

    kind: str
    file: str
    hit_rate: float | None
    hit_rate_low: float | None
    alerts: list[str]
    not_exported: list[NotExported]
    notes: list[str]
    check: str

    def to_json(self) -> str:
        """Return it as indented JSON with a final line feed."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode() + "\n"

    def text(self) -> str:
        """Return it as lines for a terminal."""
        lines = [f"wrote {self.file}", *_wrapped(self.notes)]
        if self.alerts:
            edge = "" if self.hit_rate_low is None else f"; hit rate low below {percent(self.hit_rate_low)}"
            lines.append(
                f"{counted(len(self.alerts), 'alert')} for a log with a hit rate of {percent(self.hit_rate)}{edge}"
            )
            lines += [f"  {name}" for name in self.alerts]
        if self.not_exported:
            lines += ["Not exported", *_wrapped([f"{one.name}: {one.why}." for one in self.not_exported])]
        return "\n".join([*lines, f"Next: {self.check}"]) + "\n"


def _wrapped(notes: list[str]) -> list[str]:
    return [
        line
        for note in notes
        for line in textwrap.wrap(
            note, _WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False
        )
    ]
