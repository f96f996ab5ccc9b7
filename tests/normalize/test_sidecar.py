"""What restores a rewritten log: beside it, or inside its lines."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from kvtools.errors import InputError
from kvtools.normalize.sidecar import (
    SidecarWriter,
    core_of,
    from_inline,
    restored_file,
    restored_inline,
    with_inline,
)

if TYPE_CHECKING:
    from pathlib import Path

    from kvtools.normalize.sidecar import Steps

STEPS: Steps = [((0, 1), (2, 3), "\r")]
"""Takes ``acb…`` back to ``a``, ``b`` and a carriage return."""


def written(folder: Path) -> tuple[Path, Path]:
    out, sidecar = folder / "out", folder / "out.kvtools"
    notes = io.BytesIO()
    writer = SidecarWriter(notes)
    lines: list[tuple[bytes, Steps | None]] = [
        (b"first\n", None),
        (b" acb \r\n", STEPS),
        (b"\n", None),
        (b"acb", STEPS),
    ]
    for raw, steps in lines:
        writer.written(raw, steps)
    writer.close()
    out.write_bytes(b"".join(raw for raw, _ in lines))
    sidecar.write_bytes(notes.getvalue())
    return out, sidecar


def test_lines_come_back_with_what_stood_around_them(tmp_path: Path) -> None:
    out, sidecar = written(tmp_path)
    assert b"".join(restored_file(out, sidecar)) == b"first\n ab\r \r\n\nab\r"


@pytest.mark.parametrize(
    "change", [lambda data: data + b"\n", lambda data: data[6:], lambda data: data.upper()]
)
def test_another_file_is_refused(tmp_path: Path, change: object) -> None:
    out, sidecar = written(tmp_path)
    out.write_bytes(change(out.read_bytes()))  # type: ignore[operator]
    with pytest.raises(InputError, match=r"belongs to another file|does not fit"):
        list(restored_file(out, sidecar))


def test_a_cut_or_foreign_sidecar_is_refused(tmp_path: Path) -> None:
    out, sidecar = written(tmp_path)
    whole = sidecar.read_bytes()
    for data, words in {
        whole.rsplit(b"\n", 2)[0] + b"\n": "cut off",
        b"": "cut off",
        b'{"a":1}\n': "not a kvtools sidecar",
        b"nonsense\n": "not a line of a kvtools sidecar",
        whole.replace(b"[0,1]", b"[0,99]"): "does not fit",
        whole.replace(b'"line":2', b'"line":-2'): "neither a changed line",
    }.items():
        sidecar.write_bytes(data)
        with pytest.raises(InputError, match=words):
            list(restored_file(out, sidecar))


@pytest.mark.parametrize(
    ("line", "held"),
    [
        (b'{"a":1}', b'{"a":1,"metadata":{"kvtools":{"steps":[[[0,7]]]}}}'),
        (b'{"metadata":{}, "a":1}', b'{"metadata":{"kvtools":{"steps":[[[0,22]]]}}, "a":1}'),
        (b'{"metadata":{ }}', b'{"metadata":{ "kvtools":{"steps":[[[0,16]]]}}}'),
        (b'{"metadata":{"k":"v" } }', b'{"metadata":{"k":"v" ,"kvtools":{"steps":[[[0,24]]]}} }'),
        (
            b'{"b":{"metadata":{"k":1}}}',
            b'{"b":{"metadata":{"k":1}},"metadata":{"kvtools":{"steps":[[[0,26]]]}}}',
        ),
    ],
)
def test_a_line_can_hold_what_restores_it(line: bytes, held: bytes) -> None:
    assert with_inline(line, [((0, len(line)),)]) == held
    assert from_inline(held) == line
    assert from_inline(line) is None


@pytest.mark.parametrize("line", [b'{"metadata":"mine"}', b'{"metadata":{"kvtools":1}}', b"[1]", b"{"])
def test_a_line_with_no_room_for_it_is_left(line: bytes) -> None:
    assert with_inline(line, [((0, 1),)]) is None


def test_a_file_that_nothing_restores_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_bytes(b'{"a":1}\n')
    with pytest.raises(InputError, match="nothing can be restored"):
        list(restored_inline(out))
    out.write_bytes(b'{"a":1,"metadata":{"kvtools":{"steps":[[[0,70]]]}}}\n')
    with pytest.raises(InputError, match=r"out:1: its steps do not fit"):
        list(restored_inline(out))


def test_the_core_of_a_line() -> None:
    assert core_of(b"\xef\xbb\xbf {1} \r\n") == (b"{1}", b"\xef\xbb\xbf ", b" \r\n")
    assert core_of(b" \n") == (b"", b"", b" \n")
