"""The report of ``normalize``: what was moved, in how many requests, and what it gains. Figures: docs/metrics.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kvtools.normalize.tool_forms import DUPLICATE_TOOL_NAME
from kvtools.report.model import Coverage, Input, Settings
from kvtools.report.numbers import counted, percent
from kvtools.report.phrases import size_of
from kvtools.report.words import phrase, say, spoken, told

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


def render_normalize(report: NormalizeReport, lang: str = "en") -> str:
    """Return the report as text in ``lang``: the gain, where the requests went, what restores them."""
    with spoken(lang):
        lines = [_gone(report.requests), *_stays(report.requests), *_kept(report), *_fields(report.fields)]
        return "\n".join([_headline(report), *(f"  {line}" for line in lines)]) + "\n"


def _gone(requests: NormalizedRequests) -> str:
    """Return where the requests went."""
    gone = [
        say("{count} requests rewritten", count=f"{requests.changed:,}"),
        say("{count} unchanged", count=f"{requests.unchanged:,}"),
    ]
    if requests.refused:
        refused = f"{requests.refused:,}"
        gone.append(
            say("{count} refused, passed through unchanged (--refused FILE lists them)", count=refused)
        )
    return " · ".join(gone)


def _stays(requests: NormalizedRequests) -> list[str]:
    """Return what stays as it is, and why."""
    lines = []
    stays = {name: count for name, count in requests.reasons.items() if name != DUPLICATE_TOOL_NAME}
    if stays:
        reasons = ", ".join(f"{name} {count:,}" for name, count in stays.items())
        lines.append(say("stays: {reasons}", reasons=reasons))
    if DUPLICATE_TOOL_NAME in requests.reasons:
        same = counted(requests.reasons[DUPLICATE_TOOL_NAME], "request")
        lines.append(say("{requests} with two tools of one name: these stay in their order", requests=same))
    if requests.not_read:
        left = counted(requests.not_read, "line")
        lines.append(say("{lines} without a request passed through unchanged", lines=left))
    return lines


def _kept(report: NormalizeReport) -> list[str]:
    """Return what became of the values."""
    lines = []
    if "mask" in report.mode:
        lines.append(say("values are lost: for analysis only, not to be sent"))
    elif report.requests.changed:
        how = say("kvtools restore gives them back") if report.output else say("nothing was written")
        sentence = phrase("every rewrite was restored byte for byte and is stable on a second pass; {how}")
        lines.append(say(sentence, how=how))
    if report.place == "prompt-end":
        lines.append(say("values of system messages stand behind the last user message: they cross roles"))
    return lines


def _headline(report: NormalizeReport) -> str:
    before, after = percent(report.hit_rate.before), percent(report.hit_rate.after)
    cache = size_of(report.capacity_blocks)
    same = say("(replayed, {cache}, block {size})", cache=cache, size=report.block_size)
    if not report.requests.changed:
        return say("{rate}: nothing to change that pays {same}.", rate=before, same=same)
    if report.fields:
        fields = len({(field.role, field.route, field.name) for field in report.fields})
        what = say("after moving {fields} behind the stable text", fields=counted(fields, "field"))
    else:
        what = say("after masking") if "mask" in report.mode else say("in one byte form")
    rate = before if report.hit_rate.after is None else f"{before} → {after}"
    return say("{rate} {what} {same}.", rate=rate, what=what, same=same)


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
        where = say("{role}, route {route}", role=told(role), route=route) if route else told(role)
        said, files = ", ".join(sorted(names)), counted(len(templates), "template")
        lines.append(say("{where}: {names} ({templates})", where=where, names=said, templates=files))
    return lines
