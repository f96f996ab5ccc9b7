"""Misses that no prompt can mend: salts, adapters, skipped lookups, hashes by process, dates of the server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from kvtools.diagnosis.turn_model import common_prefix
from kvtools.diagnosis.turn_text import clock_value_at
from kvtools.model import share

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

CrossInstance: TypeAlias = Literal["deployment_hash_seed", "instances_share", "no_local_hits", "unknown"]


@dataclass(frozen=True, slots=True)
class NamespaceUse:
    """How a group of requests is split by their salts or adapters.

    ``requests`` counts the group, ``named`` those that carry a salt (name an adapter), ``distinct`` how many
    different ones, ``used_once`` those that no other request of the group carries.
    """

    group: Hashable
    requests: int
    named: int
    distinct: int
    used_once: int

    @property
    def per_request(self) -> bool:
        """Whether every request has a name of its own, so that nothing can be reused."""
        return self.requests > 1 and self.named == self.distinct == self.requests

    @property
    def splits(self) -> bool:
        """Whether the group's requests stand in more than one namespace (none is a namespace too)."""
        return self.distinct + (self.named < self.requests) > 1


def namespace_uses(names: Sequence[str | None], groups: Sequence[Hashable]) -> list[NamespaceUse]:
    """Return the use of each group that has a name, in the order of their first request.

    ``names`` are the requests' salts or adapters; an empty one is none, as in vLLM.
    """
    members: dict[Hashable, list[str | None]] = {}
    for name, group in zip(names, groups, strict=True):
        members.setdefault(group, []).append(name or None)
    uses = []
    for group, values in members.items():
        counts: dict[str, int] = {}
        for value in values:
            if value is not None:
                counts[value] = counts.get(value, 0) + 1
        if counts:
            once = sum(count == 1 for count in counts.values())
            uses.append(NamespaceUse(group, len(values), sum(counts.values()), len(counts), once))
    return uses


def salt_kind(use: NamespaceUse) -> Literal["salt_per_request", "salt_per_tenant"] | None:
    """Return what the salts of a group are: a misconfiguration, a cost that is only reported, or nothing.

    A salt for each request isolates finer than any reuse. Salts that requests share are somebody's isolation: their
    cost is told, their removal never advised. (vLLM hashes the salt into a request's first block.)
    """
    if use.per_request:
        return "salt_per_request"
    return "salt_per_tenant" if use.splits else None


@dataclass(frozen=True, slots=True)
class SkippedReads:
    """Requests that fill the cache without reading it, and their prompt tokens: neither is in vLLM's hit rate."""

    requests: int
    skipping: int
    tokens: int
    skipping_tokens: int

    @property
    def skipping_share(self) -> float | None:
        """Share of the requests (0..1) that do no lookup."""
        return share(self.skipping, self.requests)

    @property
    def queried_tokens(self) -> int:
        """Prompt tokens that vLLM counts as queried."""
        return self.tokens - self.skipping_tokens


def skipped_reads(skips: Sequence[bool], prompt_tokens: Sequence[int]) -> SkippedReads:
    """Count the requests that ask for prompt logprobs (or pool all tokens): vLLM needs all logits, so reads nothing."""
    skipping = [tokens for skip, tokens in zip(skips, prompt_tokens, strict=True) if skip]
    return SkippedReads(len(skips), len(skipping), sum(prompt_tokens), sum(skipping))


@dataclass(frozen=True, slots=True)
class InstanceCounts:
    """What one request hit, in tokens, and what it could have.

    ``own_tokens`` are found in a cache of its instance alone, ``shared_tokens`` in one of all instances (both by
    replay); ``local_cached`` and ``external_cached`` is what the engine reported (``None``: it did not).
    """

    instance: str
    local_cached: int | None
    external_cached: int | None
    own_tokens: int
    shared_tokens: int


@dataclass(frozen=True, slots=True)
class InstanceVerdict:
    """Whether instances share their cache. ``evidence`` are the places of the requests that show it."""

    verdict: CrossInstance
    evidence: tuple[int, ...]
    lost_tokens: int


def cross_instance(requests: Sequence[InstanceCounts]) -> InstanceVerdict:
    """Return whether an external cache is of use between instances.

    ``deployment_hash_seed``: prefixes that another instance had computed were never found outside, while each
    instance finds its own. vLLM seeded block hashes per process unless ``PYTHONHASHSEED`` was set; the same is seen
    where no external cache is attached. ``no_local_hits``: nothing was found inside either, so the fault is another.
    ``unknown``: no request could have hit another instance's blocks, or the engine reported no figures.
    """
    reported = [(place, row) for place, row in enumerate(requests) if row.external_cached is not None]
    crossing = [(place, row) for place, row in reported if row.shared_tokens > row.own_tokens]
    evidence = tuple(place for place, _ in crossing)
    if not crossing:
        return InstanceVerdict("unknown", (), 0)
    if any(row.external_cached for _, row in reported):
        return InstanceVerdict("instances_share", evidence, 0)
    lost = sum(row.shared_tokens - row.own_tokens for _, row in crossing)
    if not any(row.local_cached for row in requests):
        return InstanceVerdict("no_local_hits", evidence, lost)
    return InstanceVerdict("deployment_hash_seed", evidence, lost)


@dataclass(frozen=True, slots=True)
class InjectedClock:
    """A date or time in two rendered prompts that their clients did not send. ``position`` is in characters."""

    position: int
    earlier: str
    later: str


def injected_clock(earlier: str, later: str, client_texts: Iterable[str]) -> InjectedClock | None:
    """Return the date at which two rendered prompts part, where it stands in none of the texts that clients sent.

    vLLM's gpt-oss renderer writes the current date when a request names none, and so do the templates of
    several model families: results hold within one day of the server's clock.
    """
    position = common_prefix(earlier, later)
    one, other = clock_value_at(earlier, position), clock_value_at(later, position)
    if one is None or other is None or one == other:
        return None
    if any(one in text or other in text for text in client_texts):
        return None
    return InjectedClock(position, one, other)
