"""Routing: its laws, a router written plainly, and figures by hand."""

from __future__ import annotations

from zlib import crc32

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan_oracle import BLOCK, Request, prompts_of, requests

from kvtools.cache import replay_prompts, unlimited_hits
from kvtools.flow.plan_routing import RoutingOptions
from kvtools.model import CacheSpec
from kvtools.plan.routing import (
    BALANCE,
    LEAST_LOADED,
    POLICIES,
    PREFIX_AWARE,
    PREFIX_HASH,
    ROUND_ROBIN,
    SESSION_AFFINE,
    SLACK_REQUESTS,
    Traffic,
    route,
    server_names,
)
from kvtools.plan.routing_ring import Ring

sizes = st.one_of(st.none(), st.integers(1, 12))


def traffic_of(log: list[Request], sessions: list[int] | None = None) -> Traffic:
    """Each request of a session of its own, and keyed by its first block, unless ``sessions`` says otherwise."""
    names = list(range(len(log))) if sessions is None else sessions
    session = np.array([crc32(b"session-%d" % name) for name in names], dtype=np.uint32)
    prefix = np.array([crc32(repr(path[:1]).encode()) for path, _ in log], dtype=np.uint32)
    return Traffic(prompts_of(log), np.arange(len(log)), session, prefix)


@given(requests, sizes, st.sampled_from(POLICIES))
def test_one_replica_is_the_single_engine(log: list[Request], capacity: int | None, policy: str) -> None:
    traffic, spec = traffic_of(log), CacheSpec(BLOCK, capacity)
    alone = replay_prompts(traffic.prompts, spec, unlimited_hits(traffic.prompts, CacheSpec(BLOCK)))
    found = route(traffic, spec, policy, 1)
    assert found.hit_tokens.tolist() == alone.hit_tokens.tolist()
    assert (found.hit_rate, found.evictions) == (alone.hit_rate, alone.evictions)
    assert found.imbalance in (1.0, None)


@given(requests, sizes, st.sampled_from(POLICIES), st.integers(1, 9))
def test_the_ceiling_is_never_exceeded(
    log: list[Request], capacity: int | None, policy: str, replicas: int
) -> None:
    traffic = traffic_of(log)
    found = route(traffic, CacheSpec(BLOCK, capacity), policy, replicas)
    assert (found.hit_tokens <= unlimited_hits(traffic.prompts, CacheSpec(BLOCK))).all()
    assert found.imbalance is None or 1 <= found.imbalance <= replicas


@given(requests, sizes, st.integers(1, 9))
def test_a_session_per_request_is_hashing(log: list[Request], capacity: int | None, replicas: int) -> None:
    """Affine to sessions of one request each, a router does what a hash of the request's id does."""
    traffic, spec = traffic_of(log), CacheSpec(BLOCK, capacity)
    ring = Ring(server_names(replicas))
    hashed = [
        int(ring.servers_of(np.array([crc32(b"session-%d" % number)], dtype=np.uint32))[0])
        for number in range(len(log))
    ]
    found = route(traffic, spec, SESSION_AFFINE, replicas)
    assert found.replica.tolist() == hashed
    by_key = Traffic(traffic.prompts, traffic.request, traffic.session_hash, traffic.session_hash)
    assert route(by_key, spec, PREFIX_HASH, replicas).hit_tokens.tolist() == found.hit_tokens.tolist()


def plain_router(log: list[Request], capacity: int | None, replicas: int, *, aware: bool) -> list[int]:
    """The two policies that look at the replicas, in lists: what the compiled router has to decide."""
    caches: list[list[tuple[int, ...]]] = [[] for _ in range(replicas)]
    loads = [0] * replicas
    tokens = [len(path) * BLOCK + rest for path, rest in log]
    slack = SLACK_REQUESTS * sum(tokens) / len(tokens)
    chosen = []
    for (path, _), length in zip(log, tokens, strict=True):
        own = [path[:depth] for depth in range(1, len(path) + 1)]

        def found(replica: int, own: list = own, length: int = length) -> int:
            lookups, hits = (length - 1) // BLOCK, 0
            while hits < lookups and own[hits] in caches[replica]:
                hits += 1
            return hits

        limit = BALANCE * sum(loads) / replicas + slack
        able = [one for one in range(replicas) if not aware or loads[one] <= limit]
        best = min(able, key=lambda one: (-found(one) if aware else 0, loads[one], one))
        chosen.append(best)
        loads[best] += length - found(best) * BLOCK
        for block in reversed(own):
            if block in caches[best]:
                caches[best].remove(block)
            caches[best].append(block)
        if capacity is not None:
            del caches[best][:-capacity]
    return chosen


@given(requests, sizes, st.integers(1, 5), st.booleans())
def test_the_compiled_router_decides_as_the_plain_one(
    log: list[Request], capacity: int | None, replicas: int, aware: bool
) -> None:
    policy = PREFIX_AWARE if aware else LEAST_LOADED
    found = route(traffic_of(log), CacheSpec(BLOCK, capacity), policy, replicas)
    assert found.replica.tolist() == plain_router(log, capacity, replicas, aware=aware)


def test_a_replica_with_too_much_to_do_is_passed_by() -> None:
    """One prompt in a row: its first request is computed, the others hit; then many others fill the same replica."""
    one, slack = ((0, 0), 1), SLACK_REQUESTS
    found = route(traffic_of([one] * 10), CacheSpec(BLOCK), PREFIX_AWARE, 2)
    assert set(found.replica.tolist()) == {0}
    # All begin with block 0 and are new behind it: 5 tokens each to compute, wherever block 0 is. A replica stays in
    # reach until it is 16 mean prompts above 1.25 times the mean load.
    log = [((0, number), 1) for number in range(1, 200)]
    loads = route(traffic_of(log), CacheSpec(BLOCK), PREFIX_AWARE, 2).computed_tokens
    assert loads.min() > 0
    assert loads.max() <= BALANCE * loads.mean() + slack * 9 + 9


def test_imbalance_and_rates_by_hand() -> None:
    """Round-robin on two: replica 0 gets two equal prompts of 9 tokens (8 hit), replica 1 two different ones."""
    log = [((0, 0), 1), ((1, 1), 1), ((0, 0), 1), ((2, 2), 1)]
    found = route(traffic_of(log), CacheSpec(BLOCK), ROUND_ROBIN, 2)
    assert found.hit_tokens.tolist() == [0, 0, 8, 0]
    assert found.computed_tokens.tolist() == [10, 18]
    assert found.imbalance == 18 / 14
    assert found.hit_rate == 8 / 36


def test_answers_of_one_request_stay_together() -> None:
    log = [((0,), 1), ((0,), 1), ((1,), 1)]
    traffic = traffic_of(log)
    twice = Traffic(traffic.prompts, np.array([0, 0, 1]), traffic.session_hash, traffic.prefix_hash)
    for policy in (ROUND_ROBIN, LEAST_LOADED, PREFIX_AWARE):
        replica = route(twice, CacheSpec(BLOCK), policy, 2).replica
        assert replica[0] == replica[1], policy


@pytest.mark.parametrize(
    "wrong", [{"replicas": (0,)}, {"policies": ("random",)}, {"servers": ("a:1", "a:1")}]
)
def test_wrong_options_are_refused(wrong: dict) -> None:
    from kvtools.errors import UsageError

    with pytest.raises(UsageError):
        RoutingOptions(**wrong)
