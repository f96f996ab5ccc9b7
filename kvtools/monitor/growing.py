"""Lines of a stream that grows: complete ones as they come, the last one when it is whole."""

from __future__ import annotations

import os
import select
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kvtools.readers.lines import MAX_LINE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

READ_BYTES = 1 << 20
"""So much is taken at once: lines become requests in pieces of this size."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Complete lines of one file; ``number`` is that of the first (from 1)."""

    data: bytes
    name: str
    number: int


@dataclass(slots=True)
class Lines:
    """The lines of one stream: what has no end yet waits, and one that is too long is dropped and counted."""

    name: str
    number: int = 1
    rest: bytearray = field(default_factory=bytearray)
    skipping: bool = False
    too_long: int = 0

    def add(self, data: bytes) -> Batch | None:
        """Take in what came and return the lines that are complete with it."""
        cut = data.rfind(b"\n") + 1
        if not cut:
            self._wait(data)
            return None
        whole = bytes(self.rest) + data[:cut]
        if self.skipping:
            whole = whole.partition(b"\n")[2]
            self.number += 1
            self.skipping = False
        self.rest.clear()
        batch = Batch(whole, self.name, self.number) if whole else None
        self.number += whole.count(b"\n")
        self._wait(data[cut:])
        return batch

    def _wait(self, data: bytes) -> None:
        if not self.skipping:
            self.rest += data
        if len(self.rest) > MAX_LINE_BYTES:
            self.rest.clear()
            self.skipping = True
            self.too_long += 1

    def end(self) -> Batch | None:
        """Return what is left as a line of its own."""
        left = bytes(self.rest)
        self.rest.clear()
        return Batch(left + b"\n", self.name, self.number) if left.strip() else None


@dataclass(slots=True)
class Piped:
    """Lines that come through a pipe: ``ended`` once its other side is closed."""

    descriptor: int
    ended: bool = False
    rotations: int = 0
    truncations: int = 0
    maybe_lost: int = 0
    _lines: Lines = field(default_factory=lambda: Lines("<stdin>"))

    @property
    def too_long(self) -> int:
        """Lines that were longer than 32 MiB and were dropped."""
        return self._lines.too_long

    def batches(self) -> Iterator[Batch]:
        """Yield all complete lines that are there now."""
        while not self.ended and select.select([self.descriptor], [], [], 0)[0]:
            data = os.read(self.descriptor, READ_BYTES)
            self.ended = not data
            if batch := self._lines.add(data):
                yield batch

    def end(self) -> Iterator[Batch]:
        """Yield what is left: a last line without a line feed."""
        if batch := self._lines.end():
            yield batch

    def close(self) -> None:
        """Leave the pipe open: it is not ours."""
