"""The report of ``plan routing``. Figures: docs/metrics.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kvtools.report.model import Coverage, Hits, Input, Settings

if TYPE_CHECKING:
    from kvtools.plan.routing import Routed


class PlanCache(msgspec.Struct, frozen=True, kw_only=True):
    """The cache of one replica, which starts cold. ``capacity_blocks`` ``None``: unlimited."""

    block_size: int
    capacity_blocks: int | None
    rules: str
    outputs: str


class PlanSessions(msgspec.Struct, frozen=True, kw_only=True):
    """Sessions, and the requests that name theirs (``named``) or continue an earlier prompt (``found``)."""

    sessions: int
    named: int
    found: int


class Routing(msgspec.Struct, frozen=True, kw_only=True):
    """A policy on so many replicas. ``imbalance``: computed tokens of the busiest replica over the mean."""

    policy: str
    replicas: int
    hit_rate: float | None
    imbalance: float | None
    queried_tokens: int
    hit_tokens: int
    computed_tokens: list[int]
    requests: list[int]
    evictions: int
    refused_requests: int


class KeyLength(msgspec.Struct, frozen=True, kw_only=True):
    """Prefix-hash with keys of so many tokens, on the most replicas."""

    tokens: int
    keys: int
    largest_key_requests: int
    hit_rate: float | None
    imbalance: float | None


class RoutingKey(msgspec.Struct, frozen=True, kw_only=True):
    """``first_difference_tokens``: the shortest key that tells any two sessions apart; ``tokens``: the key taken."""

    first_difference_tokens: int | None
    tokens: int
    lengths: list[KeyLength]


class Floor(msgspec.Struct, frozen=True, kw_only=True):
    """Round-robin: what routing that knows nothing leaves."""

    replicas: int
    hit_tokens: int
    hit_rate: float | None


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """The policy that leaves the busiest replica least to compute, and the one of those that nginx can do."""

    replicas: int
    policy: str
    nginx_policy: str | None


class RoutingReport(msgspec.Struct, frozen=True, kw_only=True):
    """All that ``kvtools plan routing`` found out."""

    schema_version: int
    kvtools_version: str
    inputs: list[Input]
    settings: Settings
    coverage: Coverage
    requests: int
    prompt_tokens: int
    cache: PlanCache
    sessions: PlanSessions
    ceiling: Hits
    floor: list[Floor]
    routing: list[Routing]
    routing_key: RoutingKey
    chosen: Chosen
    nginx: str | None

    def to_json(self) -> str:
        """Return the report as indented JSON with a final line feed."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode() + "\n"


def routing_figures(found: Routed) -> Routing:
    """Return one policy's figures as they stand in the report."""
    requests = [int((found.replica == number).sum()) for number in range(found.replicas)]
    return Routing(
        policy=found.policy,
        replicas=found.replicas,
        hit_rate=found.hit_rate,
        imbalance=found.imbalance,
        queried_tokens=int(found.queried_tokens.sum()),
        hit_tokens=int(found.hit_tokens.sum()),
        computed_tokens=found.computed_tokens.tolist(),
        requests=requests,
        evictions=found.evictions,
        refused_requests=int(found.refused.sum()),
    )
