"""An application that tells what reached it, and clients for it: ASGI by hand, on plain asyncio."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

from kvtools.vllm_plugin.middleware import PriorityMiddleware
from kvtools.vllm_plugin.settings import PrioritySettings


@dataclass
class Reached:
    """What came through to the application; ``pieces`` of the body as they came; ``taken_before`` it was called."""

    scope: dict[str, Any] | None = None
    pieces: list[bytes] = field(default_factory=list)
    ended_by: str = ""
    taken_before: int = 0
    status: int = 0
    answer: bytes = b""

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)

    @property
    def priority(self) -> str | None:
        """The value of ``X-Vllm-Priority`` as vLLM (starlette) reads it: the first of that name."""
        assert self.scope is not None
        found = [value for name, value in self.scope["headers"] if name == b"x-vllm-priority"]
        assert len(found) <= 1
        return found[0].decode() if found else None

    @property
    def refusal(self) -> str:
        assert self.scope is None
        assert self.status == 400
        return str(json.loads(self.answer)["error"]["message"])


class Client:
    """Sends requests through one middleware."""

    def __init__(self, **settings: Any) -> None:
        self.reached = Reached()
        self.taken = 0
        self.now_s = 0.0
        self.middleware = PriorityMiddleware(
            self._application, PrioritySettings(**settings), now_s=lambda: self.now_s
        )

    async def _application(self, scope: Any, receive: Any, send: Any) -> None:
        reached = self.reached
        reached.scope, reached.taken_before = dict(scope), self.taken
        if scope["type"] != "http":
            return
        while True:
            message = await receive()
            reached.ended_by = message["type"]
            if message["type"] != "http.request":
                break
            reached.pieces.append(message.get("body", b""))
            if not message.get("more_body", False):
                break
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})

    def send(
        self,
        body: Any = b"",
        headers: dict[str, str] | list[tuple[str, str]] | None = None,
        *,
        path: str = "/v1/completions",
        pieces: list[bytes] | None = None,
        disconnects: bool = False,
        **scope: Any,
    ) -> Reached:
        """Send one request; ``pieces`` are the chunks in which the body comes."""
        self.reached, self.taken = Reached(), 0
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        chunks = [raw] if pieces is None else pieces
        messages = [
            {"type": "http.request", "body": chunk, "more_body": disconnects or place < len(chunks) - 1}
            for place, chunk in enumerate(chunks)
        ]
        if disconnects:
            messages.append({"type": "http.disconnect"})

        async def receive() -> Any:
            self.taken += 1
            return messages[self.taken - 1]

        async def send(message: Any) -> None:
            self.reached.status = message.get("status", self.reached.status)
            self.reached.answer += message.get("body", b"")

        pairs = headers.items() if isinstance(headers, dict) else headers or ()
        whole = {
            "type": "http",
            "method": "POST",
            "path": path,
            "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in pairs],
        } | scope
        asyncio.run(self.middleware(whole, receive, send))
        return self.reached
