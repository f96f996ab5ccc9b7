"""Paths on the command line to byte streams: globs, directories, stdin, gzip and zstd.

Each file is hashed (SHA-256 of the bytes as stored) while it is read, so that a report can name its
input exactly without a second pass.
"""

from __future__ import annotations

import glob
import gzip
import hashlib
import io
import shutil
import sys
import tempfile
import zlib
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import zstandard

from kvtools.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

STDIN = "-"
STDIN_NAME = "<stdin>"
HEAD_BYTES = 256 * 1024
_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
DAMAGED = (EOFError, zlib.error, zstandard.ZstdError, gzip.BadGzipFile)
"""What a damaged compressed stream raises while it is read."""


@dataclass(frozen=True, slots=True)
class Source:
    """One input file: the name a user knows it by, where its bytes are, and whether the user named it himself."""

    name: str
    path: Path
    explicit: bool = True

    def size_bytes(self) -> int:
        """Bytes as stored (compressed where it is)."""
        return self.path.stat().st_size


@dataclass(slots=True)
class Opened:
    """A source being read: the decompressed stream, and the digest of the stored bytes."""

    stream: IO[bytes]
    _tap: _Tap = field(repr=False)

    def sha256(self) -> str:
        """Return the digest of the whole file; what no reader wanted (the rest of a damaged stream) is read here."""
        while self._tap.read(1 << 20):
            pass
        return self._tap.digest.hexdigest()


def expand(paths: Sequence[str]) -> list[Source]:
    """Return the files that ``paths`` name: files, globs, directories (all files below, sorted) and ``-``.

    Raises:
        InputError: a path does not exist, a glob matches nothing, or a directory holds no file.
    """
    sources: list[Source] = []
    for path in paths:
        sources.extend(_expand_one(path))
    seen: dict[str, Source] = {}
    for source in sources:
        seen.setdefault(source.name, source)
    return list(seen.values())


def _expand_one(path: str) -> list[Source]:
    if path == STDIN:
        return [_spooled_stdin()]
    place = Path(path)
    if place.is_dir():
        files = sorted(p for p in place.rglob("*") if p.is_file() and not _hidden(p.relative_to(place)))
        if not files:
            raise InputError(f"{path}: the directory holds no files; name one that holds request logs.")
        return [Source(str(p), p, explicit=False) for p in files]
    if place.exists():
        return [Source(path, place)]
    if glob.has_magic(path):
        # glob, not Path.glob: the pattern may be absolute, and ** has to work as in a shell.
        matches = sorted(p for p in glob.glob(path, recursive=True) if Path(p).is_file())  # noqa: PTH207
        if matches:
            return [Source(p, Path(p), explicit=False) for p in matches]
        raise InputError(f"{path}: no file matches this pattern; quote it if the shell should not expand it.")
    raise InputError(f"{path}: no such file or directory; check the spelling.")


def _hidden(relative: Path) -> bool:
    return any(part.startswith(".") for part in relative.parts)


def _spooled_stdin() -> Source:
    # A run may have to start again with the reference tokenizer, so what came through a pipe is kept on disk.
    with tempfile.NamedTemporaryFile(prefix="kvtools-stdin-", delete=False) as spool:
        shutil.copyfileobj(sys.stdin.buffer, spool)
    return Source(STDIN_NAME, Path(spool.name))


class _Tap(io.RawIOBase):
    """A raw stream that hashes and counts what is read through it."""

    def __init__(self, raw: IO[bytes], advance: Callable[[int], None]) -> None:
        self._raw = raw
        self._advance = advance
        self.digest = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._raw.read(len(buffer))
        buffer[: len(data)] = data
        self.digest.update(data)
        self._advance(len(data))
        return len(data)


class _Zstd(io.RawIOBase):
    """Decompressed frames, one after another; a frame that is cut short raises ``EOFError`` as gzip's reader does."""

    def __init__(self, stream: io.BufferedReader[Any]) -> None:
        self._stream: io.BufferedReader[Any] = stream
        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._begun = False
        self._ready = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            rest = self._frame.unused_data if self._frame.eof else b""
            if self._frame.eof:
                self._frame = zstandard.ZstdDecompressor().decompressobj()
                self._begun = False
            data = rest or self._stream.read(1 << 17)
            if not data:
                if self._begun:
                    raise EOFError("the zstd stream is cut short")
                return 0
            self._begun = True
            self._ready = self._frame.decompress(data)
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
        raw = source.path.open("rb")
    except OSError as error:
        raise InputError(
            f"{source.name}: cannot be read ({error.strerror}); check the path and its rights."
        ) from None
    with raw:
        tap = _Tap(raw, advance)
        stream = io.BufferedReader(tap, 1 << 20)
        yield Opened(_decompressed(stream), tap)


def _decompressed(stream: io.BufferedReader[Any]) -> Any:
    magic = stream.peek(4)[:4]
    if magic.startswith(_GZIP_MAGIC):
        return gzip.GzipFile(fileobj=stream, mode="rb")
    if magic == _ZSTD_MAGIC:
        return io.BufferedReader(_Zstd(stream), 1 << 20)
    return stream


def head_of(source: Source) -> bytes:
    """Return the first decompressed bytes of a source (256 KiB at most), as far as they can be read."""
    with opened(source) as file:
        parts: list[bytes] = []
        size = 0
        try:
            while size < HEAD_BYTES and (part := file.stream.read(min(65536, HEAD_BYTES - size))):
                parts.append(part)
                size += len(part)
        except DAMAGED:
            pass
        return b"".join(parts)
