"""The list of rejected records: a JSON line each, written beside its place and renamed when complete."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING

import msgspec

from kvtools.report.files import replacing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

FIRST_SHOWN = 3


@dataclass(slots=True)
class RejectLog:
    """Counts rejects, remembers the first few for the terminal, and writes all of them where a file was asked for."""

    _file: IO[str] | None = None
    by_reason: Counter[str] = field(default_factory=Counter)
    first: list[str] = field(default_factory=list)

    def add(self, rows: Iterable[tuple[str, str, str]]) -> None:
        """Record ``(source, reason, detail)`` rows."""
        for source, reason, detail in rows:
            self.by_reason[reason] += 1
            if len(self.first) < FIRST_SHOWN:
                self.first.append(f"{source}: {detail}")
            if self._file is not None:
                line = msgspec.json.encode({"source": source, "reason": reason, "detail": detail})
                self._file.write(line.decode() + "\n")

    def restart(self) -> None:
        """Forget everything: the run begins again."""
        self.by_reason.clear()
        self.first.clear()
        if self._file is not None:
            self._file.seek(0)
            self._file.truncate()

    @property
    def total(self) -> int:
        """All rejected records."""
        return self.by_reason.total()


@contextmanager
def reject_log(path: Path | None) -> Iterator[RejectLog]:
    """Open a reject log; with a ``path`` the file appears there when the block ends without an error.

    Raises:
        InputError: the file cannot be written.
    """
    if path is None:
        yield RejectLog()
        return
    with replacing(path) as file:
        yield RejectLog(file)
