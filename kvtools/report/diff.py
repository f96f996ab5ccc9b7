"""The reports of ``kvtools diff``: two requests side by side, or two logs. Figures: docs/metrics.md."""

from __future__ import annotations

import msgspec

from kvtools.report.explain import CacheFigures, Parting, RequestName
from kvtools.report.model import Coverage, Input, Settings


class DiffedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two requests, and the tokens that it hit in the replay of its log."""

    request: RequestName
    hit_tokens: int


class RequestDiff(msgspec.Struct, frozen=True, kw_only=True):
    """Two requests of one log.

    ``outcome``: ``parted``, ``equal``, ``a_begins_b`` or ``b_begins_a`` (one prompt is all of the other's beginning).
    ``first_different_block`` counts from 0; it is ``None`` where no full block of both differs.
    """

    schema_version: int
    kvtools_version: str
    inputs: list[Input]
    settings: Settings
    coverage: Coverage
    cache: CacheFigures
    a: DiffedRequest
    b: DiffedRequest
    outcome: str
    same_namespace: bool
    shared_tokens: int
    shared_blocks: int
    first_different_block: int | None
    parting: Parting | None
    identical_tokens_behind: int | None

    def to_json(self) -> str:
        """Return the report as indented JSON with a final line feed."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode() + "\n"


class DiffedLog(msgspec.Struct, frozen=True, kw_only=True):
    """One of two logs, replayed alone from an empty cache. ``common_head_tokens``: what all its requests begin with."""

    inputs: list[Input]
    settings: Settings
    coverage: Coverage
    cache: CacheFigures
    requests: int
    prompt_tokens: int
    queried_tokens: int
    hit_tokens: int
    hit_rate: float | None
    common_head_tokens: int


class RequestChange(msgspec.Struct, frozen=True, kw_only=True):
    """A request of both logs that hits more or less in one of them.

    ``first_different_block`` counts from 0; ``None``: no full block of both differs, or ids cannot be compared.
    """

    id: str | None
    a_source: str
    b_source: str
    a_prompt_tokens: int
    b_prompt_tokens: int
    a_hit_tokens: int
    b_hit_tokens: int
    first_different_block: int | None


class BlockCount(msgspec.Struct, frozen=True, kw_only=True):
    """In how many requests of both logs this block (from 0) is the first that differs."""

    block: int
    requests: int


class LogDiff(msgspec.Struct, frozen=True, kw_only=True):
    """Two logs. ``hit_rate_change`` is b minus a (-1..1).

    Requests are matched by ``id`` (the n-th of an id with the n-th), by ``place`` where neither log has ids and both
    have as many requests; ``None``: not at all. ``shared_head_tokens`` is what the two common heads share, ``None``
    where tokens and block ids cannot be compared; ``comparable_blocks`` says whether block keys can.
    """

    schema_version: int
    kvtools_version: str
    a: DiffedLog
    b: DiffedLog
    hit_rate_change: float | None
    shared_head_tokens: int | None
    comparable_blocks: bool
    matched_by: str | None
    matched_requests: int
    only_a_requests: int
    only_b_requests: int
    equal_prompts: int | None
    more_requests: int
    less_requests: int
    first_different_blocks: list[BlockCount]
    changes: list[RequestChange]

    def to_json(self) -> str:
        """Return the report as indented JSON with a final line feed."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode() + "\n"
