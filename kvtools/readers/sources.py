"""Paths on the command line to byte streams: globs, directories, stdin, URLs, gzip and zstd.

What can be read only once or from afar (a pipe, a URL) is copied to a temporary file: all inputs are files from
then on, can be opened any number of times, and give the same bytes each time.

Each file is hashed (SHA-256 of the bytes as stored) while it is read, so that a report can name its
input exactly without a second pass.
"""

from __future__ import annotations

import glob
import gzip
import hashlib
import io
import os
import shutil
import stat
import sys
import tempfile
import zlib
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import zstandard

from kvtools.errors import InputError
from kvtools.readers.urls import RemoteFile, is_url, public, remote_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

STDIN = "-"
STDIN_NAME = "<stdin>"
HEAD_BYTES = 256 * 1024
_BLOCK_BYTES = 256 << 10
"""Stored bytes read at once: few enough to be hashed, split and decoded while the processor's cache holds them."""
_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPABLE = tuple(bytes([first, 0x2A, 0x4D, 0x18]) for first in range(0x50, 0x60))
# Four bytes of zstd can stand for 128 KiB: what is fed at once bounds the memory that a hostile file takes.
_ZSTD_FEED_BYTES = 4096
DAMAGED = (EOFError, zlib.error, zstandard.ZstdError, gzip.BadGzipFile)
"""What a damaged compressed stream raises while it is read."""


@dataclass(frozen=True, slots=True)
class Source:
    """One input file: the name a user knows it by, where its bytes are, and whether the user named it himself.

    ``spooled``: the bytes are our own temporary copy of what came through a pipe or from a URL.
    """

    name: str
    path: Path
    explicit: bool = True
    spooled: bool = False

    def size_bytes(self) -> int:
        """Bytes as stored (compressed where it is); 0 where the file is gone, which opening it will tell."""
        try:
            return self.path.stat().st_size
        except OSError:
            return 0


@dataclass(slots=True)
class Opened:
    """A source being read: the decompressed stream, and the digest of the stored bytes."""

    stream: io.BufferedIOBase
    _tap: _Tap = field(repr=False)

    def sha256(self) -> str:
        """Return the digest of the whole file; what no reader wanted (the rest of a damaged stream) is read here."""
        while self._tap.read(1 << 20):
            pass
        return self._tap.digest.hexdigest()


def expand(paths: Sequence[str]) -> list[Source]:
    """Return the files that ``paths`` name: files, globs, directories (all files below, sorted), URLs and ``-``.

    A file that is named twice, under whatever spelling, is one file: read twice it would look like perfect reuse.

    Raises:
        InputError: a path does not exist, a glob matches nothing, a directory holds no file, or a URL cannot be read.
        MissingExtra: the package for a URL is not installed.
    """
    found: dict[str, Source] = {}
    try:
        for path in dict.fromkeys(paths):
            if is_url(path):
                for file in remote_files(path):
                    key = os.path.realpath(file.path) if file.local else file.url
                    if key not in found:
                        found[key] = _fetched(file)
                continue
            try:
                sources = _expand_one(path)
            except OSError as error:
                raise unreadable(shown(path), error) from None
            for source in sources:
                found.setdefault(os.path.realpath(source.path), source)
    except BaseException:
        discard(found.values())
        raise
    return list(found.values())


def discard(sources: Iterable[Source]) -> None:
    """Remove the temporary copies among ``sources``."""
    for source in sources:
        if source.spooled:
            source.path.unlink(missing_ok=True)


def shown(path: str) -> str:
    """Return a path as text that can be printed and encoded, whatever it holds; of a URL what is no secret."""
    if is_url(path):
        path = public(path)
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def unreadable(name: str, error: OSError) -> InputError:
    """Return the sentence for a file that the system refuses to read."""
    return InputError(f"{name}: cannot be read ({error.strerror}); check the path and its rights.")


def _expand_one(path: str) -> list[Source]:
    name, place = shown(path), Path(path)
    if path == STDIN:
        return [_spooled_stdin()]
    if not path:
        # Path("") is the current folder: an unset variable must not analyze whatever lies there.
        raise InputError("the path is empty; name a file, a folder or - for standard input.")
    if place.is_dir():
        files = sorted(p for p in place.rglob("*") if p.is_file() and not _hidden(p.relative_to(place)))
        if not files:
            raise InputError(f"{name}: the directory holds no files; name one that holds request logs.")
        return [Source(shown(str(p)), p, explicit=False) for p in files]
    if place.exists():
        if stat.S_ISFIFO(place.stat().st_mode):
            with place.open("rb") as pipe:
                return [_spooled(name, pipe)]
        return [Source(name, place)]
    if glob.has_magic(path):
        # glob, not Path.glob: the pattern may be absolute, and ** has to work as in a shell.
        matches = sorted(p for p in glob.glob(path, recursive=True) if Path(p).is_file())  # noqa: PTH207
        if matches:
            return [Source(shown(p), Path(p), explicit=False) for p in matches]
        raise InputError(f"{name}: no file matches this pattern; quote it if the shell should not expand it.")
    raise InputError(f"{name}: no such file or directory; check the spelling.")


def _hidden(relative: Path) -> bool:
    return any(part.startswith(".") for part in relative.parts)


def _spooled_stdin() -> Source:
    if sys.stdin is None:
        raise InputError("standard input is closed; name a file, or pipe a log into kvtools.")
    return _spooled(STDIN_NAME, sys.stdin.buffer)


def _spooled(name: str, stream: IO[bytes]) -> Source:
    # A log is read at least twice (its head, then all of it; again with the reference tokenizer), a pipe only once.
    with tempfile.NamedTemporaryFile(prefix="kvtools-pipe-", delete=False) as spool:
        source = Source(name, Path(spool.name), spooled=True)
        try:
            shutil.copyfileobj(stream, spool, 1 << 20)
        except BaseException as error:
            discard([source])
            if isinstance(error, OSError):
                raise InputError(f"{name}: cannot be copied to {spool.name} ({error.strerror}).") from None
            raise
    return source


def _fetched(file: RemoteFile) -> Source:
    name = shown(file.name)
    if file.local:
        place = Path(file.path)
        if not place.exists():
            raise InputError(f"{name}: no such file or directory; check the spelling.")
        return Source(name, place, file.explicit)
    with tempfile.NamedTemporaryFile(prefix="kvtools-url-", delete=False) as spool:
        source = Source(name, Path(spool.name), file.explicit, spooled=True)
    try:
        file.copy_to(source.path)
    except BaseException:
        discard([source])
        raise
    return source


class _Tap(io.RawIOBase):
    """A raw stream that hashes and counts what is read through it."""

    def __init__(self, name: str, raw: io.RawIOBase, advance: Callable[[int], None]) -> None:
        self._name = name
        self._raw = raw
        self._advance = advance
        self.digest = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            size = self._raw.readinto(buffer) or 0
        except OSError as error:
            raise unreadable(self._name, error) from None
        self.digest.update(buffer[:size])
        self._advance(size)
        return size


class _Zstd(io.RawIOBase):
    """Decompressed frames, one after another; a frame that is cut short raises ``EOFError`` as gzip's reader does."""

    def __init__(self, stream: io.BufferedReader[Any]) -> None:
        self._stream: io.BufferedReader[Any] = stream
        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._begun = False
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            rest = self._frame.unused_data if self._frame.eof else b""
            if self._frame.eof:
                self._frame = zstandard.ZstdDecompressor().decompressobj()
                self._begun = False
            data = rest or self._stream.read(_ZSTD_FEED_BYTES)
            if not data:
                if self._begun:
                    raise EOFError("the zstd stream is cut short")
                return 0
            self._begun = True
            self._ready = memoryview(b"")  # the block before is let go before the next is unpacked
            self._ready = memoryview(self._frame.decompress(data))
        size = min(len(buffer), len(self._ready))
        buffer[:size] = self._ready[:size]
        self._ready = self._ready[size:]
        return size


@contextmanager
def opened(source: Source, advance: Callable[[int], None] = lambda _: None) -> Iterator[Opened]:
    """Open ``source`` for reading as decompressed bytes; ``advance`` is told the stored bytes consumed.

    Raises:
        InputError: the file cannot be opened.
    """
    try:
        raw = source.path.open("rb", buffering=0)
    except OSError as error:
        raise unreadable(source.name, error) from None
    with raw:
        tap = _Tap(source.name, raw, advance)
        stream = io.BufferedReader(tap, _BLOCK_BYTES)
        yield Opened(_decompressed(stream), tap)


def _decompressed(stream: io.BufferedReader[Any]) -> io.BufferedIOBase:
    magic = stream.peek(4)[:4]
    if magic.startswith(_GZIP_MAGIC):
        return gzip.GzipFile(fileobj=stream, mode="rb")
    if magic in (_ZSTD_MAGIC, *_ZSTD_SKIPPABLE):
        return io.BufferedReader(_Zstd(stream), 1 << 20)
    return stream


def head_of(source: Source) -> tuple[bytes, bool]:
    """Return the first decompressed bytes (256 KiB at most), and whether the stream is damaged within them."""
    with opened(source) as file:
        parts: list[bytes] = []
        size = 0
        try:
            # read1: a read of many bytes at once loses those before the damage.
            while size < HEAD_BYTES and (part := file.stream.read1(HEAD_BYTES - size)):
                parts.append(part)
                size += len(part)
        except DAMAGED:
            return b"".join(parts), True
        return b"".join(parts), False
