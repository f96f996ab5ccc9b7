"""A file that grows, is renamed and is cut: every line once, in its order."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtools.errors import InputError
from kvtools.monitor import growing
from kvtools.monitor.follow import Followed
from kvtools.monitor.growing import Piped


def taken(followed: Followed | Piped) -> list[bytes]:
    return [line for batch in followed.batches() for line in batch.data.split(b"\n")[:-1]]


def add(path: Path, *lines: bytes) -> None:
    with path.open("ab") as file:
        file.write(b"".join(line + b"\n" for line in lines))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "shop.log"
    add(path, b"1", b"2")
    return path


def test_lines_come_once_and_a_line_waits_for_its_end(path: Path) -> None:
    followed = Followed.of(path)
    assert taken(followed) == [b"1", b"2"]
    assert taken(followed) == []
    with path.open("ab") as file:
        file.write(b'{"half')
    assert taken(followed) == []
    add(path, b'":1}', b"4")
    assert taken(followed) == [b'{"half":1}', b"4"]
    with path.open("ab") as file:
        file.write(b"last")
    assert taken(followed) == []
    assert [batch.data for batch in followed.end()] == [b"last\n"]
    followed.close()


def test_batches_know_their_first_line(path: Path) -> None:
    followed = Followed.of(path)
    assert [(batch.number, batch.name) for batch in followed.batches()] == [(1, str(path))]
    add(path, b"3")
    assert [batch.number for batch in followed.batches()] == [3]
    followed.close()


def test_from_the_end_leaves_out_what_is_there_and_the_line_being_written(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"begun")
    followed = Followed.of(path, at_end=True)
    assert taken(followed) == []
    add(path, b" ends", b"4")
    assert taken(followed) == [b"4"]
    followed.close()


def renamed(path: Path) -> None:
    path.rename(path.with_name(path.name + ".1"))


@pytest.mark.parametrize("seen", [True, False], ids=["read-before", "unread"])
def test_a_renamed_file_is_read_to_its_end_and_the_new_one_from_its_start(path: Path, seen: bool) -> None:
    followed = Followed.of(path)
    got = taken(followed) if seen else []
    add(path, b"3")
    renamed(path)
    got += taken(followed)  # there is no new one yet
    add(path, b"4")
    got += taken(followed)
    # Its writer has not noticed: it goes on in the old file, and then in the new one.
    add(path.with_name("shop.log.1"), b"5")
    add(path, b"6")
    got += taken(followed) + taken(followed)
    assert sorted(got) == [b"1", b"2", b"3", b"4", b"5", b"6"]
    assert (followed.rotations, followed.truncations, followed.maybe_lost) == (1, 0, 0)
    followed.close()


def test_files_that_came_and_went_between_two_looks_are_read(path: Path) -> None:
    add(path.with_name("shop.log.1"), b"long ago")
    add(path.with_name("shop.jsonl"), b"another log")
    followed = Followed.of(path)
    got = taken(followed)
    for number in (2, 3, 4):
        for old in (3, 2, 1):
            source = path.with_name(f"shop.log.{old}")
            if source.exists():
                source.rename(path.with_name(f"shop.log.{old + 1}"))
        renamed(path)
        add(path, b"%d" % (number + 1))
    add(path.with_name("shop.jsonl.1"), b"another log")
    assert got + taken(followed) == [b"1", b"2", b"3", b"4", b"5"]
    followed.close()


def cut(path: Path, *, copy: bool) -> None:
    """What ``copytruncate`` does: copy, then cut the file itself."""
    if copy:
        shutil.copy(path, path.with_name(path.name + ".1"))
    os.truncate(path, 0)


def test_what_a_copy_has_beyond_what_was_read_is_read_there(path: Path) -> None:
    followed = Followed.of(path)
    got = taken(followed)
    add(path, b"3", b"4")
    cut(path, copy=True)
    add(path, b"5")
    assert got + taken(followed) == [b"1", b"2", b"3", b"4", b"5"]
    assert (followed.rotations, followed.truncations, followed.maybe_lost) == (0, 1, 0)
    followed.close()


def test_a_cut_shows_even_where_the_file_has_grown_beyond_its_old_size(path: Path) -> None:
    followed = Followed.of(path)
    got = taken(followed)
    cut(path, copy=True)
    add(path, b"a longer line than all before", b"6")
    assert got + taken(followed) == [b"1", b"2", b"a longer line than all before", b"6"]
    followed.close()


def test_a_cut_without_a_copy_is_told(path: Path) -> None:
    followed = Followed.of(path)
    got = taken(followed)
    add(path, b"3")
    cut(path, copy=False)
    add(path, b"4")
    assert got + taken(followed) == [b"1", b"2", b"4"]
    assert (followed.truncations, followed.maybe_lost) == (1, 1)
    followed.close()


def test_a_line_that_never_ends_does_not_fill_memory(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing, "MAX_LINE_BYTES", 100)
    followed = Followed.of(path)
    assert taken(followed) == [b"1", b"2"]
    for _ in range(5):
        with path.open("ab") as file:
            file.write(b"x" * 60)
        assert taken(followed) == []
    add(path, b"end", b"4")
    assert taken(followed) == [b"4"]
    assert followed.too_long == 1
    followed.close()


def test_a_pipe_ends_with_its_writer() -> None:
    reading, writing = os.pipe()
    piped = Piped(reading)
    os.write(writing, b"1\n2")
    assert taken(piped) == [b"1"]
    os.write(writing, b"2\n3")
    os.close(writing)
    assert taken(piped) == [b"22"]
    assert piped.ended
    rest = [batch.data for batch in piped.end()]
    os.close(reading)
    assert rest == [b"3\n"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        pytest.param(lambda path: path.write_bytes(b"\x1f\x8b\x08\x00"), "compressed", id="gzip"),
        pytest.param(lambda path: path.write_bytes(b"\x28\xb5\x2f\xfd"), "compressed", id="zstd"),
        pytest.param(lambda path: path.mkdir(), "not a file that can grow", id="folder"),
        pytest.param(os.mkfifo, "not a file that can grow", id="fifo"),
        pytest.param(lambda _: None, "cannot be read", id="missing"),
    ],
)
def test_what_does_not_grow_is_one_sentence(
    tmp_path: Path, make: Callable[[Path], object], message: str
) -> None:
    make(tmp_path / "x.log")
    with pytest.raises(InputError, match=message):
        Followed.of(tmp_path / "x.log")


STEPS = st.lists(
    st.sampled_from(["write", "write", "half", "look", "look", "rename", "copytruncate"]), max_size=40
)


@settings(max_examples=60)
@given(steps=STEPS)
def test_nothing_is_lost_and_nothing_twice(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    path = tmp_path_factory.mktemp("log") / "shop.log"
    path.touch()
    followed = Followed.of(path)
    start_ns = path.stat().st_mtime_ns
    written, got, half, files = 0, [], False, 0
    for step in steps:
        if step in {"write", "half"}:
            line = b"" if half else b"line %d " % written
            with path.open("ab") as file:
                file.write(line + (b"" if step == "half" else b"end\n"))
            half = step == "half" and (half or bool(line))
            written += step == "write"
        elif step == "look":
            got += taken(followed)
        elif not half and path.stat().st_size:
            files += 1
            beside = path.with_name(f"shop.log.{files}")
            if step == "rename":
                path.rename(beside)
                path.touch()
            else:
                shutil.copy(path, beside)
                os.truncate(path, 0)
            # The clock of a file system is coarse, and these follow one another faster than any rotation.
            os.utime(beside, ns=(start_ns + files * 10**7,) * 2)
    got += taken(followed)
    got += [batch.data.rstrip(b"\n") for batch in followed.end()]
    followed.close()
    expected = [b"line %d end" % number for number in range(written)] + (
        [b"line %d " % written] if half else []
    )
    assert got == expected
