"""Arrivals, lengths and reported hits of all requests, and which answers a log supports. Figures: docs/metrics.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from kvtools.model import share
from kvtools.profile.state import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from numpy.typing import NDArray

    from kvtools.profile import TrafficColumns


class Period(msgspec.Struct, frozen=True, kw_only=True):
    """First and last arrival in µs, since the epoch or the start of a trace; the zone that the log is written in."""

    first_us: int
    last_us: int
    utc_offset_min: int


class Lengths(msgspec.Struct, frozen=True, kw_only=True):
    """Lengths in tokens of the ``requests`` that have one; ``std`` is the population's."""

    requests: int
    total: int
    mean: float
    std: float
    p50: float
    p95: float
    max: int


class Interarrival(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds between one arrival and the next, in the order of arrival."""

    mean: float
    p50: float
    p95: float
    max: float


class Reported(msgspec.Struct, frozen=True, kw_only=True):
    """Hits as the server reported them, not replayed: only requests of which it reported both sides.

    ``left_out_requests`` lack one of them. ``off_grid_requests``: cached tokens that their service does not count in.
    """

    requests: int
    left_out_requests: int
    prompt_tokens: int
    cached_tokens: int
    hit_rate: float | None
    hosted_requests: int
    off_grid_requests: int


class Traffic(msgspec.Struct, frozen=True, kw_only=True):
    """All requests that were sent, with a prompt or without; ``None`` where the log does not say."""

    requests: int
    arrivals: int
    period: Period | None
    rate_per_s: float | None
    interarrival_s: Interarrival | None
    prompt_tokens: Lengths | None
    output_tokens: Lengths | None
    reported: Reported | None


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a log supports an answer; ``why`` not, or of how many requests where not of all."""

    name: str
    supported: bool
    why: str


def traffic_figures(columns: TrafficColumns, utc_offset_min: int) -> Traffic:
    """Return the figures of all requests."""
    known = np.sort(columns.arrival_us[columns.arrival_us != UNKNOWN])
    seconds = np.diff(known) / 1e6
    return Traffic(
        requests=len(columns),
        arrivals=len(known),
        period=period_of(known, utc_offset_min),
        rate_per_s=len(seconds) / float(seconds.sum()) if seconds.any() else None,
        interarrival_s=interarrival(known),
        prompt_tokens=lengths(columns.prompt_tokens),
        output_tokens=lengths(columns.output_tokens),
        reported=_reported(columns),
    )


def period_of(arrival_us: NDArray[np.int64], utc_offset_min: int) -> Period | None:
    """Return first and last of the known arrivals, ``None`` where none is known."""
    known = arrival_us[arrival_us != UNKNOWN]
    if not len(known):
        return None
    return Period(first_us=int(known.min()), last_us=int(known.max()), utc_offset_min=utc_offset_min)


def interarrival(arrival_us: NDArray[np.int64]) -> Interarrival | None:
    """Return the time between one of the arrivals (sorted) and the next, ``None`` where there is no next."""
    seconds = np.diff(arrival_us) / 1e6
    if not len(seconds):
        return None
    return Interarrival(
        mean=float(seconds.mean()),
        p50=float(np.percentile(seconds, 50)),
        p95=float(np.percentile(seconds, 95)),
        max=float(seconds.max()),
    )


def lengths(tokens: NDArray[np.int64]) -> Lengths | None:
    """Return the lengths of the requests of which one is known, ``None`` where of none."""
    tokens = tokens[tokens != UNKNOWN]
    if not len(tokens):
        return None
    return Lengths(
        requests=len(tokens),
        total=int(tokens.sum()),
        mean=float(tokens.mean()),
        std=float(tokens.std()),
        p50=float(np.percentile(tokens, 50)),
        p95=float(np.percentile(tokens, 95)),
        max=int(tokens.max()),
    )


def _reported(columns: TrafficColumns) -> Reported | None:
    """Join per request: a hit without its prompt's tokens would count in the numerator alone."""
    hits = columns.cached_tokens != UNKNOWN
    if not hits.any():
        return None
    both = hits & (columns.reported_tokens != UNKNOWN)
    prompt, cached = int(columns.reported_tokens[both].sum()), int(columns.cached_tokens[both].sum())
    return Reported(
        requests=int(both.sum()),
        left_out_requests=len(columns) - int(both.sum()),
        prompt_tokens=prompt,
        cached_tokens=cached,
        hit_rate=share(cached, prompt),
        hosted_requests=int((both & columns.hosted).sum()),
        off_grid_requests=int((both & columns.off_grid).sum()),
    )


_NO_PROMPT = "no request has a prompt, token ids or block ids"
_MISSING = {
    "similarity_of_text": "block ids are no text",
    "routes": "no request names its tenant, app or endpoint",
    "conversations": "no session id, and no prompt that extends another",
    "predicted_against_reported": "no request has both a prompt and cached tokens counted as vLLM counts",
    "demand_in_flight": "it takes a cache size, and time and latency of every request",
}
"""What is missing where there are prompts, but not this answer."""


def answers(traffic: Traffic, prompts: int, supported: AbstractSet[str]) -> list[Answer]:
    """Return which answers a log supports, and why not the others.

    ``prompts`` of the requests have one; ``supported`` are those of ``_MISSING`` that are there.
    """
    holding = {
        "hit_rate": (prompts, _NO_PROMPT),
        "arrivals": (traffic.arrivals, "no request has a time"),
        "prompt_lengths": (_known(traffic.prompt_tokens), "no request has a count of prompt tokens"),
        "output_lengths": (_known(traffic.output_tokens), "no request has a count of output tokens"),
        "reported_hit_rate": (
            _known(traffic.reported),
            "no request has both cached and prompt tokens reported",
        ),
    }
    found = [_of_some(name, count, traffic.requests, why) for name, (count, why) in holding.items()]
    return found + [
        Answer(
            name=name,
            supported=name in supported,
            why="" if name in supported else why if prompts else _NO_PROMPT,
        )
        for name, why in _MISSING.items()
    ]


def _known(figures: Lengths | Reported | None) -> int:
    return figures.requests if figures else 0


def _of_some(name: str, count: int, requests: int, missing: str) -> Answer:
    part = f"{count:,} of {requests:,} requests" if count < requests else ""
    return Answer(name=name, supported=count > 0, why=part if count else missing)
