"""A synthetic log of an e-commerce assistant whose prompts scatter their values through the text.

The prompts are flat Chinese text: a stable head, then the user id, the time and the order id one after
another, a policy passage that goes with the question, and the question. One seed gives one log, byte for
byte, on every platform: the only source of chance is ``random.Random.random``, whose sequence Python
guarantees, and the samplers on top of it compare, add and divide but call no mathematical library.
"""

import json
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from importlib.resources import files
from itertools import accumulate
from random import Random
from typing import Any, Literal, Self

_START = datetime(2026, 7, 15, 8, tzinfo=timezone(timedelta(hours=8)))
# 5,000 requests in 72 minutes.
_MEAN_GAP_US = 864_000
_FOLLOW_UP_SHARE = 0.06
_FOLLOW_UP_WINDOW_US = 30_000_000
_REMARK_SHARE = 0.6
_VALUES_BLOCK = "\n[ID:{user}][TIME:{time}][NO:{order}]"


def shop_assistant(
    requests: int = 5000,
    seed: int = 7,
    values: Literal["scattered", "last"] = "scattered",
) -> Iterator[bytes]:
    """Yield the log as JSON lines: UTF-8, one request each, in order of arrival, newline included.

    A longer log of the same seed starts with the shorter one.

    Args:
        requests: number of lines.
        seed: chooses the log.
        values: ``scattered`` leaves user id, time and order id where they stand in the text; ``last``
            writes the same requests with these values in one block at the end of the prompt.
    """
    rng = Random(seed)  # noqa: S311 - a reproducible sample, not a secret
    phrases = _phrases()
    recent: deque[_Request] = deque()
    arrival_us = 0
    for number in range(1, requests + 1):
        arrival_us += int(_exponential(rng) * _MEAN_GAP_US)
        while recent and arrival_us - recent[0].arrival_us > _FOLLOW_UP_WINDOW_US:
            recent.popleft()
        request = _draw(rng, phrases, recent, arrival_us)
        recent.append(request)
        yield _line(number, request, values)


@dataclass(frozen=True)
class _Chances:
    """Items with weights, drawn by inverting the running total."""

    totals: tuple[float, ...]

    @classmethod
    def of(cls, weights: Sequence[float]) -> Self:
        return cls(tuple(accumulate(weights)))

    def draw(self, rng: Random) -> int:
        return min(bisect_right(self.totals, rng.random() * self.totals[-1]), len(self.totals) - 1)


@dataclass(frozen=True)
class _Route:
    """One use of the assistant: its fixed text and what is asked there."""

    name: str
    skeleton: str
    passages: Mapping[str, str]
    questions: Sequence[tuple[str, str]]
    """(passage, question), most frequent first."""
    remarks: Sequence[str]
    ranks: _Chances


@dataclass(frozen=True)
class _Phrases:
    """Every text of the log."""

    routes: Sequence[_Route]
    slots: Mapping[str, Sequence[str]]
    mix: _Chances


@dataclass(frozen=True)
class _Request:
    """What one request says, before it becomes a prompt."""

    arrival_us: int
    """Microseconds since the start of the log."""
    route: _Route
    user: str
    order: str
    passage: str
    question: str
    output_tokens: int


def _phrases() -> _Phrases:
    """Read the texts that ship beside this module."""
    data: dict[str, Any] = json.loads(files(__package__).joinpath("shop_phrases.json").read_bytes())
    routes = [
        _Route(
            name=route["name"],
            skeleton=route["skeleton"],
            passages=route["passages"],
            questions=[(passage, text) for passage, text in route["questions"]],
            remarks=route["remarks"],
            ranks=_Chances.of(_zipf(len(route["questions"]))),
        )
        for route in data["routes"]
    ]
    return _Phrases(routes, data["slots"], _Chances.of([route["weight"] for route in data["routes"]]))


def _zipf(ranks: int) -> list[float]:
    """Return the weight of each rank by Zipf's law: 1, 1/2, 1/3 and so on."""
    return [1 / rank for rank in range(1, ranks + 1)]


def _draw(rng: Random, phrases: _Phrases, recent: Sequence[_Request], arrival_us: int) -> _Request:
    """Draw one request: of a new customer, or of one who asks again about the same order."""
    if recent and rng.random() < _FOLLOW_UP_SHARE:
        earlier = recent[_below(rng, len(recent))]
        route, user, order = earlier.route, earlier.user, earlier.order
    else:
        route = phrases.routes[phrases.mix.draw(rng)]
        user, order = str(10_000 + _below(rng, 90_000)), str(100_000 + _below(rng, 900_000))
    topic, question = route.questions[route.ranks.draw(rng)]
    if rng.random() < _REMARK_SHARE:
        question += _remark(rng, route, phrases.slots)
    return _Request(
        arrival_us=arrival_us,
        route=route,
        user=user,
        order=order,
        passage=route.passages[topic],
        question=question,
        output_tokens=40 + int(_exponential(rng) * 60),
    )


def _remark(rng: Random, route: _Route, slots: Mapping[str, Sequence[str]]) -> str:
    """Compose what a customer adds in free text."""
    pattern = route.remarks[_below(rng, len(route.remarks))]
    return pattern.format(**{name: choices[_below(rng, len(choices))] for name, choices in slots.items()})


def _line(number: int, request: _Request, values: Literal["scattered", "last"]) -> bytes:
    """Return the request as a JSON line."""
    arrival = _START + timedelta(microseconds=request.arrival_us)
    record = {
        "id": f"req-{number:07d}",
        "timestamp": arrival.isoformat(timespec="milliseconds"),
        "model": "deepseek-v4",
        "route": request.route.name,
        "user": request.user,
        "prompt": _prompt(request, f"{arrival:%Y-%m-%dT%H:%M}", values),
        "output_tokens": request.output_tokens,
        "synthetic": True,
    }
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _prompt(request: _Request, time: str, values: Literal["scattered", "last"]) -> str:
    """Return the skeleton filled in, with the values in the text or in a block behind it."""
    skeleton = request.route.skeleton
    if values == "last":
        # The bare names keep the sentence readable and tell which value of the block belongs where.
        for scattered, name in (("[ID:{user}]", "[ID]"), ("{time}", "[TIME]"), ("[NO:{order}]", "[NO]")):
            skeleton = skeleton.replace(scattered, name)
        skeleton += _VALUES_BLOCK
    return skeleton.format(
        user=request.user,
        time=time,
        order=request.order,
        passage=request.passage,
        question=request.question,
    )


def _below(rng: Random, bound: int) -> int:
    """Draw a whole number from 0 to ``bound`` - 1."""
    return int(rng.random() * bound)


def _exponential(rng: Random) -> float:
    """Draw from the exponential distribution of mean 1 by comparisons alone.

    Von Neumann, "Various techniques used in connection with random digits" (1951). A logarithm would
    round differently from one C library to the next.
    """
    whole = 0
    while True:
        first = last = rng.random()
        descents = 1
        while (following := rng.random()) < last:
            last = following
            descents += 1
        if descents % 2 == 1:
            return whole + first
        whole += 1
