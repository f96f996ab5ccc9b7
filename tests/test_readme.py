"""The README runs: its blocks are executed, and what it shows is what is printed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from kvtools.cli import cli
from kvtools.flow import AnalyzeOptions, analyze

ROOT = Path(__file__).resolve().parents[1]


def _blocks(language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("readme")
    shutil.copy(ROOT / "data/shop-assistant.jsonl", place / "shop.jsonl")
    return place


def test_bash_blocks_of_the_readme_run(folder: Path) -> None:
    for block in _blocks("bash"):
        command = block.replace("kvtools ", f"{sys.executable} -m kvtools ")
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    assert (folder / "report.json").is_file()
    assert (folder / "rejects.jsonl").read_bytes() == b""  # the sample has no bad line


def test_python_blocks_of_the_readme_run(folder: Path) -> None:
    for block in _blocks("python"):
        subprocess.run([sys.executable, "-c", block], cwd=folder, check=True, capture_output=True)


def test_the_page_in_the_readme_is_what_is_printed(folder: Path) -> None:
    program = [sys.executable, "-m", "kvtools", "analyze", "logs", "shop.jsonl"]
    page = subprocess.run(program, cwd=folder, check=True, capture_output=True, text=True).stdout
    assert page.startswith(_blocks("text")[0])


def test_the_rate_that_the_readme_predicts_is_the_simulators() -> None:
    rate = analyze(ROOT / "data/shop-assistant.jsonl", AnalyzeOptions(block_size=32)).cache.hit_rate
    # That vLLM counts the same in all 5,000 requests is tested in tests/engine.
    replayed = next(block for block in _blocks("text") if "--engine simulator,vllm" in block)
    assert f"Predicted {100 * rate:.2f} %, vllm 0.32.0 counted {100 * rate:.2f} %" in replayed


def test_the_gain_in_the_readme_is_what_normalize_prints(folder: Path) -> None:
    program = [sys.executable, "-m", "kvtools", "normalize", "shop.jsonl", "-o", "gain.jsonl"]
    page = subprocess.run(program, cwd=folder, check=True, capture_output=True, text=True).stdout
    assert next(block for block in _blocks("text") if "after moving" in block).strip() in page


def test_console_blocks_name_commands_that_exist() -> None:
    words = [line.split() for block in _blocks("console") for line in block.strip().split("\n")]
    targets = {line.split(":")[0] for line in (ROOT / "Makefile").read_text().split("\n") if ":" in line}
    for command in words:
        assert command[0] in {"make", "pip", "kvtools"}
        if command[0] == "make":
            assert command[1] in targets
        if command[0] == "kvtools":
            assert cli.get_command(click.Context(cli), command[1]) is not None
