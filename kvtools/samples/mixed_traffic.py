"""A synthetic log of interactive traffic mixed with report jobs: times, routes and lengths, no prompts.

Hot routes ask every 50-200 ms, steadily, with fewer than 512 prompt tokens. Cold routes come in bursts with long
rests between them: inside a burst every 0.5-5 s, with 128-2,048 prompt tokens. Lengths overlap, so that length alone
tells the two apart badly; how often a route asks does. Which request is which stands in no line of the log.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

_START_MS = 1_784_073_600_000  # 15 Jul 2026 00:00 UTC
_HOT_ROUTES = ("chat", "search", "suggest")
_HOT_GAP_MS = (50, 200)
_HOT_TOKENS = (64, 511)
_COLD_GAP_MS = (500, 5_000)
_COLD_TOKENS = (128, 2_048)
_BURST_REQUESTS = (12, 60)
_REST_MS = (2_000, 20_000)
_COLD_RATE = 0.3
"""Requests a second of a cold route, about: gaps of 2.75 s and rests of 11 s between bursts of 36."""
_HOT_RATE = 8.0


@dataclass(frozen=True)
class MixedRequest:
    """One request: arrival in ms since the epoch, its route, lengths in tokens, and whether it is cold."""

    arrival_ms: int
    route: str
    prompt_tokens: int
    output_tokens: int
    cold: bool


def mixed_requests(requests: int = 20_000, seed: int = 7, cold_share: float = 0.15) -> list[MixedRequest]:
    """Return the requests in order of arrival with their labels: for judges, who know what the log does not say.

    About ``cold_share`` (0..1) of them are cold.
    """
    rng = Random(seed)  # noqa: S311 - a reproducible sample, not a secret
    count = max(1, round(cold_share / (1 - cold_share) * len(_HOT_ROUTES) * _HOT_RATE / _COLD_RATE))
    streams = [_hot(rng, route) for route in _HOT_ROUTES]
    streams += [_cold(rng, f"report-{number:02d}") for number in range(1, count + 1)]
    return [request for _, request in zip(range(requests), _merged(streams), strict=False)]


def mixed_traffic(requests: int = 20_000, seed: int = 7, cold_share: float = 0.15) -> Iterator[bytes]:
    """Yield the log as CSV: UTF-8, header first, one request each, in order of arrival; one seed gives one log."""
    yield b"request_id,timestamp,route,prompt_tokens,output_tokens\n"
    for number, one in enumerate(mixed_requests(requests, seed, cold_share), 1):
        yield (
            f"mix-{number:07d},{one.arrival_ms / 1000:.3f},{one.route},{one.prompt_tokens},{one.output_tokens}\n"
        ).encode()


def _merged(streams: list[Iterator[MixedRequest]]) -> Iterator[MixedRequest]:
    return heapq.merge(*streams, key=lambda request: request.arrival_ms)


def _between(rng: Random, limits: tuple[int, int]) -> int:
    return limits[0] + int(rng.random() * (limits[1] - limits[0] + 1))


def _hot(rng: Random, route: str) -> Iterator[MixedRequest]:
    at = _START_MS + _between(rng, _HOT_GAP_MS)
    own = Random(rng.random())  # noqa: S311 - a stream of its own, whatever the others draw
    while True:
        yield MixedRequest(at, route, _between(own, _HOT_TOKENS), _between(own, (20, 400)), cold=False)
        at += _between(own, _HOT_GAP_MS)


def _cold(rng: Random, route: str) -> Iterator[MixedRequest]:
    at = _START_MS + _between(rng, _REST_MS)
    own = Random(rng.random())  # noqa: S311 - a stream of its own, whatever the others draw
    while True:
        for _ in range(_between(own, _BURST_REQUESTS)):
            # Short reports are the more frequent ones.
            tokens = min(
                _between(own, _COLD_TOKENS), _between(own, _COLD_TOKENS), _between(own, _COLD_TOKENS)
            )
            yield MixedRequest(at, route, tokens, _between(own, (20, 800)), cold=True)
            at += _between(own, _COLD_GAP_MS)
        at += _between(own, _REST_MS)
