"""What a page draws of a log: the rate over time, lengths and gaps as histograms, the largest shared prefixes.

Every list has a bound, so that a page of 2,000 requests and one of 2,000,000 are of one size. Figures: docs/metrics.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from kvtools.model import share
from kvtools.profile.outline import prefix_outline
from kvtools.profile.state import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from kvtools.model import ReplayResult
    from kvtools.profile import RequestColumns

MOST_WINDOWS = 96
_S = 1_000_000
WIDTHS_US = tuple(
    seconds * _S
    for seconds in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
)  # fmt: skip
_DAY_US = WIDTHS_US[-1]
STEPS_PER_DOUBLING = 4
STEPS_PER_DECADE = 5
SHORTEST_GAP_S = 0.001


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of the log: from ``from_us`` (``None`` without a clock) on, ``width_us`` long."""

    from_us: int | None
    width_us: int | None
    requests: int
    queried_tokens: int
    hit_tokens: int
    hit_rate: float | None


class Bin(msgspec.Struct, frozen=True, kw_only=True):
    """Requests whose value is at least ``at_least`` and below ``below``."""

    at_least: float
    below: float
    requests: int


class Histograms(msgspec.Struct, frozen=True, kw_only=True):
    """Prompt lengths in tokens, four bins for each doubling; seconds between arrivals, five for each decade.

    Gaps below a millisecond are one bin.
    """

    prompt_tokens: list[Bin]
    interarrival_s: list[Bin]


class PrefixNode(msgspec.Struct, frozen=True, kw_only=True):
    """Blocks that ``requests`` prompts share. ``parent`` is a place in the list, ``None`` at the top.

    In tokens of full blocks: ``first_token`` where the run begins, ``tokens`` its length, ``prompt_tokens`` those of
    all its requests in it, ``hit_tokens`` those of them that hit (``None`` where a request is several lookups), and
    ``below_prompt_tokens`` those in it and in all that follows it, shared or not. ``route`` where it is only one's.
    """

    parent: int | None
    first_token: int
    tokens: int
    requests: int
    prompt_tokens: int
    hit_tokens: int | None
    below_prompt_tokens: int
    route: str | None


def over_time(requests: RequestColumns, result: ReplayResult, utc_offset_min: int) -> list[Window]:
    """Return the hit rate over time in at most 96 windows; without a clock, in 50 equal parts of the log.

    Windows begin at full multiples of their width in the zone of the log.
    """
    return windows(requests.arrival_us, result, utc_offset_min)


def windows(arrival_us: NDArray[np.int64], result: ReplayResult, utc_offset_min: int) -> list[Window]:
    """Return the windows of ``over_time`` for requests that arrived at ``arrival_us``."""
    place, begins, width = spans(arrival_us, utc_offset_min)
    return _windows(place, len(begins), result, begins, width)


def spans(
    arrival_us: NDArray[np.int64], utc_offset_min: int
) -> tuple[NDArray[np.int64], list[int] | list[None], int | None]:
    """Return the window of each request, where each window begins and how wide they are (µs); as ``over_time``."""
    if not len(arrival_us):
        return arrival_us, [], None
    if (arrival_us == UNKNOWN).any():
        parts = min(50, len(arrival_us))
        return np.arange(len(arrival_us)) * parts // len(arrival_us), [None] * parts, None
    shift = utc_offset_min * 60 * _S
    first, last = int(arrival_us.min()) + shift, int(arrival_us.max()) + shift
    width = next(
        (width for width in WIDTHS_US if last // width - first // width < MOST_WINDOWS),
        ((last - first) // (MOST_WINDOWS - 2) // _DAY_US + 1) * _DAY_US,
    )
    start = first // width
    begins = [(start + number) * width - shift for number in range(last // width - start + 1)]
    return (arrival_us + shift) // width - start, begins, width


def _windows(
    place: NDArray[np.int64],
    count: int,
    result: ReplayResult,
    begins: Sequence[int | None],
    width: int | None,
) -> list[Window]:
    def summed(column: NDArray[np.int64]) -> list[int]:
        # Weights are floats in numpy; whole tokens below 2**53 stay exact.
        return [int(total) for total in np.rint(np.bincount(place, weights=column, minlength=count))]

    requests = np.bincount(place, minlength=count).tolist()
    rows = zip(begins, requests, summed(result.queried_tokens), summed(result.hit_tokens), strict=True)
    return [
        Window(
            from_us=begin,
            width_us=width,
            requests=number,
            queried_tokens=queried,
            hit_tokens=hit,
            hit_rate=share(hit, queried),
        )
        for begin, number, queried, hit in rows
    ]


def histograms(prompt_tokens: NDArray[np.int64], arrival_us: NDArray[np.int64]) -> Histograms:
    """Return how prompt lengths and the gaps between arrivals are spread; what is not known is left out."""
    tokens = prompt_tokens[prompt_tokens != UNKNOWN]
    known = np.sort(arrival_us[arrival_us != UNKNOWN])
    gaps = np.diff(known) / _S
    short = int((gaps < SHORTEST_GAP_S).sum())
    return Histograms(
        prompt_tokens=_bins(np.maximum(tokens, 1), 2.0, STEPS_PER_DOUBLING),
        interarrival_s=[
            *([Bin(at_least=0.0, below=SHORTEST_GAP_S, requests=short)] if short else []),
            *_bins(gaps[gaps >= SHORTEST_GAP_S], 10.0, STEPS_PER_DECADE),
        ],
    )


def _bins(values: NDArray[np.int64] | NDArray[np.float64], base: float, steps: int) -> list[Bin]:
    """Return bins whose edges are ``base ** (n / steps)``, from the first that holds a value to the last."""
    if not len(values):
        return []
    number = np.floor(np.log(values) / np.log(base) * steps + 1e-9).astype(np.int64)
    first, last = int(number.min()), int(number.max())
    counts = np.bincount(number - first, minlength=last - first + 1)
    return [
        Bin(at_least=base ** (n / steps), below=base ** ((n + 1) / steps), requests=int(count))
        for n, count in enumerate(counts.tolist(), start=first)
    ]


def prefix_tree(
    requests: RequestColumns, ids: NDArray[np.int32], result: ReplayResult, route_names: Mapping[int, str]
) -> list[PrefixNode]:
    """Return the largest shared prefixes; ``ids`` are the dense ids of ``requests.keys``."""
    size = result.spec.block_size
    found = prefix_outline(ids, requests.keys.offsets, -(-result.hit_tokens // size), requests.route)
    single = bool((requests.samples == 1).all())
    return [
        PrefixNode(
            parent=None if parent < 0 else parent,
            first_token=first * size,
            tokens=blocks * size,
            requests=count,
            prompt_tokens=uses * size,
            hit_tokens=hits * size if single else None,
            below_prompt_tokens=below * size,
            route=route_names.get(route),
        )
        for parent, first, blocks, count, uses, hits, below, route in zip(
            found.parent.tolist(),
            found.first_block.tolist(),
            found.blocks.tolist(),
            found.requests.tolist(),
            found.uses.tolist(),
            found.hits.tolist(),
            found.below.tolist(),
            found.route.tolist(),
            strict=True,
        )
    ]
