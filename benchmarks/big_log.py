"""A seeded log of chat requests of about 1,000 tokens, as long as is asked for, written as a stream.

    python benchmarks/big_log.py REQUESTS OUT.jsonl [SEED]

Twenty services with unequal shares of the traffic, each with a long system prompt. Some put a time or an id in front
of it, a customer in its middle, a date at its end, two forms of line ends, or examples in another order each time:
about six tokens in ten can be found in an unlimited cache. One conversation in twelve has two to six turns, which
interleave with the others. The same arguments give the same bytes; memory does not grow with the log.
"""

from __future__ import annotations

import heapq
import json
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

START_S = 1_784_073_600  # 15 Jul 2026 00:00 UTC
SERVICES = 20
SENTENCES = 3_000
MEAN_GAP_S = 0.5

# fmt: off
_WHO = [
    "The desk", "The driver", "A planner", "The buyer", "Your colleague", "The lab", "A tenant", "The host",
    "The clinic", "The editor",
]
_DOES = [
    "checks", "never shares", "records", "explains", "compares", "forwards", "postpones", "signs", "measures",
    "corrects", "files", "rejects",
]
_WHAT = [
    "the delivery note", "a late payment", "the room plan", "an open claim", "the meter reading", "a broken seal",
    "the travel list", "the loan period", "a second opinion", "the draft contract", "an empty shelf",
    "the service history", "a faulty sensor", "the guest list",
]
_WHEN = [
    "before noon", "once a week", "in writing", "without delay", "on request only", "after the call",
    "with both parties", "in the shared folder", "if the total is wrong", "unless a manager agrees",
    "at the end of the shift", "in simple words",
]
# fmt: on
_ASKS = (
    "Where is {order}? It was sent at {time} and has not arrived.",
    "Please cancel {order} for {user}; the reason is {what}.",
    "Summarise case {case} of {time} in three points.",
    "Is {user} allowed to move {order} to {date}?",
    "The device at {ip} reports {number} since {time}. What now?",
    "Draft a short answer about {case}: {number} units, due {date}.",
    "Compare {order} with {case} and list what differs.",
    "Why was {number} charged twice on {date} for {user}?",
)


def sentences(rng: Random, count: int) -> list[str]:
    """Return so many sentences of ten to twenty words."""
    lists = (_WHO, _DOES, _WHAT, _WHEN)
    clauses = [" ".join(map(rng.choice, lists)) for _ in range(2 * count)]
    return [
        f"{one}, and {other[0].lower()}{other[1:]} {rng.randrange(100)}."
        for one, other in zip(clauses[::2], clauses[1::2], strict=True)
    ]


@dataclass(frozen=True)
class Service:
    """A sender: what its requests begin with."""

    number: int
    head: str
    paragraphs: list[str]
    examples: list[str]

    @property
    def text(self) -> str:
        """The system prompt as it would be without a fault."""
        return "\n\n".join((self.head, *self.paragraphs))


def services(seed: int) -> list[Service]:
    """Return the services, with system prompts of 400 to 900 words."""
    found = []
    for number in range(SERVICES):
        rng = Random(f"{seed} service {number}")
        lines = sentences(rng, rng.randint(24, 54))
        paragraphs = [" ".join(lines[at : at + 5]) for at in range(0, len(lines), 5)]
        head = f"You answer for service-{number:02d}."
        found.append(Service(number, head, paragraphs, [f"Example: {one}" for one in sentences(rng, 6)]))
    return found


@dataclass
class Talk:
    """A conversation that goes on: who asks, how many turns are left, what was said."""

    number: int
    service: Service
    user: str
    turns: int
    system: str
    said: list[dict[str, str]] = field(default_factory=list)


def system_text(service: Service, rng: Random, at_s: float, user: str) -> str:
    """Return the system prompt as this service sends it."""
    text, kind = service.text, service.number
    half = len(service.paragraphs) // 2
    if kind in (0, 1):
        text = f"Now: {stamp(at_s)}\n{text}"
    elif kind == 2:
        text = f"request {rng.getrandbits(96):024x}\n{text}"
    elif kind == 3:
        parts = [service.head, *service.paragraphs[:half], f"Customer: {user}", *service.paragraphs[half:]]
        text = "\n\n".join(parts)
    elif kind == 4:
        text = f"{text}\n\nToday is {stamp(at_s)[:10]}."
    elif kind == 5:
        text = text.replace("\n\n", " \r\n\r\n") if rng.random() < 0.5 else text
    elif kind == 6:
        text = "\n".join((service.head, *rng.sample(service.examples, 3), *service.paragraphs))
    return text


def stamp(at_s: float) -> str:
    """Return the time as ISO 8601, in seconds."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def question(rng: Random, at_s: float, user: str, pool: list[str]) -> str:
    """Return what a user asks; one time in seven with a longer text."""
    text = rng.choice(_ASKS).format(
        order=f"ORD-{rng.randrange(10**8):08d}",
        case=f"C{rng.randrange(10**6):06d}",
        user=user,
        time=stamp(at_s - rng.randrange(250_000)),
        date=stamp(at_s + rng.randrange(2_000_000))[:10],
        ip=f"10.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(256)}",
        number=rng.randrange(1, 5_000),
        what=rng.choice(_WHAT),
    )
    return f"{text}\n\n{' '.join(rng.choices(pool, k=rng.randint(2, 7)))}" if rng.random() < 0.15 else text


def requests(count: int, seed: int = 7) -> Iterator[dict[str, Any]]:
    """Yield the records in the order of their arrival."""
    rng, senders = Random(seed), services(seed)
    pool = sentences(rng, SENTENCES)
    shares = list(accumulate((1 + number * 7 % SERVICES) ** -0.9 for number in range(SERVICES)))
    waiting: list[tuple[float, int, Talk]] = []
    fresh_s, talks = float(START_S), 0
    for number in range(count):
        if waiting and waiting[0][0] <= fresh_s:
            at_s, _, talk = heapq.heappop(waiting)
        else:
            at_s, talks = fresh_s, talks + 1
            fresh_s += rng.expovariate(1 / MEAN_GAP_S)
            sender, user = rng.choices(senders, cum_weights=shares)[0], f"u{rng.randrange(10**6):06d}"
            turns = rng.randint(2, 6) if rng.random() < 1 / 12 else 1
            talk = Talk(talks, sender, user, turns, "")
        talk.system = system_text(talk.service, rng, at_s, talk.user)
        asked = question(rng, at_s, talk.user, pool)
        answer = " ".join(rng.choices(pool, k=rng.randint(1, 4)))
        messages = [
            {"role": "system", "content": talk.system},
            *talk.said,
            {"role": "user", "content": asked},
        ]
        yield {
            "id": f"req-{number:08d}",
            "timestamp": round(at_s, 3),
            "model": "demo/chat",
            "tenant": f"service-{talk.service.number:02d}",
            "session_id": f"s{talk.number:08d}",
            "messages": messages,
            "response": answer,
        }
        talk.turns -= 1
        if talk.turns:
            talk.said = [*messages[1:], {"role": "assistant", "content": answer}]
            heapq.heappush(waiting, (at_s + rng.uniform(5, 120), number, talk))


def write_log(path: Path, count: int, seed: int = 7) -> Path:
    """Write the log, one JSON object per line, and return its path."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for record in requests(count, seed):
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
    return path


if __name__ == "__main__":
    write_log(Path(sys.argv[2]), int(sys.argv[1]), int(sys.argv[3]) if len(sys.argv) > 3 else 7)
