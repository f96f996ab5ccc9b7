"""Real git repositories to try pipelines in, untouched by whoever's git settings and by hooks that tests run in."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent
HEAD = "a" * 1024
"""Sixty-four blocks of bytes: a time of nine more behind them costs less than a point."""
WITHOUT_CLOCK = HEAD + "\n{{ question }}\n"
WITH_CLOCK = "{{ now }}\n" + HEAD + "\n{{ question }}\n"
REQUESTS = 40
RECORDED = "".join(
    f'{{"template": "shop", "values": {{"question": "{n:02d}" , "now": "{n:02d}:00:00"}}}}\n'
    for n in range(REQUESTS)
)
"""Forty requests; every question and every time is another one."""


def clean_environment(**more: str) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GIT_", "PRE_COMMIT", "KVTOOLS_"))
    }
    kept["PATH"] = f"{BIN}{os.pathsep}{kept['PATH']}"
    git = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    who = {
        f"GIT_{role}_{what}": "t@example.com"
        for role in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    }
    return kept | git | who | more


class Repository:
    """A folder with a git repository in it, and commands that run there."""

    def __init__(self, path: Path) -> None:
        if shutil.which("git") is None:
            pytest.skip("git is not installed")
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        self.ended("git", "init", "--quiet", "--initial-branch=main", ".")

    def write(self, name: str, text: str) -> Path:
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def commit(self, message: str) -> None:
        self.ended("git", "add", "--all")
        self.ended("git", "commit", "--quiet", "--message", message)

    def run(self, *program: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            program,
            cwd=self.path,
            env=clean_environment(**environment),
            capture_output=True,
            text=True,
            check=False,
        )

    def ended(self, *program: str, code: int = 0) -> str:
        """Run a program that has to end with ``code``; return what it printed."""
        done = self.run(*program)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout


def needs_command() -> None:
    if not (BIN / "kvtools").is_file():
        pytest.skip("no command kvtools beside this Python: install the project")
