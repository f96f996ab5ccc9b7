"""Finished requests, noted one by one, so that a replay that breaks off can be continued.

The journal stands beside the file of per-request results (``OUT.part``) and is removed when that file is complete.
Its first line names the run: a journal of another log, engine or setting is refused, never mixed in.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

import msgspec

from kvtools.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class Finished(msgspec.Struct, frozen=True):
    """One finished request: its place in the replay, and what it asked for and hit, in tokens."""

    index: int
    queried_tokens: int
    hit_tokens: int
    refused: bool = False


@dataclass(slots=True)
class Journal:
    """``finished`` by place in the replay. ``state`` is what the engine needs to know to continue."""

    finished: dict[int, Finished] = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict)
    _file: IO[bytes] | None = None

    def note(self, request: Finished) -> None:
        """Record one finished request."""
        self.finished[request.index] = request
        self._write(request)

    def remember(self, **state: Any) -> None:
        """Record what the engine needs to know to continue."""
        self.state.update(state)
        self._write({"state": self.state})

    def _write(self, record: Any) -> None:
        if self._file is not None:
            self._file.write(msgspec.json.encode(record) + b"\n")
            self._file.flush()

    def close(self) -> None:
        """Stop writing; what is written stays."""
        if self._file is not None:
            self._file.close()
            self._file = None


def open_journal(path: Path | None, run: Mapping[str, Any], *, resume: bool) -> Journal:
    """Open the journal beside ``path`` (``None``: in memory only); ``run`` names log, engine and settings.

    With ``resume``, what an earlier run finished is taken over.

    Raises:
        InputError: there is nothing to resume, or it was another run.
    """
    if path is None:
        return Journal()
    place = journal_path(path)
    journal = Journal()
    if resume:
        journal = _read(place, run)
    elif place.exists():
        place.unlink()
    try:
        fresh = not place.exists()
        journal._file = place.open("ab")  # noqa: SLF001 - the journal's own module
    except OSError as error:
        raise InputError(
            f"{place}: cannot be written ({error.strerror}); choose another --per-request."
        ) from None
    if fresh:
        journal._write({"run": dict(run)})  # noqa: SLF001
    return journal


def journal_path(path: Path) -> Path:
    """Return where the journal of the per-request file ``path`` stands."""
    return path.with_name(path.name + ".part")


def _read(place: Path, run: Mapping[str, Any]) -> Journal:
    if not place.exists():
        raise InputError(f"{place}: there is no unfinished replay to resume; run without --resume.")
    journal = Journal()
    first = True
    for line in place.read_bytes().split(b"\n"):
        try:
            record = msgspec.json.decode(line)
        except msgspec.DecodeError:
            continue  # the line that was being written when the run broke off
        if first and record.get("run") != dict(run):
            raise InputError(
                f"{place}: another log, engine or setting; run without --resume, or as that run was."
            )
        first = False
        if "index" in record:
            request = msgspec.convert(record, Finished)
            journal.finished[request.index] = request
        elif "state" in record:
            journal.state = record["state"]
    return journal
