from __future__ import annotations

import gzip
import hashlib
import io
import os
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import zstandard

from kvtools.errors import InputError
from kvtools.readers import FileTally, ReadOptions, discard_spool, find_inputs, read
from kvtools.readers.sources import Source, expand, head_of, opened, shown

if TYPE_CHECKING:
    from conftest import Reader

ONE = b'{"id":"1","prompt":"one"}\n'
TWO = b'{"id":"2","prompt":"two"}\n'
zstd = zstandard.compress


@pytest.fixture
def spools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files, empty."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def write(path: Path, data: bytes = ONE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def names(*paths: Path | str) -> list[str]:
    return [source.name for source in expand([str(path) for path in paths])]


def test_a_folder_gives_all_files_below_it_sorted_without_hidden_ones(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.jsonl", "deep/er/c.jsonl", ".hidden.jsonl", ".git/d.jsonl", "deep/.part"):
        write(tmp_path / "logs" / name)
    assert names(tmp_path / "logs") == [
        str(tmp_path / "logs" / name) for name in ("a.jsonl", "b.jsonl", "deep/er/c.jsonl")
    ]


def test_files_of_a_folder_in_no_known_format_are_skipped_and_named(tmp_path: Path) -> None:
    write(tmp_path / "logs/a.jsonl")
    other, empty = write(tmp_path / "logs/notes.md", b"# Notes\n"), write(tmp_path / "logs/z.jsonl", b"")
    log = find_inputs([str(tmp_path / "logs")])
    assert [file.source.name for file in log.files] == [str(tmp_path / "logs/a.jsonl")]
    assert log.skipped == (str(other), str(empty))
    assert log.size_bytes() == len(ONE)


def test_a_folder_without_logs(tmp_path: Path) -> None:
    write(tmp_path / "logs/notes.md", b"# Notes\n")
    with pytest.raises(InputError, match=r"no requests in .*logs: 1 files looked at, none in a known format"):
        find_inputs([str(tmp_path / "logs")])


def test_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no files"):
        names(tmp_path)


def test_globs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("b.jsonl", "a.jsonl", "c.txt", "deep/d.jsonl", ".e.jsonl"):
        write(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    assert names("*.jsonl") == ["a.jsonl", "b.jsonl"]
    assert names("**/*.jsonl") == ["a.jsonl", "b.jsonl", "deep/d.jsonl"]
    assert names("[ab].*") == ["a.jsonl", "b.jsonl"]
    assert names(tmp_path / "?.txt") == [str(tmp_path / "c.txt")]
    with pytest.raises(InputError, match=r"\*\.csv: no file matches"):
        names("*.csv")


def test_a_file_whose_name_looks_like_a_glob(tmp_path: Path) -> None:
    path = write(tmp_path / "log[1].jsonl")
    assert names(path) == [str(path)]


@pytest.mark.parametrize("path", ["missing.jsonl", "missing/", "a" * 5000, "a" * 300 + "*"])
def test_a_missing_path(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError):
        names(path)


def test_an_empty_path_is_not_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a.jsonl")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="path is empty"):
        names("")


def test_a_file_is_read_once_however_often_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paths: Reader
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "logs/a.jsonl")
    (tmp_path / "link.jsonl").symlink_to("logs/a.jsonl")
    reading = paths(
        "logs/a.jsonl", "./logs/a.jsonl", "logs", "link.jsonl", "lo*/a.*", tmp_path / "logs/a.jsonl"
    )
    assert reading.records == 1
    assert [tally.path for tally in reading.tallies] == ["logs/a.jsonl"]


def test_names_that_are_no_text(tmp_path: Path, paths: Reader) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.jsonl")
    write(Path(path))
    assert shown(path) == f"{tmp_path}/\\xff.jsonl"
    assert paths(path).column("source") == [f"{tmp_path}/\\xff.jsonl:1"]
    with pytest.raises(InputError, match=r"\\xfe\.jsonl: no such file"):
        names(path.replace("\udcff", "\udcfe"))


@pytest.mark.parametrize(
    "stored",
    [
        ONE + TWO,
        gzip.compress(ONE + TWO, mtime=0),
        gzip.compress(ONE, mtime=0) + gzip.compress(TWO, mtime=0),
        gzip.compress(ONE + TWO, mtime=0) + bytes(512),  # tape padding
        zstd(ONE + TWO),
        zstd(ONE) + zstd(TWO),
        zstd(ONE[:9]) + zstd(b"") + zstd(ONE[9:] + TWO),  # a line over two frames
        zstd(ONE) + b"\x50\x2a\x4d\x18\x04\0\0\0skip" + zstd(TWO),
        b"\x5f\x2a\x4d\x18\x04\0\0\0skip" + zstd(ONE + TWO),
    ],
    ids=[
        "plain",
        "gz",
        "gz members",
        "gz padded",
        "zst",
        "zst frames",
        "zst split line",
        "zst skippable",
        "zst skippable first",
    ],
)
def test_compression_is_recognised_by_content_and_the_stored_bytes_are_hashed(
    tmp_path: Path, stored: bytes, paths: Reader
) -> None:
    reading = paths(write(tmp_path / "log", stored))
    assert reading.column("prompt") == ["one", "two"]
    assert reading.rejects == []
    (tally,) = reading.tallies
    assert tally.requests == 2
    assert tally.sha256 == hashlib.sha256(stored).hexdigest()


@pytest.mark.parametrize(
    ("stored", "prompts"),
    [
        (gzip.compress(ONE + TWO, mtime=0)[:-8], ["one", "two"]),  # without its check sum
        (gzip.compress(ONE, mtime=0) + gzip.compress(TWO, mtime=0)[:15], ["one"]),
        (gzip.compress(ONE + TWO, mtime=0) + b"garbage", ["one", "two"]),
        (zstd(ONE) + zstd(TWO)[:-3], ["one"]),
        (zstd(ONE + TWO) + b"garbage", ["one", "two"]),
    ],
    ids=["gz check sum", "gz member", "gz garbage", "zst frame", "zst garbage"],
)
def test_a_damaged_file_keeps_what_came_before_and_counts_one_reject(
    tmp_path: Path, stored: bytes, prompts: list[str], paths: Reader
) -> None:
    path = write(tmp_path / "log", stored)
    reading = paths(path)
    assert reading.column("prompt") == prompts
    assert reading.rejects == [
        (
            f"{path}:{len(prompts) + 1}",
            "damaged_stream",
            "the compressed file is damaged or cut short here; what follows is lost",
        )
    ]
    assert reading.records == len(prompts) + 1
    assert reading.tallies[0].sha256 == hashlib.sha256(stored).hexdigest()


@pytest.mark.parametrize(
    "stored",
    [gzip.compress(ONE)[:8], gzip.compress(ONE)[:10], zstd(ONE)[:8], b"\x1f\x8bnot gzip"],
    ids=["gz header", "gz", "zst", "not gz"],
)
def test_a_file_damaged_before_its_first_line_is_not_called_empty(tmp_path: Path, stored: bytes) -> None:
    with pytest.raises(InputError, match="log: damaged or cut short before its first line"):
        find_inputs([str(write(tmp_path / "log", stored))])


def test_a_compressed_file_of_nothing_is_empty(tmp_path: Path) -> None:
    for stored in (gzip.compress(b""), zstd(b"")):
        with pytest.raises(InputError, match="empty"):
            find_inputs([str(write(tmp_path / "log", stored))])


def test_a_head_is_the_first_256_kib_decompressed(tmp_path: Path) -> None:
    text = bytes(range(256)) * 2_000
    for stored in (text, gzip.compress(text), zstd(text)):
        path = write(tmp_path / "log", stored)
        assert head_of(Source("log", path)) == (text[: 256 * 1024], False)


def test_stored_bytes_are_told_as_they_are_consumed(tmp_path: Path) -> None:
    stored = gzip.compress(ONE * 10_000)
    told: list[int] = []
    with opened(Source("log", write(tmp_path / "log", stored)), told.append) as file:
        file.stream.read()
    assert sum(told) == len(stored)


def test_a_file_that_is_gone_or_refuses_to_be_read(tmp_path: Path) -> None:
    gone = Source("gone.jsonl", tmp_path / "gone.jsonl")
    assert gone.size_bytes() == 0
    with pytest.raises(InputError, match=r"gone\.jsonl: cannot be read \(No such file"), opened(gone):
        pass
    with (
        pytest.raises(InputError, match=r"folder\.jsonl: cannot be read \(Is a directory\)"),
        opened(Source("folder.jsonl", tmp_path)),
    ):
        pass


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs a file that opens and cannot be read")
def test_a_read_that_fails_names_the_file() -> None:
    with pytest.raises(InputError, match="/proc/self/mem: cannot be read"):
        find_inputs(["/proc/self/mem"])


def test_standard_input_is_kept_while_it_is_needed(
    spools: Path, monkeypatch: pytest.MonkeyPatch, paths: Reader
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(ONE + TWO, mtime=0))))
    reading = paths("-", "-")
    assert reading.column("source") == ["<stdin>:1", "<stdin>:2"]
    assert reading.tallies[0].sha256 == hashlib.sha256(gzip.compress(ONE + TWO, mtime=0)).hexdigest()
    assert len(list(spools.iterdir())) == 1


@pytest.mark.parametrize(("data", "more"), [(b"", ()), (b"a,b\n", ()), (ONE, ("missing.jsonl",))])
def test_no_copy_of_standard_input_is_left_behind_by_an_error(
    spools: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, more: tuple[str, ...]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    with pytest.raises(InputError):
        find_inputs(["-", *more])
    assert list(spools.iterdir()) == []


def test_closed_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InputError, match="standard input is closed"):
        expand(["-"])


def test_a_named_pipe_is_read_once_and_kept(tmp_path: Path, spools: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(ONE + TWO,))
    writer.start()
    log = find_inputs([str(pipe)])
    writer.join()
    (file,) = log.files
    assert file.source.name == str(pipe)
    assert file.source.path.read_bytes() == ONE + TWO
    discard_spool(log)
    assert list(spools.iterdir()) == []


def test_only_our_own_copies_are_ever_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "<stdin>")
    discard_spool(find_inputs(["<stdin>"]))
    assert (tmp_path / "<stdin>").read_bytes() == ONE


@pytest.mark.usefixtures("spools")
def test_two_passes_give_the_same_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = {"plain": ONE + b"no json\n" + TWO, "gz": gzip.compress(ONE + TWO), "zst": zstd(TWO)[:-3]}
    files = [str(write(tmp_path / name, data)) for name, data in stored.items()]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(ONE + TWO)))
    log = find_inputs([*files, "-"], "chat-jsonl")
    passes = []
    for _ in range(2):
        tallies: list[FileTally] = []
        chunks = [
            (chunk.requests.to_dict("list"), chunk.reject_rows(), chunk.records)
            for chunk in read(log, ReadOptions(), tallies)
        ]
        passes.append(repr((chunks, tallies)))
        assert [tally.requests for tally in tallies] == [2, 2, 0, 2]
    assert passes[0] == passes[1]
    discard_spool(log)
