"""The known log, the same log with a fault, and the installed command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from known_log import KVTOOLS, Command, Ended, Inside, log_lines, write_log

from kvtools.cli import main


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


@pytest.fixture
def inside(here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Inside:
    """Run the command in an empty folder and in this process, as the console script does."""
    monkeypatch.chdir(here)

    def run(*args: str | Path) -> Ended:
        monkeypatch.setattr(sys, "argv", ["kvtools", *map(str, args)])
        with pytest.raises(SystemExit) as ended:
            main()
        assert isinstance(ended.value.code, int)
        return Ended(ended.value.code, *capsys.readouterr())

    return run
