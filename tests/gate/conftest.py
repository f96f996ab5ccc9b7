"""A log whose figures are known, the same log with a fault, and the installed command."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

REQUESTS = 40
HEAD = "a" * 64
BYTES = ("--tokenizer", "bytes")

Command: TypeAlias = Callable[..., "subprocess.CompletedProcess[str]"]

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


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write_log(tmp_path / "log.jsonl", log_lines())


@pytest.fixture
def faulty(tmp_path: Path) -> Path:
    return write_log(tmp_path / "faulty.jsonl", log_lines(front=True))


@pytest.fixture
def here(tmp_path: Path) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    return folder


@pytest.fixture
def command(here: Path) -> Command:
    """Run the installed command in an empty folder."""

    def run(*args: str | Path, **more: Any) -> subprocess.CompletedProcess[str]:
        given: dict[str, Any] = {"cwd": here, "capture_output": True, "text": True, "timeout": 180} | more
        return subprocess.run([*KVTOOLS, *map(str, args)], check=False, **given)

    return run
