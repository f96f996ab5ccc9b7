"""An ASGI middleware that gives each completion and chat request its vLLM priority, for vLLM's ``--middleware``.

It sets the header ``X-Vllm-Priority``, which vLLM reads and puts before the ``priority`` of the body: the body itself
goes through as it came. It is read, and handed on afterwards, only where rules ask for something in it.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

from kvtools.heat.priority import COLD, HOT, vllm_priority, x_priority
from kvtools.heat.rules import Arriving, HeatRules
from kvtools.vllm_plugin.arriving import Body, Rhythm, prompt_tokens, read_body
from kvtools.vllm_plugin.settings import PrioritySettings, read_settings

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]

PATHS = ("/v1/completions", "/v1/chat/completions")
_VLLM, _PRIORITY, _TYPE = b"x-vllm-priority", b"x-priority", b"x-request-type"
_CLASSES = {"hot": HOT, "cold": COLD}
_INT64 = 1 << 63

_log = logging.getLogger("vllm.kvtools")  # below vLLM's own logger, so that its handlers write it


class BadHeader(Exception):  # noqa: N818 - answered with 400
    """A header has a value that it cannot have; the message is one sentence."""


class PriorityMiddleware:
    """Maps ``X-Priority``, ``X-Request-Type`` and the rules of ``kvtools rules`` to vLLM's priority.

    The first of these decides: ``X-Vllm-Priority``, ``X-Priority`` (1 to 5), ``X-Request-Type`` (hot or cold, where
    there are no rules: rules judge it themselves), a ``priority`` in the body, the rules. Else vLLM takes 0.
    """

    def __init__(
        self, app: App, settings: PrioritySettings | None = None, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        """Take the application that answers; ``settings`` are those of the environment, unless given.

        Raises:
            InputError: the file of rules cannot be read.
            UsageError: a setting is none.
        """
        self.app = app
        self.settings = settings or read_settings(PrioritySettings)
        self.rules = HeatRules.load(self.settings.rules) if self.settings.rules else None
        self._rhythm = Rhythm()
        self._now_s = now_s
        unseen = sorted(self._unseen())
        if unseen:
            _log.warning("%s: tests on %s never hold here", self.settings.rules, ", ".join(unseen))

    def _unseen(self) -> set[str]:
        """Return the features that the rules ask for and that no request shows here."""
        asked = {one.feature for rule in (self.rules.rules.rules if self.rules else ()) for one in rule.when}
        never = {"turn", "known_prefix_share", "priority"}
        if self.settings.route_header is None:
            never.add("route")
        if not self.settings.trust_requests:
            never.add("request_type")
        return asked & never

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer as the application does, with the priority in the request's headers."""
        path = str(scope.get("path", "")).removeprefix(scope.get("root_path") or "")
        if scope["type"] != "http" or scope.get("method") != "POST" or path not in PATHS:
            await self.app(scope, receive, send)
            return
        headers: list[tuple[bytes, bytes]] = list(scope["headers"])
        if not self.settings.trust_requests:
            headers = [pair for pair in headers if pair[0].lower() not in {_VLLM, _PRIORITY, _TYPE}]
        try:
            priority = _stated(headers, by_type=self.rules is None)
            if self.rules is not None:
                arriving = self._arrived(headers, path)
                if priority is None:
                    body, receive = await self._body(headers, receive)
                    priority = self._judged(self.rules, arriving, headers, body)
        except BadHeader as error:
            await _refuse(send, str(error))
            return
        if priority is not None:
            headers = [pair for pair in headers if pair[0].lower() != _VLLM]
            headers.append((_VLLM, str(priority).encode()))
        elif not self.settings.trust_requests:
            headers.append((_VLLM, b"0"))  # before whatever the body says
        await self.app({**scope, "headers": headers}, receive, send)

    async def _body(
        self, headers: list[tuple[bytes, bytes]], receive: Receive
    ) -> tuple[Body | None, Receive]:
        """Return the body, ``None`` where it is too large or no JSON, and a ``receive`` that gives all of it again."""
        most = self.settings.max_body_bytes
        declared = _one(headers, b"content-length") or "0"
        if declared.isdecimal() and int(declared) > most:
            return None, receive
        kept: list[Message] = []
        size, more = 0, True
        while more and size <= most:
            message = await receive()
            kept.append(message)
            size += len(message.get("body", b""))
            more = message["type"] == "http.request" and message.get("more_body", False)
        kept.reverse()

        async def again() -> Message:
            return kept.pop() if kept else await receive()

        if more or size > most:
            return None, again
        return read_body(b"".join(message.get("body", b"") for message in reversed(kept))), again

    def _arrived(self, headers: list[tuple[bytes, bytes]], path: str) -> Arriving:
        """Note the arrival; return what is known of it without the body."""
        route = path if self.settings.route_header == "path" else _named(headers, self.settings.route_header)
        # Requests of no known route share one rhythm, as they do in a log without routes.
        interval, variation = self._rhythm.arrived(route or "", self._now_s())
        return Arriving(
            route=route,
            recent_interval_s=interval,
            recent_interval_cv=variation,
            request_type=_one(headers, _TYPE),
        )

    def _judged(
        self, rules: HeatRules, arriving: Arriving, headers: list[tuple[bytes, bytes]], body: Body | None
    ) -> int | None:
        """Return the priority by the rules; ``None`` leaves it to the body's own."""
        body = body or Body()
        if self.settings.trust_requests and body.priority is not None:
            return None
        arriving.prompt_tokens = self._tokens(headers, body)
        rule = rules.fitted(arriving)
        if rule is None:
            return vllm_priority(x_priority(rules.rules.default))
        return vllm_priority(x_priority(rule.label, disk_cache=rule.disk_cache))

    def _tokens(self, headers: list[tuple[bytes, bytes]], body: Body) -> int | None:
        name = self.settings.tokens_header
        said = _named(headers, name)
        if said is None:
            return prompt_tokens(body, self.settings.bytes_per_token)
        if not said.isascii() or not said.isdecimal() or len(said) > 18:
            raise BadHeader(f"{name} is a number of tokens, not {said[:40]!r}.")
        return int(said)


def _stated(headers: list[tuple[bytes, bytes]], *, by_type: bool) -> int | None:
    """Return the priority that the headers state.

    Raises:
        BadHeader: a value is out of its range, or given twice.
    """
    own = _one(headers, _VLLM)
    if own is not None:
        number = _number(own)
        if number is None or not -_INT64 <= number < _INT64:
            raise BadHeader(
                f"X-Vllm-Priority is a whole number, the smallest the most urgent, not {own[:40]!r}."
            )
        return number
    urgency = _one(headers, _PRIORITY)
    if urgency is not None:
        number = _number(urgency)
        if number is None or not 1 <= number <= HOT:
            raise BadHeader(f"X-Priority is 1 to 5, where 5 is the most urgent, not {urgency[:40]!r}.")
        return vllm_priority(number)
    kind = _one(headers, _TYPE) if by_type else None
    return vllm_priority(_CLASSES[kind]) if kind in _CLASSES else None


def _number(text: str) -> int | None:
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdecimal() and len(digits) < 20 else None


def _named(headers: list[tuple[bytes, bytes]], name: str | None) -> str | None:
    return _one(headers, name.lower().encode("latin-1")) if name else None


def _one(headers: list[tuple[bytes, bytes]], name: bytes) -> str | None:
    values = {value for key, value in headers if key.lower() == name}
    if len(values) > 1:
        raise BadHeader(f"{name.decode('latin-1')} is given twice, with different values: send it once.")
    return values.pop().decode("latin-1").strip() if values else None


async def _refuse(send: Send, sentence: str) -> None:
    """Answer 400 in the form of vLLM's own errors."""
    error = {"message": sentence, "type": "BadRequestError", "param": None, "code": 400}
    body = json.dumps({"error": error}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 400, "headers": headers})
    await send({"type": "http.response.body", "body": body})
