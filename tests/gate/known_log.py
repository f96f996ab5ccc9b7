"""A log whose figures are known, and the command as it is installed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

REQUESTS = 40
HEAD = "a" * 64
BYTES = ("--tokenizer", "bytes")

Command: TypeAlias = Callable[..., "subprocess.CompletedProcess[str]"]


@dataclass(frozen=True, slots=True)
class Ended:
    """How the command ended."""

    code: int
    out: str
    err: str


Inside: TypeAlias = Callable[..., Ended]

SCRIPT = Path(sys.executable).with_name("kvtools")
KVTOOLS = [str(SCRIPT)] if SCRIPT.is_file() else [sys.executable, "-m", "kvtools"]
"""The command as it is installed."""


def own_text(number: int) -> str:
    """Sixteen characters that part from every other request's in the first of them."""
    return f"{number:08d}"[::-1] + "........"


def log_lines(front: bool = False, requests: int = REQUESTS) -> list[dict[str, Any]]:
    """Return requests of 80 tokens each, one byte a token: 64 that all share, 16 of their own (in ``front``: first).

    Blocks of 16: the first request hits nothing and each other one 64 tokens, 39 * 64 of 40 * 80 = 0.78.
    """
    return [
        {
            "id": f"r{number}",
            "ts": number,
            "tenant": "shop" if number % 2 else "desk",
            "prompt": own_text(number) + HEAD if front else HEAD + own_text(number),
        }
        for number in range(requests)
    ]


def write_log(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def two_crowds(apart: bool = False) -> list[dict[str, Any]]:
    """Return 120 requests of 80 token ids each: two of three share their first 64 ids, every third has its own alone.

    Desk has the even ones and shop the odd ones; with ``apart`` desk has all that share and shop the others.
    """
    lines = []
    for number in range(120):
        alone = number % 3 == 2
        own = range(1000 * (number + 1), 1000 * (number + 1) + 80)
        lines.append(
            {
                "id": f"r{number}",
                "ts": number,
                "tenant": ("shop" if alone else "desk") if apart else ("shop" if number % 2 else "desk"),
                "prompt_token_ids": [*own] if alone else [*range(1, 65), *own[:16]],
            }
        )
    return lines
