"""A log that grows: its complete lines as they come, through rotation and truncation.

What is told apart, at each look:

* the path names another file than the one that is open (renamed, a new one made): the old one is read to its end, and
  looked at for some time more, because its writer may not have noticed; then the new one from its start. Files that
  came and went in between are read whole.
* the file is shorter than what was read of it, or says something else just before that place (``copytruncate``): what
  the copy beside it has beyond what was read is read there, then the file from its start. A file that was cut without a
  copy may have held lines that nobody can read any more: ``maybe_lost`` counts such cuts. One that was filled again
  between two looks with the very bytes that stood before that place looks as if it had only grown.

The last bytes without a line feed wait for the rest of their line. Nothing is kept but these and a few bytes before.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kvtools.errors import InputError
from kvtools.monitor.growing import READ_BYTES, Batch, Lines
from kvtools.readers.sources import unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_TAIL_BYTES = 256
_LOOKS_AT_OLD = 40
_COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")
_ROTATED = r"[-._](?:\d[\w:.-]*|old|bak|prev)"
"""What rotation adds to a name: log.1, log-20260715, log.old."""
_PACKED = (".gz", ".zst", ".xz", ".bz2")


@dataclass(slots=True)
class _File:
    """One open file, read up to ``place``; ``tail`` is what stands just before it."""

    descriptor: int
    lines: Lines
    place: int = 0
    tail: bytes = b""
    idle: int = 0

    def inode(self) -> tuple[int, int]:
        found = os.fstat(self.descriptor)
        return found.st_dev, found.st_ino

    def more(self) -> bytes | None:
        """Return what stands behind ``place``, ``None`` where the file is not the one that was read any more."""
        data = os.pread(self.descriptor, len(self.tail) + READ_BYTES, self.place - len(self.tail))
        if not data.startswith(self.tail):
            return None
        data = data[len(self.tail) :]
        self.taken(data)
        return data

    def taken(self, data: bytes) -> None:
        self.place += len(data)
        self.tail = (self.tail + data[-_TAIL_BYTES:])[-_TAIL_BYTES:]

    def start_again(self) -> None:
        self.place, self.tail, self.lines.number = 0, b"", 1


@dataclass(slots=True)
class Followed:
    """A path that is followed; see the module. Call ``batches`` again and again, and ``close`` at the end."""

    path: Path
    rotations: int = 0
    truncations: int = 0
    maybe_lost: int = 0
    _now: _File | None = None
    _old: list[_File] = field(default_factory=list)
    _beside: dict[tuple[int, int], int] = field(default_factory=dict)
    _too_long: int = 0

    ended = False

    @classmethod
    def of(cls, path: Path, *, at_end: bool = False) -> Followed:
        """Open a path; ``at_end`` leaves out the lines that are there.

        Raises:
            InputError: it cannot be read, is no file, or is compressed.
        """
        found = cls(path)
        found._now = file = found._open(path)
        if os.pread(file.descriptor, 4, 0).startswith(_COMPRESSED):
            os.close(file.descriptor)
            raise InputError(f"{path}: compressed, and such a log does not grow; kvtools analyze reads it.")
        if at_end:
            found._skip_to_end(file)
        found._beside = found._neighbours()
        return found

    @property
    def too_long(self) -> int:
        """Lines that were longer than 32 MiB and were dropped."""
        return self._too_long + sum(file.lines.too_long for file in (*self._old, self._now) if file)

    def batches(self) -> Iterator[Batch]:
        """Yield all complete lines that are there now and were not yielded before."""
        for file in self._old:
            yield from self._rest_of(file)
            file.idle += 1
        if self._now is not None:
            yield from self._never_seen(self._now)
            yield from self._rest_of(self._now)
        yield from self._rotated()
        yield from self._retire()
        self._beside = self._neighbours()

    def end(self) -> Iterator[Batch]:
        """Yield what is left: last lines without a line feed."""
        for file in (*self._old, self._now):
            if file is not None and (batch := file.lines.end()):
                yield batch

    def close(self) -> None:
        """Close all files."""
        for file in (*self._old, self._now):
            if file is not None:
                os.close(file.descriptor)
        self._old, self._now = [], None

    def _open(self, path: Path) -> _File:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        except OSError as error:
            raise unreadable(str(path), error) from None
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise InputError(f"{path}: not a file that can grow; name a log, - for standard input, or a URL.")
        return _File(descriptor, Lines(str(path)))

    def _skip_to_end(self, file: _File) -> None:
        size = os.fstat(file.descriptor).st_size
        data = os.pread(file.descriptor, _TAIL_BYTES, max(size - _TAIL_BYTES, 0))
        file.place, file.tail = size, data
        # The line that is being written now is not whole: it is left out too.
        file.lines.skipping = bool(data) and not data.endswith(b"\n")

    def _rest_of(self, file: _File) -> Iterator[Batch]:
        while True:
            data = file.more()
            if data is None:
                self.truncations += 1
                yield from self._from_copy(file)
                continue
            if not data:
                return
            file.idle = 0
            if batch := file.lines.add(data):
                yield batch

    def _from_copy(self, file: _File) -> Iterator[Batch]:
        """Read what the copy of a file that was cut has beyond what was read of it, and begin the file again."""
        copy = self._copy_of(file)
        if copy is None:
            self.maybe_lost += 1
        else:
            yield from _all_of(copy, file.lines, file.place)
            made = self._taken(os.fstat(copy))
            os.close(copy)
            # Copies that were made since then hold what was never seen at all.
            for path, one in self._copies_of(file):
                if one.st_mtime_ns >= made.st_mtime_ns:
                    yield from self._whole(path, file.lines)
        if batch := file.lines.end():
            yield batch
        file.start_again()

    def _never_seen(self, file: _File) -> Iterator[Batch]:
        """Read copies of a file that was cut before anything of it was read: nothing else shows that."""
        for path, _ in [] if file.place else self._copies_of(file):
            self.truncations += 1
            yield from self._whole(path, file.lines)
            if batch := file.lines.end():
                yield batch
            file.lines.number = 1

    def _whole(self, path: Path, lines: Lines) -> Iterator[Batch]:
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except OSError:
            self.maybe_lost += 1
            return
        self._taken(os.fstat(descriptor))
        yield from _all_of(descriptor, lines, 0)
        os.close(descriptor)

    def _taken(self, one: os.stat_result) -> os.stat_result:
        """Remember that a file beside has been read: it is new no longer."""
        self._beside[one.st_dev, one.st_ino] = one.st_mtime_ns
        return one

    def _copies_of(self, file: _File) -> list[tuple[Path, os.stat_result]]:
        """Return new files beside that can be copies of this one.

        Where it has been renamed, those that were written after it are of the next one.
        """
        try:
            found = self.path.stat()
            gone = (found.st_dev, found.st_ino) != file.inode()
        except OSError:
            gone = True
        last_ns = os.fstat(file.descriptor).st_mtime_ns
        return [one for one in self._new_beside() if not gone or one[1].st_mtime_ns <= last_ns]

    def _new_beside(self) -> list[tuple[Path, os.stat_result]]:
        """Return files beside that are new or were written since the last look and are not followed; oldest first."""
        followed = {file.inode() for file in (*self._old, self._now) if file is not None}
        new = [
            (path, one)
            for path, one in self._files_beside()
            if (one.st_dev, one.st_ino) not in followed
            and one.st_mtime_ns > self._beside.get((one.st_dev, one.st_ino), -1)
        ]
        return sorted(new, key=lambda one: one[1].st_mtime_ns)

    def _copy_of(self, file: _File) -> int | None:
        """Open the newest file beside that says the same just before ``place``."""
        for path, _ in sorted(self._files_beside(), key=lambda one: -one[1].st_mtime_ns):
            try:
                descriptor = os.open(path, os.O_RDONLY)
            except OSError:
                continue
            at = file.place - len(file.tail)
            if file.tail and os.pread(descriptor, len(file.tail), at) == file.tail:
                return descriptor
            os.close(descriptor)
        return None

    def _rotated(self) -> Iterator[Batch]:
        """Where the path names another file now, go on with it."""
        try:
            found = self.path.stat()
        except OSError:
            return  # renamed, and the new one is not made yet
        if self._now is not None and (found.st_dev, found.st_ino) == self._now.inode():
            return
        self.rotations += 1
        if self._now is not None:
            yield from self._rest_of(self._now)
            self._old.append(self._now)
            self._now = None
        # The new one of the path itself is none of those beside it.
        for path, _ in self._new_beside():
            try:
                self._old.append(self._open(path))
            except InputError:
                self.maybe_lost += 1
                continue
            yield from self._rest_of(self._old[-1])
        try:
            self._now = self._open(self.path)
        except InputError:
            return  # gone again: the next look finds it
        yield from self._rest_of(self._now)

    def _retire(self) -> Iterator[Batch]:
        """Let go of old files that have not grown for a while."""
        for file in [one for one in self._old if one.idle > _LOOKS_AT_OLD]:
            self._old.remove(file)
            self._too_long += file.lines.too_long
            if batch := file.lines.end():
                yield batch
            os.close(file.descriptor)

    def _files_beside(self) -> list[tuple[Path, os.stat_result]]:
        stem, suffix = re.escape(self.path.stem), re.escape(self.path.suffix)
        name = re.compile(rf"{stem}{suffix}{_ROTATED}|{stem}{_ROTATED}{suffix}")
        found = []
        for path in self.path.parent.iterdir():
            if not name.fullmatch(path.name) or path.suffix in _PACKED:
                continue
            try:
                one = path.stat()
            except OSError:
                continue
            if stat.S_ISREG(one.st_mode):
                found.append((path, one))
        return found

    def _neighbours(self) -> dict[tuple[int, int], int]:
        return {(one.st_dev, one.st_ino): one.st_mtime_ns for _, one in self._files_beside()}


def _all_of(descriptor: int, lines: Lines, place: int) -> Iterator[Batch]:
    while data := os.pread(descriptor, READ_BYTES, place):
        place += len(data)
        if batch := lines.add(data):
            yield batch
