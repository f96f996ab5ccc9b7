"""What became of a warm-up set that was sent."""

from __future__ import annotations

import msgspec

from kvtools.report.numbers import counted


class SentItem(msgspec.Struct, frozen=True, kw_only=True):
    """One request: ``prompt_tokens`` and ``cached_tokens`` as the server says; ``None``: it does not tell.

    ``verified_tokens``: cached when it was asked once more, ``expected_tokens`` of them by the set.
    """

    id: str
    prompt_tokens: int
    cached_tokens: int | None
    refused: str | None
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
    verified_requests: int
    verified_as_expected: int
    items: list[SentItem]

    def to_json(self) -> str:
        """Return the report as indented JSON with a final line feed."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode() + "\n"


def render_send(report: SendReport) -> str:
    """Return the report as text."""
    computed = report.prompt_tokens - report.cached_tokens
    sent = counted(report.requests - report.refused_requests, "request")
    known = f"{report.cached_tokens:,} were cached already"
    lines = [f"{report.url}: {sent} sent, {computed:,} tokens computed, {known}."]
    if report.refused_requests:
        first = next(item for item in report.items if item.refused)
        lines.append(f"  {report.refused_requests:,} refused, the first ({first.id}): {first.refused}")
    if report.counted_queried_tokens is None:
        lines.append("  the server shows no counters")
    else:
        moved = f"{report.counted_hit_tokens:,} hit of {report.counted_queried_tokens:,} queried tokens"
        lines.append(f"  its counters moved by {moved}")
    if report.verified:
        lines += _verified(report)
    return "\n".join(lines) + "\n"


def _verified(report: SendReport) -> list[str]:
    asked = [item for item in report.items if not item.refused]
    held = f"{report.verified_as_expected:,} of {report.verified_requests:,} have all of their prefix cached"
    lines = [
        "",
        f"Asked once more: {held}.",
        f"{'Prefix':<14}{'expected':>10}{'cached':>10}",
    ]
    short = [item for item in asked if not _as_expected(item)]
    for item in (short or asked)[:10]:
        cached = "not told" if item.verified_tokens is None else f"{item.verified_tokens:,}"
        lines.append(f"{item.id:<14}{item.expected_tokens or 0:>10,}{cached:>10}")
    return lines


def _as_expected(item: SentItem) -> bool:
    return item.verified_tokens is not None and item.verified_tokens >= (item.expected_tokens or 0)
