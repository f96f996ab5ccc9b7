"""Random engine settings and token lists, small enough that blocks are evicted and requests preempted.

Token ids become dense chained ids here by a plain dict, so that nothing of kvtools' own hashing takes part.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from kvtools.cache.workload import StepTime, Workload
from kvtools.model import Arrivals, CacheSpec, SchedulerSpec

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True)
class Request:
    """One request as token lists; ``arrival`` in units of the case's clock."""

    prompt: list[int]
    output: list[int]
    arrival: int
    salt: str | None
    priority: int
    skip_lookup: bool


@dataclass(frozen=True)
class Case:
    """Settings and requests of one comparison; ``clock`` is None where arrivals are not timed."""

    seed: int
    cache: CacheSpec
    scheduler: SchedulerSpec
    clock: StepTime | None
    requests: list[Request]


def chained_ids(requests: Iterable[Request], block_size: int) -> list[list[int]]:
    """Return the dense ids of each request's full blocks: equal if and only if block, parent and salt are."""
    known: dict[tuple[int, tuple[int, ...], str | None], int] = {}
    rows = []
    for request in requests:
        tokens = request.prompt + request.output
        parent, row = -1, []
        for start in range(0, len(tokens) - block_size + 1, block_size):
            salt = request.salt if start == 0 else None
            parent = known.setdefault((parent, tuple(tokens[start : start + block_size]), salt), len(known))
            row.append(parent)
        rows.append(row)
    return rows


def workload(requests: list[Request], block_size: int) -> Workload:
    """Return the columns that the simulator reads."""
    rows = chained_ids(requests, block_size)
    return Workload(
        prompt_tokens=np.array([len(r.prompt) for r in requests], np.int64),
        output_tokens=np.array([len(r.output) for r in requests], np.int64),
        block_ids=np.array(list(chain.from_iterable(rows)), np.int64),
        offsets=np.concatenate([[0], np.cumsum([len(row) for row in rows], dtype=np.int64)]),
        arrival_us=np.array([r.arrival for r in requests], np.int64),
        priority=np.array([r.priority for r in requests], np.int64),
        skip_lookup=np.array([r.skip_lookup for r in requests], np.bool_),
    )


def _conversations(rng: random.Random, block_size: int, *, pressed: bool) -> list[Request]:
    """Return requests that share heads, repeat each other, and go on from each other's output.

    ``pressed`` ones have long outputs and differ in urgency, so that they grow until they push each other out.
    """
    vocabulary = rng.choice([2, 50, 30_000])

    def text(least: int, most: int) -> list[int]:
        return [rng.randrange(vocabulary) for _ in range(rng.randint(least, most))]

    heads = [text(1, 6 * block_size) for _ in range(rng.randint(1, 6))]
    most_output = 4 * block_size if pressed else rng.choice([1, 4, 2 * block_size, 4 * block_size])
    salts: list[str | None] = rng.choice([[None], [None, "blue"], ["blue", "red", None, None]])
    urgencies = [-1, 0, 1, 3] if pressed else rng.choice([[0], [0, 1], [-1, 0, 3]])
    skips = rng.choice([0, 0, 0.15])
    requests: list[Request] = []
    for _ in range(rng.choice([10, 60]) if pressed else rng.randint(5, 60)):
        way = rng.random()
        past = rng.choice(requests) if requests else None
        if past and way < 0.15:
            prompt = list(past.prompt)
        elif past and way < 0.5 and len(past.prompt) < 40 * block_size:
            prompt = past.prompt + past.output + text(1, 2 * block_size)
        else:
            prompt = rng.choice(heads) + text(0, 3 * block_size)
        if rng.random() < 0.25 and len(prompt) > block_size:
            prompt = prompt[: len(prompt) // block_size * block_size]
        requests.append(
            Request(
                prompt=prompt,
                output=text(1, most_output),
                arrival=0,
                salt=past.salt if past and way < 0.5 else rng.choice(salts),
                priority=rng.choice(urgencies),
                skip_lookup=rng.random() < skips,
            )
        )
    return requests


def _timed(rng: random.Random, requests: list[Request], span: int, *, distinct: bool) -> list[Request]:
    """Return ``requests`` in order of random arrivals within ``span`` units, all different if ``distinct``."""
    count = len(requests)
    moments = rng.sample(range(span), count) if distinct else [rng.randrange(span) for _ in range(count)]
    return [
        replace(request, arrival=moment) for request, moment in zip(requests, sorted(moments), strict=True)
    ]


def random_case(seed: int) -> Case:
    """Return the case of ``seed``."""
    rng = random.Random(seed)
    block_size = rng.choice([1, 2, 3, 4, 8, 16, 32, 64])
    pressed = rng.random() < 0.3
    requests = _conversations(rng, block_size, pressed=pressed)
    lengths = [len(r.prompt) + len(r.output) for r in requests]
    largest = max((length - 1 + block_size - 1) // block_size for length in lengths)
    chunked = rng.random() < 0.8
    arrivals: Arrivals = rng.choice(
        ["closed", "log"] if pressed else ["sequential", "closed", "closed", "log", "log"]
    )
    scheduler = SchedulerSpec(
        arrivals=arrivals,
        max_num_seqs=rng.choice([4, 16, 64] if pressed else [1, 2, 3, 4, 8, 16, 64]),
        max_num_batched_tokens=rng.choice([5, 9, 17, 256] if pressed else [1, 2, 7, 16, 64, 256, 2048])
        if chunked
        else max(lengths) + rng.choice([0, 64]),
        policy=rng.choice(["fcfs", "priority", "priority"] if pressed else ["fcfs", "priority"]),
        long_prefill_token_threshold=rng.choice([0, 0, 1, 5, 2 * block_size, 100]),
        enable_chunked_prefill=chunked,
        reserve_full_isl=rng.random() < 0.5,
        watermark_share=rng.choice([0.0, 0.0, 0.05, 0.3]),
        async_scheduling=rng.random() < 0.5,
    )
    clock = None
    if arrivals == "log":
        clock = rng.choice([StepTime(1, 0, 1), StepTime(7), StepTime(1_000, 35_500)])
        span = max(len(requests), rng.choice([20, 400]) * clock.step_us)
        # vLLM breaks a tie of priority and arrival by request id as text: the order of the log for one digit.
        distinct = scheduler.policy == "priority" and len(requests) > 10
        span = span if distinct else rng.choice([1, min(span, len(requests) * clock.step_us)])
        requests = _timed(rng, requests, span, distinct=distinct)
    capacity = max(1, int(largest * rng.choice([1, 1.5, 2, 3] if pressed else [1, 1, 1.3, 2, 5, 40])))
    return Case(seed, CacheSpec(block_size, capacity), scheduler, clock, requests)
