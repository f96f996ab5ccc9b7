"""The six requests of the canonical log.

Two conversations of one assistant (the second turn resends the first), one request with a tool, one with the line
separator U+2028 inside a string and an emoji and without a route, one repeated prompt.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

BLOCK_TOKENS = 16
MODEL = "demo/chat"
START_MS = 1_784_073_600_000  # 2026-07-15T00:00:00Z
_SYSTEM = (
    "You are the assistant of a small garden shop. Answer in two sentences, name the plant first, "
    "and never promise a delivery date."
)
_TOOL = {
    "type": "function",
    "function": {
        "name": "stock",
        "parameters": {"type": "object", "properties": {"plant": {"type": "string"}}},
    },
}


@dataclass(frozen=True, slots=True)
class Request:
    """One request: its id, when it comes (ms after the first) and what a log can say of it."""

    name: str
    after_ms: int
    output_tokens: int
    messages: list[dict[str, Any]]
    route: str | None = None
    session: str | None = None
    tools: list[dict[str, Any]] | None = None

    @property
    def at_ms(self) -> int:
        """Milliseconds since the epoch."""
        return START_MS + self.after_ms


def _system(*turns: str) -> list[dict[str, Any]]:
    roles = ("user", "assistant")
    talk = [{"role": roles[index % 2], "content": text} for index, text in enumerate(turns)]
    return [{"role": "system", "content": _SYSTEM}, *talk]


REQUESTS = (
    Request("c-1", 0, 21, _system("Does rosemary survive frost?"), "care", "s-1"),
    Request("c-2", 1_500, 18, _system("Which roses like shade?"), "care", "s-2"),
    Request(
        "c-3", 9_250, 25,
        _system("Does rosemary survive frost?", "Rosemary survives light frost. Cover it.", "And in a pot?"),
        "care", "s-1",
    ),
    Request("c-4", 12_000, 9, _system("Is thyme in stock?"), "orders", None, [_TOOL]),
    Request("c-5", 12_001, 7, [{"role": "user", "content": "Line one\u2028line two 🌿"}]),
    Request("c-6", 60_000, 18, _system("Which roses like shade?"), "care", "s-3"),
)  # fmt: skip
