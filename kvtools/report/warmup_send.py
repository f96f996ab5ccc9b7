"""What became of a warm-up set that was sent."""

from __future__ import annotations

import msgspec

from kvtools.report.layout import left, right
from kvtools.report.numbers import counted
from kvtools.report.words import phrase, say, spoken


class SentItem(msgspec.Struct, frozen=True, kw_only=True):
    """One request: ``prompt_tokens`` and ``cached_tokens`` as the server says; ``None``: it does not tell.

    ``verified_tokens``: cached when the prefix was asked for once more, ``expected_tokens`` of them by the set.
    ``member``: who asked for it, as file and line of the log; ``None``: the line itself.
    """

    id: str
    prompt_tokens: int
    cached_tokens: int | None
    refused: str | None
    member: str | None = None
    expected_tokens: int | None = None
    verified_tokens: int | None = None


class SendReport(msgspec.Struct, frozen=True, kw_only=True):
    """The server's own counters moved by ``counted_queried_tokens`` and ``counted_hit_tokens`` (``None``: no counters).

    The usage gauge of vLLM counts blocks that requests hold, not what is cached: it is 0 when nothing runs.
    """

    url: str
    requests: int
    refused_requests: int
    prompt_tokens: int
    cached_tokens: int
    counted_queried_tokens: int | None
    counted_hit_tokens: int | None
    verified: bool
    verified_by: str | None
    verified_requests: int
    verified_as_expected: int
    items: list[SentItem]

    def to_json(self) -> str:
        """Return the report as indented JSON with a final line feed."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode() + "\n"


def render_send(report: SendReport, lang: str = "en") -> str:
    """Return the report as text in ``lang``."""
    with spoken(lang):
        lines = [_sent(report), *(f"  {line}" for line in _notes(report))]
        return "\n".join([*lines, *(_verified(report) if report.verified else [])]) + "\n"


def _sent(report: SendReport) -> str:
    return say(
        "{url}: {requests} sent, {computed} tokens computed, {cached} were cached already.",
        url=report.url,
        requests=counted(report.requests - report.refused_requests, "request"),
        computed=f"{report.prompt_tokens - report.cached_tokens:,}",
        cached=f"{report.cached_tokens:,}",
    )


def _notes(report: SendReport) -> list[str]:
    lines = []
    if report.refused_requests:
        first, count = next(item for item in report.items if item.refused), f"{report.refused_requests:,}"
        sentence = phrase("{count} refused, the first ({id}): {reason}")
        lines.append(say(sentence, count=count, id=first.id, reason=first.refused))
    if report.counted_queried_tokens is None:
        return [*lines, say("the server shows no counters")]
    moved = say(
        "its counters moved by {hit} hit of {queried} queried tokens",
        hit=f"{report.counted_hit_tokens:,}",
        queried=f"{report.counted_queried_tokens:,}",
    )
    return [*lines, moved]


def _verified(report: SendReport) -> list[str]:
    asked = [item for item in report.items if not item.refused]
    again = phrase("Asked once more: {held} of {requests} have all of their prefix cached.")
    of_members = phrase("A member of each group asked: {held} of {requests} have all of their prefix cached.")
    held = say(
        of_members if report.verified_by == "member" else again,
        held=f"{report.verified_as_expected:,}",
        requests=f"{report.verified_requests:,}",
    )
    head = f"{left(say('Prefix'), 14)}{right(say('expected'), 10)}{right(say('cached'), 10)}"
    lines = ["", held, head]
    short = [item for item in asked if not _as_expected(item)]
    for item in (short or asked)[:10]:
        cached = say("not told") if item.verified_tokens is None else f"{item.verified_tokens:,}"
        lines.append(
            f"{item.id:<14}{item.expected_tokens or 0:>10,}{right(cached, 10)}"
            + (f"  {item.member}" if item.member else "")
        )
    return lines


def _as_expected(item: SentItem) -> bool:
    return item.verified_tokens is not None and item.verified_tokens >= (item.expected_tokens or 0)
