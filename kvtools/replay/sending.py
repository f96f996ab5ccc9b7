"""Requests sent to warm a server: in their order, so many at once, retried while it is busy, and asked once more."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx

from kvtools.errors import EngineError, InputError
from kvtools.replay.counters import Counters, counters_of, read_page
from kvtools.replay.http import Answer, ask, describe

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass(frozen=True, slots=True)
class WarmupRequest:
    """One line: its name, body, and the tokens of the prefix that it warms in blocks of ``block_size``."""

    id: str
    body: dict[str, Any]
    tokens: int
    block_size: int


@dataclass(slots=True)
class Delivery:
    """What was sent so far: answers by place, those to the second asking, and the counters before and after."""

    answers: dict[int, Answer] = field(default_factory=dict)
    verified: dict[int, Answer] = field(default_factory=dict)
    before: Counters | None = None
    after: Counters | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """A server. ``model``: its name there, for lines whose own is not served; ``in_flight`` requests at once."""

    url: str
    model: str | None = None
    api_key: str | None = None
    in_flight: int = 4
    timeout_s: float = 600.0


def deliver(
    lines: Sequence[WarmupRequest],
    target: Target,
    delivery: Delivery,
    *,
    verify: bool,
    advance: Callable[[int], None],
) -> None:
    """Send ``lines`` and note every answer in ``delivery``, which stands also where this ends early.

    Raises:
        EngineError: no server answers, it refuses this client, stays busy, or is gone on the way.
        InputError: the server does not serve the model of a line.
    """
    asyncio.run(_deliver(lines, target, delivery, verify=verify, advance=advance))


async def _deliver(
    lines: Sequence[WarmupRequest],
    target: Target,
    delivery: Delivery,
    *,
    verify: bool,
    advance: Callable[[int], None],
) -> None:
    headers = {"authorization": f"Bearer {target.api_key}"} if target.api_key else {}
    async with httpx.AsyncClient(
        base_url=target.url.rstrip("/"), headers=headers, timeout=target.timeout_s
    ) as client:
        served = await _models(client)
        bodies = [_named(line, served, target.model) for line in lines]
        delivery.before = await _counters(client)
        await _all(client, list(enumerate(bodies)), target.in_flight, delivery.answers, advance)
        delivery.after = await _counters(client)
        if verify:
            again = [
                (place, _once_more(bodies[place]))
                for place, answer in sorted(delivery.answers.items())
                if answer.refused is None
            ]
            await _all(client, again, target.in_flight, delivery.verified, advance)


async def _all(
    client: httpx.AsyncClient,
    bodies: list[tuple[int, dict[str, Any]]],
    in_flight: int,
    answers: dict[int, Answer],
    advance: Callable[[int], None],
) -> None:
    queue = iter(bodies)

    async def seat() -> None:
        for place, body in queue:
            answers[place] = await ask(client, place, body)
            advance(1)

    seats = [asyncio.ensure_future(seat()) for _ in range(in_flight)]
    try:
        await asyncio.gather(*seats)
    except EngineError as error:
        raise EngineError(
            f"{client.base_url}: {error}; {len(answers):,} of {len(bodies):,} requests were answered."
        ) from None
    finally:
        for one in seats:
            one.cancel()
        await asyncio.gather(*seats, return_exceptions=True)


def _named(line: WarmupRequest, served: list[str], model: str | None) -> dict[str, Any]:
    own = line.body.get("model")
    if own in served:
        return line.body
    if model is None and own is not None:
        raise InputError(
            f"{line.id}: the server does not serve {own!r} (it serves {', '.join(served[:5])}): name one with --model."
        )
    return {**line.body, "model": model or served[0]}


def _once_more(body: dict[str, Any]) -> dict[str, Any]:
    """Return a request of the same prefix: bare ids get one more, since at most n-1 tokens of a prompt can hit."""
    ids = body.get("prompt")
    return {**body, "prompt": [*ids, ids[-1]]} if isinstance(ids, list) and ids else body


async def _models(client: httpx.AsyncClient) -> list[str]:
    try:
        response = await client.get("/v1/models")
        response.raise_for_status()
        names = [str(entry["id"]) for entry in response.json()["data"]]
    except httpx.HTTPStatusError as error:
        code = error.response.status_code
        raise EngineError(
            f"{client.base_url}: /v1/models answers HTTP {code}; check --url and --api-key."
        ) from None
    except httpx.HTTPError as error:
        raise EngineError(f"{client.base_url}: no server answers ({describe(error)}); check --url.") from None
    except (ValueError, KeyError, TypeError):
        names = []
    if not names:
        raise EngineError(f"{client.base_url}: not an OpenAI-compatible server; check --url.")
    return names


async def _counters(client: httpx.AsyncClient) -> Counters | None:
    try:
        response = await client.get("/metrics")
    except httpx.HTTPError:
        return None
    return counters_of(read_page(response.text)) if response.status_code == httpx.codes.OK else None
