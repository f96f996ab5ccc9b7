"""What ``watch`` says at the end of each interval, of a log or of a server. Figures: docs/metrics.md."""

from __future__ import annotations

import msgspec


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """Requests, what they looked up and what hit. Of a log in tokens; ``requests`` is ``None`` where nobody counts."""

    requests: int | None
    queried: int
    hit: int
    hit_rate: float | None


class Worst(msgspec.Struct, frozen=True, kw_only=True):
    """The finding that costs most in the last ``of_requests``, as ``analyze`` has it, and how old that is."""

    what: str
    where: str
    hit_rate: float | None
    hit_rate_if_fixed: float | None
    of_requests: int
    age_s: float


class LogTick(msgspec.Struct, frozen=True, kw_only=True, tag="log", tag_field="kind"):
    """A log so far. Hits are those of a cache that saw the followed lines from its cold start on.

    ``cold_share``: prompts over 1,000 tokens in ``recent``. ``reported`` is what the server said of the requests of
    which it told both sides, since the start. ``worst_missing`` says why there is no finding.
    """

    source: str
    at_s: float
    block_size: int | None
    capacity_blocks: int
    evictions: int
    now: Stretch
    recent: Stretch
    total: Stretch
    reported: Stretch | None
    cold_share: float | None
    lines: int
    read: int
    rejected: int
    without_prompt: int
    duplicates: int
    not_sent: int
    last_reject: str | None
    rotations: int
    truncations: int
    maybe_lost: int
    worst: Worst | None
    worst_missing: str | None
    notes: list[str]

    def to_json(self) -> str:
        """Return it as one line of JSON."""
        return msgspec.json.encode(self).decode() + "\n"


class ServerTick(msgspec.Struct, frozen=True, kw_only=True, tag="server", tag_field="kind"):
    """A server's counters since the watch began; ``now`` since the line before. Local hits, and external ones beyond.

    ``kv_usage`` is the mean over engines of the blocks that running requests hold, over all blocks.
    ``queried_since_hit`` since the last poll that saw a hit. ``trouble`` says why there is no new scrape.
    """

    source: str
    at_s: float
    engines: int
    unit: str | None
    now: Stretch
    total: Stretch
    external_hit: int
    total_external_hit: int
    preemptions: int
    restarts: int
    running: int | None
    waiting: int | None
    kv_usage: float | None
    queried_since_hit: int
    polls: int
    failed_polls: int
    trouble: str | None

    def to_json(self) -> str:
        """Return it as one line of JSON."""
        return msgspec.json.encode(self).decode() + "\n"
