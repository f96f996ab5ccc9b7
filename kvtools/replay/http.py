"""One request to an OpenAI-compatible server: sent, retried where the server asks for patience, read."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx

from kvtools.errors import EngineError
from kvtools.replay.journal import Finished

if TYPE_CHECKING:
    from collections.abc import Mapping

PATIENCE_TRIES = 6
PATIENCE_S = 60.0
"""A server that says 429 or 503 is asked again so often, and waited for at most so long in one go."""

_BUSY = (429, 503)
_REFUSED = (400, 413, 422)


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server said of one request. ``hit_tokens`` is ``None`` where it does not report cached tokens."""

    index: int
    queried_tokens: int
    hit_tokens: int | None
    refused: str | None = None

    def finished(self) -> Finished:
        """Return it as the journal keeps it."""
        return Finished(
            self.index, self.queried_tokens, self.hit_tokens or 0, refused=self.refused is not None
        )


async def ask(client: httpx.AsyncClient, index: int, body: Mapping[str, Any]) -> Answer:
    """Send one request and return what was hit.

    Raises:
        EngineError: the server is gone, refuses this client, or stays busy.
    """
    path = "/v1/chat/completions" if "messages" in body else "/v1/completions"
    for attempt in range(PATIENCE_TRIES):
        try:
            response = await client.post(path, json=body)
        except httpx.HTTPError as error:
            raise EngineError(f"the server is gone at request {index + 1:,} ({describe(error)})") from None
        if response.status_code not in _BUSY:
            return _answer(response, index)
        if attempt + 1 < PATIENCE_TRIES:
            await asyncio.sleep(_patience(response, attempt))
    raise EngineError(
        f"the server stays busy (HTTP {response.status_code} after {PATIENCE_TRIES} tries) at request {index + 1:,}"
    )


def _patience(response: httpx.Response, attempt: int) -> float:
    try:
        asked = float(response.headers.get("retry-after", ""))
    except ValueError:
        asked = 0.5 * 2**attempt
    return min(max(asked, 0.0), PATIENCE_S)


def _answer(response: httpx.Response, index: int) -> Answer:
    if response.status_code in _REFUSED:
        return Answer(index, 0, 0, refused=_reason(response))
    if response.status_code != httpx.codes.OK:
        raise EngineError(
            f"the server answers HTTP {response.status_code} to request {index + 1:,}: {_reason(response)}"
        )
    try:
        usage = response.json()["usage"]
        queried = int(usage["prompt_tokens"])
    except (ValueError, KeyError, TypeError):
        raise EngineError(
            f"the answer to request {index + 1:,} carries no usage: not an OpenAI-compatible server?"
        ) from None
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    return Answer(index, queried, None if cached is None else int(cached))


def _reason(response: httpx.Response) -> str:
    try:
        body = response.json()
        message = body["error"]["message"] if isinstance(body.get("error"), dict) else body["message"]
    except (ValueError, KeyError, TypeError, AttributeError):
        message = response.text
    return " ".join(str(message).split())[:200] or "no reason given"


def describe(error: httpx.HTTPError) -> str:
    """Say in a few words what went wrong on the wire."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
