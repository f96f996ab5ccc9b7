"""A running OpenAI-compatible server: the log is sent to it, and its own figures say what was hit.

Hits are read from ``usage.prompt_tokens_details.cached_tokens`` of each answer and checked against the difference of
the server's ``/metrics`` counters. A warm cache is never called cold: it is reset where the server allows
(``POST /reset_prefix_cache``), else the start state says what is known.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

import httpx
import msgspec
import numpy as np

from kvtools.errors import EngineError, InputError, UsageError
from kvtools.model import ReplayResult, StartState
from kvtools.replay.counters import Counters, counters_of, read_page
from kvtools.replay.engine import Needs
from kvtools.replay.http import Answer, ask, describe
from kvtools.replay.log import UNKNOWN
from kvtools.replay.workload import output_lengths

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from numpy.typing import NDArray

    from kvtools.readers.prometheus import CacheConfig
    from kvtools.replay.engine import Run
    from kvtools.replay.log import ReplayLog


_FASTEST = 1e9


@dataclass(frozen=True, slots=True)
class ServerEngine:
    """A server at ``url``. ``model``: its name there (``None``: the first it lists).

    ``in_flight`` requests at once with ``--arrivals closed``; with ``--arrivals log`` the log's own times, divided
    by ``speed``. ``timeout_s`` is the longest that one answer may take.
    """

    url: str
    model: str | None = None
    api_key: str | None = None
    in_flight: int = 8
    speed: float = 1.0
    timeout_s: float = 600.0
    name: ClassVar[str] = "server"
    needs: ClassVar[Needs] = Needs(bodies=True)

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise UsageError(f"--url {self.url}: not a server's address; write http://HOST:PORT.")
        if not (0 < self.speed < _FASTEST and self.in_flight >= 1):
            raise UsageError("--speed is above 0, --in-flight at least 1.")

    def replay(self, log: ReplayLog, run: Run) -> ReplayResult:
        """Send the log; see ``Engine.replay``."""
        if log.bodies is None or "{}" in log.bodies:
            raise InputError(
                "the log holds block ids, no prompts: a server cannot take it; use --engine simulator."
            )
        if run.cache.rules != "vllm" or run.cache.outputs == "text":
            raise UsageError(
                "a server replays with --rules vllm and --outputs one or lengths: it writes its own answers."
            )
        if run.scheduler.arrivals == "log" and (log.arrival_us == UNKNOWN).any():
            raise InputError(
                "--arrivals log: some requests have no time; replay with --arrivals closed or sequential."
            )
        return asyncio.run(self._replay(log, run))

    async def _replay(self, log: ReplayLog, run: Run) -> ReplayResult:
        headers = {"authorization": f"Bearer {self.api_key}"} if self.api_key else {}
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(
            base_url=self.url.rstrip("/"), headers=headers, timeout=self.timeout_s, limits=limits
        ) as client:
            model = self.model or await _first_model(client)
            page = read_page(await _metrics(client))
            config, before = page.config, counters_of(page)
            if config.enable_prefix_caching is False:
                raise EngineError(
                    f"{self.url}: the server runs without prefix caching; start it with the cache on."
                )
            start, before = await _start(client, run, before)
            answers = await self._send(client, log, run, model)
            after = counters_of(read_page(await _metrics(client)))
        return _result(self.url, log, run, _Seen(start, before, after, config, answers))

    async def _send(self, client: httpx.AsyncClient, log: ReplayLog, run: Run, model: str) -> list[Answer]:
        lengths = output_lengths(log, run.cache)
        answers: list[Answer] = []

        async def send(index: int) -> None:
            answer = await ask(client, index, _body(log, run, index, int(lengths[index]), model))
            answers.append(answer)
            run.journal.note(answer.finished())
            run.advance(1)

        waiting = [index for index in range(len(log)) if index not in run.journal.finished]
        try:
            await self._paced(waiting, log, run, send)
        except EngineError as error:
            done = len(run.journal.finished)
            raise EngineError(
                f"{self.url}: {error}; {done:,} of {len(log):,} requests are finished"
                " (with --per-request FILE they are kept, and --resume continues)."
            ) from None
        return answers

    async def _paced(
        self, waiting: list[int], log: ReplayLog, run: Run, send: Callable[[int], Awaitable[None]]
    ) -> None:
        """Send the requests one after another, so many at once, or at the log's times."""
        if run.scheduler.arrivals == "log":
            await _all(self._at_its_time(index, waiting[0], log, send) for index in waiting)
            return
        seats = 1 if run.scheduler.arrivals == "sequential" else self.in_flight
        queue = iter(waiting)

        async def seat() -> None:
            for index in queue:
                await send(index)

        await _all(seat() for _ in range(seats))

    async def _at_its_time(
        self, index: int, first: int, log: ReplayLog, send: Callable[[int], Awaitable[None]]
    ) -> None:
        await asyncio.sleep(int(log.arrival_us[index] - log.arrival_us[first]) / 1e6 / self.speed)
        await send(index)


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the server showed of itself before, during and after the replay."""

    start: StartState
    before: Counters | None
    after: Counters | None
    config: CacheConfig
    answers: list[Answer]


async def _all(work: Any) -> None:
    """Run everything at once; the first error ends the rest."""
    tasks = [asyncio.ensure_future(task) for task in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _first_model(client: httpx.AsyncClient) -> str:
    try:
        response = await client.get("/v1/models")
        response.raise_for_status()
        return str(response.json()["data"][0]["id"])
    except httpx.HTTPStatusError as error:
        code = error.response.status_code
        raise EngineError(
            f"{client.base_url}: /v1/models answers HTTP {code}; check --url and --api-key."
        ) from None
    except httpx.HTTPError as error:
        raise EngineError(f"{client.base_url}: no server answers ({describe(error)}); check --url.") from None
    except (ValueError, KeyError, IndexError, TypeError):
        raise EngineError(f"{client.base_url}: not an OpenAI-compatible server; check --url.") from None


async def _metrics(client: httpx.AsyncClient) -> str:
    """Return the metrics page, empty where the server has none."""
    try:
        response = await client.get("/metrics")
    except httpx.HTTPError:
        return ""
    return response.text if response.status_code == httpx.codes.OK else ""


async def _start(
    client: httpx.AsyncClient, run: Run, counters: Counters | None
) -> tuple[StartState, Counters | None]:
    """Empty the cache or find out its state; return it with the counters that the replay begins from."""
    if run.journal.finished:
        state = run.journal.state
        before = Counters(**state["counters"]) if state.get("counters") else None
        if before is not None and counters is not None and counters.queried_tokens < before.queried_tokens:
            raise EngineError("the server was restarted and its cache is gone: run again without --resume.")
        start: StartState = state.get("start", "unknown")
        return start, before
    start = "unknown" if counters is None else "cold" if counters.queried_tokens == 0 else "warm"
    if start != "cold":
        try:
            response = await client.post("/reset_prefix_cache")
            start = "cold" if response.status_code == httpx.codes.OK else start
        except httpx.HTTPError:
            pass
    run.journal.remember(start=start, counters=None if counters is None else asdict(counters))
    return start, counters


def _body(log: ReplayLog, run: Run, index: int, length: int, model: str) -> dict[str, Any]:
    assert log.bodies is not None  # noqa: S101 - replay() has checked it
    body: dict[str, Any] = msgspec.json.decode(log.bodies[index])
    body |= {"model": model, "max_tokens": length, "temperature": 0}
    if run.cache.outputs == "lengths":
        body["ignore_eos"] = True
    if run.scheduler.policy == "priority":
        body["priority"] = int(log.priority[index])
    if len(np.unique(log.namespace)) > 1:
        # Namespaces never share; a salt of their own does the same in the engine and tells it nothing of them.
        body["cache_salt"] = f"{int(log.namespace[index]):016x}"
    return body


def _result(url: str, log: ReplayLog, run: Run, seen: _Seen) -> ReplayResult:
    finished = [run.journal.finished[index] for index in range(len(log))]
    hits = np.array([request.hit_tokens for request in finished], dtype=np.int64)
    queried = np.array([request.queried_tokens for request in finished], dtype=np.int64)
    # vLLM leaves the details out where nothing was hit; a server that never gives them says nothing at all.
    told = any(answer.hit_tokens is not None for answer in seen.answers)
    no_counters = seen.before is None or seen.after is None
    silent = not told and (no_counters or _counted(seen)[1] > 0)
    if silent and no_counters:
        raise EngineError(
            f"{url}: the server reports neither cached tokens nor counters; "
            "start vLLM with --enable-prompt-tokens-details."
        )
    return ReplayResult(
        engine="server",
        spec=replace(run.cache, block_size=seen.config.block_size or run.cache.block_size),
        start_state=seen.start,
        queried_tokens=queried,
        hit_tokens=hits,
        refused=np.array([request.refused for request in finished], dtype=np.bool_),
        evictions=None,
        counted_hit_tokens=_counted(seen)[1] if silent else None,
        preemptions=None
        if not (seen.before and seen.after)
        else seen.after.preemptions - seen.before.preemptions,
        notes=tuple(_notes(run, seen, queried, hits, silent=silent)),
    )


def _counted(seen: _Seen) -> tuple[int, int]:
    """Return the queried and hit tokens by which the server's counters moved."""
    if seen.before is None or seen.after is None:
        return 0, 0
    return (
        seen.after.queried_tokens - seen.before.queried_tokens,
        seen.after.hit_tokens - seen.before.hit_tokens,
    )


def _notes(
    run: Run, seen: _Seen, queried: NDArray[np.int64], hits: NDArray[np.int64], *, silent: bool
) -> list[str]:
    notes = []
    refusals = [answer.refused for answer in seen.answers if answer.refused is not None]
    if refusals:
        notes.append(f"{len(refusals):,} refused by the server, the first: {refusals[0]}")
    if silent:
        notes.append(
            "the server reports no cached tokens per request (vLLM: --enable-prompt-tokens-details): "
            "the total is from its counters, hits of single requests are unknown."
        )
    if seen.config.block_size not in {None, run.cache.block_size}:
        notes.append(f"the server's blocks hold {seen.config.block_size} tokens, not {run.cache.block_size}.")
    if seen.before is None or seen.after is None:
        notes.append("the server shows no counters to check the hits against.")
        return notes
    counted = _counted(seen)
    summed = (int(queried.sum()), counted[1] if silent else int(hits.sum()))
    if counted == summed:
        notes.append(f"the server's counters agree: {counted[1]:,} of {counted[0]:,} tokens.")
    else:
        notes.append(
            f"the server's counters moved by {counted[1]:,} of {counted[0]:,} tokens, the answers say {summed[1]:,} of "
            f"{summed[0]:,}: something else used the server, or requests were repeated."
        )
    return notes
