"""Run the command line through its one boundary, and a small log whose figures are known."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import pytest

from kvtools.cli import main

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Ended:
    code: int
    out: str
    err: str


Run: TypeAlias = Callable[..., Ended]


@pytest.fixture
def kvtools(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run ``kvtools ARGS…`` in this process, as the console script does."""

    def run(*args: str | Path) -> Ended:
        monkeypatch.setattr(sys, "argv", ["kvtools", *map(str, args)])
        with pytest.raises(SystemExit) as ended:
            main()
        assert isinstance(ended.value.code, int)
        out, err = capsys.readouterr()
        return Ended(ended.value.code, out, err)

    return run


LINES = (
    b'{"id":"a","ts":1,"tenant":"shop","prompt":"%s"}\n' % (b"a" * 32 + b"b" * 8),
    b'{"id":"b","ts":2,"tenant":"shop","prompt":"%s"}\n' % (b"a" * 32 + b"c" * 8),
    b'{"id":"c","ts":3,"tenant":"desk","prompt":"%s"}\n' % (b"d" * 40),
)
"""With one byte a token and blocks of 16, the second request finds two blocks of the first, the third nothing."""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three requests of 40 tokens each, of which 32 hit; the current folder is an empty one beside it."""
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"".join(LINES))
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return path
