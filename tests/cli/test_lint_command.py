"""``kvtools lint-templates`` as a gate: exit codes, both forms, the same answer for any order of the paths."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Run

BYTES = ("--tokenizer", "bytes")
FILES = {
    "good.j2": "Be kind.\n{{ question }}\n",
    "bad.jinja2": "{{ session_id }}\nBe kind.\n",
    "broken.j2": "Be kind.\n{{ question\n",
    "note.txt": "{{ foo }}\nBe kind.\n",
    "readme.txt": "No template.\n",
    "other.md": "{{ id }}",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("good.j2",), 0),
        (("note.txt",), 0),
        (("readme.txt",), 0),
        (("bad.jinja2",), 1),
        (("good.j2", "bad.jinja2"), 1),
        (("good.j2", "broken.j2"), 1),
        (("good.j2", "--min-stable-tokens", "9"), 0),
        (("good.j2", "--min-stable-tokens", "10"), 1),
        (("bad.jinja2", "--changes", "session_id=class"), 0),
        ((), 2),
        (("good.j2", "--min-stable-tokens", "0"), 2),
        (("good.j2", "--changes", "session_id"), 2),
        (("good.j2", "--changes", "session_id=often"), 2),
        (("good.j2", "--format", "xml"), 2),
        (("good.j2", "-o", "good.j2"), 2),
        (("broken.j2",), 3),
        (("missing.j2",), 3),
        (("other.md",), 3),
        (("good.j2", "--tokenizer", "missing"), 3),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
@pytest.mark.usefixtures("folder")
def test_exit_codes(kvtools: Run, args: tuple[str, ...], code: int) -> None:
    tokenizer = () if "--tokenizer" in args else BYTES
    ended = kvtools("lint-templates", *args, *tokenizer)
    assert ended.code == code
    if code > 1:
        assert ended.out == ""
        assert ended.err.startswith("kvtools: ")
        assert ended.err.count("\n") == 1
    else:
        assert ended.err == ""
        assert ended.out.startswith("FAIL  " if code else "ok    ")


@pytest.mark.usefixtures("folder")
def test_a_broken_template_is_told_with_its_line(kvtools: Run) -> None:
    assert "broken.j2:2: no template could be read" in kvtools("lint-templates", "broken.j2", *BYTES).err
    out = kvtools("lint-templates", "good.j2", "broken.j2", *BYTES).out
    assert "broken.j2:2: error: cannot-parse: " in out
    assert "read 1 of 2 templates" in out


def test_text_of_a_folder(kvtools: Run, folder: Path) -> None:
    (folder / "broken.j2").unlink()
    assert kvtools("lint-templates", ".", *BYTES).out == (
        "FAIL  1 warning, 1 note in 3 templates.\n"
        "  bytes tokenizer · text that is always printed; a block is reused only when full\n"
        "  2 files skipped, no template to serve: other.md, readme.txt\n"
        "\n"
        "bad.jinja2: 0 leading stable tokens before {{ session_id }} (line 1), 9 stable behind it\n"
        "  bad.jinja2:1: warning: placeholder-before-stable-text: {{ session_id }} (an id) defeats the reuse of "
        "everything behind it, 9 stable tokens: move it behind the stable text.\n"
        "  Better order (9 leading stable tokens instead of 0):\n"
        "    | Be kind.\n"
        "    | {{ session_id }}\n"
        "\n"
        "good.j2: 9 leading stable tokens before {{ question }} (line 2), 0 stable behind it\n"
        "\n"
        "note.txt: 0 leading stable tokens before {{ foo }} (line 1), 9 stable behind it\n"
        "  note.txt:1: info: unknown-before-stable-text: {{ foo }} (a value of unknown kind) stands in front of "
        "stable text: if it changes from request to request, nothing behind it is reused; move it behind, or say how "
        "it changes (--changes foo=never|class|history|request).\n"
        "  Better order (9 leading stable tokens instead of 0):\n"
        "    | Be kind.\n"
        "    | {{ foo }}\n"
        "\n"
        "Next: put a better order into the file, and run this again; kvtools never writes templates.\n"
    )
    assert {path.name: path.read_text() for path in folder.iterdir()} == {
        name: text for name, text in FILES.items() if name != "broken.j2"
    }


@pytest.mark.usefixtures("folder")
def test_json_is_the_same_for_any_order_of_the_paths(kvtools: Run) -> None:
    paths = ["good.j2", ".", "readme.txt", "bad.jinja2"]
    one = kvtools("lint-templates", *paths, *BYTES, "--format", "json")
    assert one == kvtools("lint-templates", *reversed(paths), *BYTES, "--format", "json")
    report = json.loads(one.out)
    assert report["schema_version"] == 1
    assert report["counts"] == {
        "templates": 5, "unreadable": 1, "skipped_files": 1, "errors": 1, "warnings": 1, "infos": 1,
    }  # fmt: skip
    bad = report["templates"][0]
    assert (bad["path"], bad["leading_stable_tokens"], bad["stable_tokens_behind"]) == ("bad.jinja2", 0, 9)
    assert bad["proposal"] == {
        "text": "Be kind.\n{{ session_id }}", "leading_stable_tokens": 9, "place_words": False,
    }  # fmt: skip


def test_the_gate_as_a_process(folder: Path) -> None:
    for name, code in (("good.j2", 0), ("bad.jinja2", 1), ("--bogus", 2), ("missing.j2", 3)):
        command = [sys.executable, "-m", "kvtools", "lint-templates", name, *BYTES]
        assert subprocess.run(command, capture_output=True, cwd=folder, check=False).returncode == code
