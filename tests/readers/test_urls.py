"""URLs: a real HTTP server on loopback, fsspec's memory and file systems."""

from __future__ import annotations

import functools
import gzip
import hashlib
import http.server
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pytest
import zstandard

from kvtools.errors import InputError, MissingExtra
from kvtools.readers import ReadOptions, discard_spool, find_inputs, read
from kvtools.readers.sources import expand, shown
from kvtools.readers.urls import is_url, public

if TYPE_CHECKING:
    from conftest import Reader

fsspec = pytest.importorskip("fsspec", reason="needs kvtools[urls]")
pytestmark = pytest.mark.usefixtures("spools")

ONE = b'{"id":"1","prompt":"one"}\n'
TWO = b'{"id":"2","prompt":"two"}\n'
BAD = b"no json\n"


@pytest.fixture
def spools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files, empty."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def memory() -> Iterator[fsspec.AbstractFileSystem]:
    """fsspec's own file system in memory, empty."""
    files = fsspec.filesystem("memory")
    files.store.clear()
    yield files
    files.store.clear()


class _Handler(http.server.SimpleHTTPRequestHandler):
    """Files of a folder; what is told by name fails in that way."""

    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        if "status" in self.path:
            self.send_error(int(self.path.rpartition("status")[2][:3]))
        elif "cut" in self.path:
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(ONE)
        else:
            super().do_GET()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def web(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A server on loopback: its address, and the folder that it serves."""
    pytest.importorskip("aiohttp", reason="needs kvtools[http]")
    folder = tmp_path / "web"
    folder.mkdir()
    _Handler.asked.clear()
    handler = functools.partial(_Handler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}", folder
        server.shutdown()
        thread.join()


def names(*urls: str) -> list[str]:
    return [source.name for source in expand(urls)]


@pytest.mark.parametrize(
    "stored", [ONE + BAD + TWO, gzip.compress(ONE + BAD + TWO, mtime=0), zstandard.compress(ONE + BAD + TWO)]
)
def test_a_log_over_http(stored: bytes, web: tuple[str, Path], paths: Reader) -> None:
    address, folder = web
    (folder / "log").write_bytes(stored)
    reading = paths(f"http://{address}/log")
    assert reading.column("prompt") == ["one", "two"]
    assert reading.column("source") == [f"http://{address}/log:1", f"http://{address}/log:3"]
    assert [where for where, _, _ in reading.rejects] == [f"http://{address}/log:2"]
    (tally,) = reading.tallies
    assert (tally.path, tally.sha256) == (f"http://{address}/log", hashlib.sha256(stored).hexdigest())
    assert _Handler.asked == ["/log"]  # fetched once, though it is read twice


def test_a_folder_and_a_pattern_over_http(web: tuple[str, Path]) -> None:
    address, folder = web
    for name in ("b.jsonl", "a.jsonl", "c.txt", "deep/d.jsonl", ".e.jsonl"):
        (folder / "logs" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "logs" / name).write_bytes(ONE)
    base = f"http://{address}/logs/"
    assert names(base) == [base + name for name in ("a.jsonl", "b.jsonl", "c.txt", "deep/d.jsonl")]
    assert names(f"{base}*.jsonl") == [f"{base}a.jsonl", f"{base}b.jsonl"]
    with pytest.raises(InputError, match="no file matches"):
        names(f"{base}*.csv")


def test_no_secret_of_a_url_is_shown(web: tuple[str, Path], paths: Reader) -> None:
    address, folder = web
    (folder / "log").write_bytes(ONE + BAD)
    url = f"http://user:hunter2@{address}/log?X-Amz-Signature=abc123#frag"
    reading = paths(url)
    assert reading.column("prompt") == ["one"]
    assert "X-Amz-Signature=abc123" in _Handler.asked[0]  # the server was told
    told = repr((reading, find_inputs([url])))
    for failing in ("gone", "status403", "status500", "cut"):
        with pytest.raises(InputError) as raised:
            names(url.replace("/log", f"/{failing}"))
        told += repr(raised.value)
    (folder / "log").write_bytes(b"in no known format")
    for form in (None, "csv"):
        try:
            told += repr(find_inputs([url], form))
        except InputError as error:
            told += repr(error)
    assert f"http://{address}/log" in told
    assert not [secret for secret in ("user", "hunter2", "X-Amz", "abc123", "frag") if secret in told]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("gone.jsonl", r"gone\.jsonl: no such file or directory"),
        ("status403", r"status403: cannot be read \(HTTP status 403\)"),
        ("status503", r"status503: cannot be read \(HTTP status 503\)"),
        ("cut", r"cut: cannot be read \(ClientPayloadError\)"),
    ],
)
def test_what_a_server_refuses_is_one_sentence(
    path: str, said: str, web: tuple[str, Path], spools: Path
) -> None:
    with pytest.raises(InputError, match=said) as raised:
        names(f"http://{web[0]}/{path}")
    assert raised.value.exit_code == 3
    assert list(spools.iterdir()) == []


def test_a_server_that_is_not_there() -> None:
    pytest.importorskip("aiohttp", reason="needs kvtools[http]")
    with pytest.raises(InputError, match=r"127\.0\.0\.1:9/log: cannot be read \(Connection refused\)"):
        names("http://127.0.0.1:9/log")
    for broken in ("http://", "http://[::1/log", "https:///log"):
        with pytest.raises(InputError):
            names(broken)


def test_memory_files_folders_and_patterns(memory: fsspec.AbstractFileSystem, paths: Reader) -> None:
    for name, data in {
        "b.jsonl": TWO,
        "a.jsonl.gz": gzip.compress(ONE),
        "deep/c.jsonl": ONE,
        ".d.jsonl": ONE,
    }.items():
        memory.pipe_file(f"/logs/{name}", data)
    assert paths("memory://logs/a.jsonl.gz").column("source") == ["memory://logs/a.jsonl.gz:1"]
    assert names("memory://logs") == [
        f"memory:///logs/{name}" for name in ("a.jsonl.gz", "b.jsonl", "deep/c.jsonl")
    ]
    assert names("memory://logs/*") == ["memory:///logs/a.jsonl.gz", "memory:///logs/b.jsonl"]
    assert names("memory://logs/**/c.jsonl") == ["memory:///logs/deep/c.jsonl"]
    with pytest.raises(InputError, match="no such file"):
        names("memory://logs/none")
    memory.mkdir("/empty")
    with pytest.raises(InputError, match="holds no files"):
        names("memory://empty")


def test_a_file_is_read_once_however_often_it_is_named(
    tmp_path: Path, memory: fsspec.AbstractFileSystem, spools: Path
) -> None:
    memory.pipe_file("/logs/a.jsonl", ONE)
    assert len(expand(["memory:///logs/a.jsonl", "memory:///logs", "memory:///logs/*"])) == 1
    assert len(list(spools.iterdir())) == 1
    (tmp_path / "a.jsonl").write_bytes(ONE)
    assert names(f"file://{tmp_path}/a.jsonl", str(tmp_path / "a.jsonl")) == [f"file://{tmp_path}/a.jsonl"]


def test_a_file_url_is_the_file_itself(tmp_path: Path, spools: Path) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / "logs").mkdir(exist_ok=True)
        (tmp_path / "logs" / name).write_bytes(ONE)
    log = find_inputs([f"file://{tmp_path}/logs"])
    assert [file.source.path for file in log.files] == [tmp_path / "logs/a.jsonl", tmp_path / "logs/b.jsonl"]
    discard_spool(log)
    assert (tmp_path / "logs/a.jsonl").read_bytes() == ONE
    assert list(spools.iterdir()) == []
    with pytest.raises(InputError, match="no such file"):
        names(f"file://{tmp_path}/none")


def test_copies_are_removed(memory: fsspec.AbstractFileSystem, spools: Path) -> None:
    memory.pipe_file("/a.jsonl", ONE)
    log = find_inputs(["memory:///a.jsonl"])
    assert len(list(spools.iterdir())) == 1
    discard_spool(log)
    assert list(spools.iterdir()) == []
    with pytest.raises(InputError):
        find_inputs(["memory:///a.jsonl", "memory:///none"])
    assert list(spools.iterdir()) == []


def test_two_passes_over_a_url_meet_the_same_bytes(memory: fsspec.AbstractFileSystem) -> None:
    memory.pipe_file("/a.jsonl", ONE + BAD + TWO)
    log = find_inputs(["memory:///a.jsonl"])
    first = [(chunk.requests.to_dict("list"), chunk.reject_rows()) for chunk in read(log, ReadOptions(), [])]
    memory.pipe_file("/a.jsonl", TWO)
    again = [(chunk.requests.to_dict("list"), chunk.reject_rows()) for chunk in read(log, ReadOptions(), [])]
    assert repr(again) == repr(first)
    assert sum(len(rows["prompt"]) for rows, _ in first) == 2
    discard_spool(log)


@pytest.mark.parametrize(
    ("url", "module", "extra"),
    [
        ("memory://a", "fsspec", "urls"),
        ("http://127.0.0.1/a", "aiohttp", "http"),
        ("https://u:p@127.0.0.1/a", "aiohttp", "http"),
        ("s3://bucket/a", "s3fs", "s3"),
        ("gs://bucket/a", "gcsfs", "gcs"),
    ],
)
def test_without_the_package_the_pip_command_is_named(
    url: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=rf"pip install 'kvtools\[{extra}\]'") as raised:
        names(url)
    assert raised.value.exit_code == 4
    assert "u:p" not in str(raised.value)


def test_a_kind_of_url_that_nobody_knows() -> None:
    with pytest.raises(InputError, match="nonsense is not a kind of URL"):
        names("nonsense://a/b")


def test_urls_are_told_from_paths() -> None:
    assert [is_url(text) for text in ("s3://b/k", "HTTP://h", "file:///a")] == [True] * 3
    assert not [text for text in ("-", "", "a/b", "C:/logs", "./http://x", "a:b", "://x") if is_url(text)]


@pytest.mark.parametrize(
    ("url", "shown_as"),
    [
        ("https://u:p@h:8/a/b?sig=1#f", "https://h:8/a/b"),
        ("https://u:p%40@h/a@b", "https://h/a@b"),
        ("http://h?token=x", "http://h"),
        ("http://u:p@[::1]:8/a", "http://[::1]:8/a"),
        ("s3://key:secret@bucket/a?.jsonl", "s3://bucket/a?.jsonl"),
        ("s3://bucket/a.jsonl?versionId=x", "s3://bucket/a.jsonl"),
        ("http://u:p@h:x/[a", "http://h:x/[a"),
    ],
)
def test_the_public_form_of_a_url(url: str, shown_as: str) -> None:
    assert public(url) == shown(url) == shown_as
