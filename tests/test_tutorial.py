"""The tutorial runs from its first cell to its last, and what is stored in it is what comes out."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
TUTORIAL = ROOT / "docs/tutorial.ipynb"
EXECUTE = """
import sys
import nbformat
from nbclient import NotebookClient
book = nbformat.read(sys.argv[1], as_version=4)
for cell in book.cells:
    cell.outputs = []
NotebookClient(book, timeout=900, kernel_name="python3", record_timing=False).execute(cwd=sys.argv[3])
nbformat.write(book, sys.argv[2])
"""


def _outputs(book: dict[str, Any]) -> list[tuple[str, list[Any]]]:
    """Return what each cell prints and shows; stderr (the kernel's own warnings) is not of the tutorial."""
    cells = [cell["outputs"] for cell in book["cells"] if cell["cell_type"] == "code"]
    return [
        (
            "".join("".join(one["text"]) for one in outputs if one.get("name") == "stdout"),
            [one["data"] for one in outputs if "data" in one],
        )
        for outputs in cells
    ]


def test_the_stored_outputs_are_those_of_a_run(tmp_path: Path) -> None:
    for library in ("nbclient", "nbformat", "ipykernel"):
        if importlib.util.find_spec(library) is None:
            pytest.skip(f"{library} runs the tutorial: pip install '.[dev]'")
    ran = tmp_path / "ran.ipynb"
    command = [sys.executable, "-c", EXECUTE, str(TUTORIAL), str(ran), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    stored, now = (json.loads(path.read_text()) for path in (TUTORIAL, ran))
    assert _outputs(now) == _outputs(stored)


def test_the_tutorial_names_no_place_of_a_machine() -> None:
    text = TUTORIAL.read_text()
    assert not [place for place in ("/tmp", "/home", "/root", "/Users") if place in text]  # noqa: S108 - names only
