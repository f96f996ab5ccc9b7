"""The report of ``normalize``: what was moved, in how many requests, and what it gains. Figures: docs/metrics.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kvtools.normalize.tool_forms import DUPLICATE_TOOL_NAME
from kvtools.report.model import Coverage, Input, Settings
from kvtools.report.numbers import counted, percent

if TYPE_CHECKING:
    from collections.abc import Sequence


class MovedField(msgspec.Struct, frozen=True, kw_only=True):
    """A field that moved: in how many requests, in the messages of which template."""

    name: str
    kind: str
    granularity: str | None
    template: str
    role: str
    route: str | None
    requests: int


class NormalizedRequests(msgspec.Struct, frozen=True, kw_only=True):
    """Where the requests went. ``not_read`` are lines that hold no request of the format; they pass unchanged."""

    changed: int
    unchanged: int
    refused: int
    not_read: int
    reasons: dict[str, int]


class HitRates(msgspec.Struct, frozen=True, kw_only=True):
    """Hit rate (0..1) of the log as it is and as it was written, both replayed in the same cache."""

    before: float | None
    after: float | None


class NormalizeReport(msgspec.Struct, frozen=True, kw_only=True):
    """All that ``kvtools normalize`` did. ``output`` is ``None`` where nothing was written."""

    schema_version: int
    kvtools_version: str
    inputs: list[Input]
    settings: Settings
    coverage: Coverage
    mode: list[str]
    place: str
    within: str
    forms: list[str]
    block_size: int
    capacity_blocks: int | None
    requests: NormalizedRequests
    hit_rate: HitRates
    fields: list[MovedField]
    templates: list[str]
    restorable: bool
    output: str | None

    def to_json(self) -> str:
        """Return the report as indented JSON with a final line feed."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode() + "\n"


def render_normalize(report: NormalizeReport) -> str:
    """Return the report as text: the gain, where the requests went, what restores them."""
    requests = report.requests
    lines = [_headline(report)]
    gone = [f"{requests.changed:,} requests rewritten", f"{requests.unchanged:,} unchanged"]
    if requests.refused:
        gone.append(f"{requests.refused:,} refused, passed through unchanged (--refused FILE lists them)")
    lines.append(" · ".join(gone))
    stays = {name: count for name, count in requests.reasons.items() if name != DUPLICATE_TOOL_NAME}
    if stays:
        lines.append("stays: " + ", ".join(f"{name} {count:,}" for name, count in stays.items()))
    if DUPLICATE_TOOL_NAME in requests.reasons:
        same = counted(requests.reasons[DUPLICATE_TOOL_NAME], "request")
        lines.append(f"{same} with two tools of one name: these stay in their order")
    if requests.not_read:
        lines.append(f"{counted(requests.not_read, 'line')} without a request passed through unchanged")
    if "mask" in report.mode:
        lines.append("values are lost: for analysis only, not to be sent")
    elif requests.changed:
        how = "kvtools restore gives them back" if report.output else "nothing was written"
        lines.append(f"every rewrite was restored byte for byte and is stable on a second pass; {how}")
    if report.place == "prompt-end":
        lines.append("values of system messages stand behind the last user message: they cross roles")
    lines += _fields(report.fields)
    return "\n".join([lines[0], *(f"  {line}" for line in lines[1:])]) + "\n"


def _headline(report: NormalizeReport) -> str:
    before, after = percent(report.hit_rate.before), percent(report.hit_rate.after)
    cache = "unlimited cache" if report.capacity_blocks is None else counted(report.capacity_blocks, "block")
    same = f"(replayed, {cache}, block {report.block_size})"
    if not report.requests.changed:
        return f"{before}: nothing to change that pays {same}."
    if report.fields:
        fields = len({(field.role, field.route, field.name) for field in report.fields})
        what = f"after moving {counted(fields, 'field')} behind the stable text"
    else:
        what = "after masking" if "mask" in report.mode else "in one byte form"
    rate = before if report.hit_rate.after is None else f"{before} → {after}"
    return f"{rate} {what} {same}."


def _fields(fields: Sequence[MovedField]) -> list[str]:
    """Return a line per kind of message: which fields moved, in how many templates."""
    moved: dict[tuple[str, str | None], tuple[dict[str, int], set[str]]] = {}
    for field in fields:
        names, templates = moved.setdefault((field.role, field.route), ({}, set()))
        names[field.name] = names.get(field.name, 0) + field.requests
        templates.add(field.template)
    lines = []
    for (role, route), (names, templates) in sorted(
        moved.items(), key=lambda item: (-max(item[1][0].values()), item[0][0], item[0][1] or "")
    ):
        where = f"{role}, route {route}" if route else role
        lines.append(f"{where}: {', '.join(sorted(names))} ({counted(len(templates), 'template')})")
    return lines
