"""``watch``: a log that grows, or a server, looked at again and again."""

from __future__ import annotations

import io
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from kvtools.chat import load
from kvtools.errors import InputError, UsageError
from kvtools.flow.intake import IntakeOptions
from kvtools.flow.watch_findings import CurrentFinding
from kvtools.flow.watch_server import ServerWatch
from kvtools.monitor.follow import Followed
from kvtools.monitor.growing import Batch, Piped
from kvtools.monitor.tally import CAPACITY_BLOCKS, Tally
from kvtools.profile import Keying
from kvtools.readers import READERS, ReadOptions
from kvtools.readers.base import JsonLinesReader
from kvtools.readers.sources import Opened, Source
from kvtools.readers.urls import is_url
from kvtools.report.watch import LogTick
from kvtools.tokens import FastTokenizerDiffers, load_tokenizer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvtools.readers import Chunk, Reader

STDIN = "-"
_LINE_FORMATS = ("vllm-log", "sglang-log")
_MOST_HELD_BYTES = 32 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOptions(IntakeOptions):
    """What ``watch`` can be told besides how to read.

    ``capacity_blocks`` of the LRU cache that the log is looked up in; ``recent``: over how many of the last requests
    the recent rate goes; ``from_end`` leaves out what the log holds already; ``findings`` asks for the worst finding
    of the last requests, at most every ``findings_every_s``.
    """

    capacity_blocks: int = CAPACITY_BLOCKS
    recent: int = 1_000
    from_end: bool = False
    findings: bool = True
    findings_every_s: float = 30.0

    def __post_init__(self) -> None:
        if self.input_format is not None and self.input_format not in READERS:
            raise UsageError(f"--input-format {self.input_format}: not a format; kvtools formats lists them.")
        if self.block_size is not None and self.block_size < 1:
            raise UsageError(f"--block-size {self.block_size}: a block holds at least 1 token.")

    def reading(self) -> dict[str, Any]:
        """Return what says how the log is read, as ``analyze`` takes it."""
        return {one.name: getattr(self, one.name) for one in fields(IntakeOptions)}


def watch(target: str, options: WatchOptions, stdin: int = 0) -> LogWatch | ServerWatch:
    """Return what follows a log (a path, or ``-`` for a pipe) or polls a server (an http URL).

    Call ``look`` often and ``tick`` at the end of each interval, with the time in s of any clock that runs evenly.

    Raises:
        InputError: the log cannot be followed.
        UsageError: an option is out of its range.
    """
    if is_url(target):
        return ServerWatch(target)
    if target == STDIN:
        return LogWatch(target, Piped(stdin), options)
    return LogWatch(target, Followed.of(Path(target), at_end=options.from_end), options)


@dataclass(slots=True)
class LogWatch:
    """A log that is followed."""

    name: str
    followed: Followed | Piped
    options: WatchOptions
    tally: Tally = field(init=False)
    reader: Reader | None = None
    _keying: Keying | None = None
    _finding: CurrentFinding | None = None
    _held: Batch | None = None
    _lines: int = 0
    _notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tally = Tally(self.options.capacity_blocks, self.options.recent)
        if self.options.findings:
            self._finding = CurrentFinding(self.options.reading(), self.options.findings_every_s)

    @property
    def ended(self) -> bool:
        """Whether nothing more can come: the pipe is closed."""
        return self.followed.ended

    def start(self) -> None:
        """Nothing is asked for before the first look."""

    def look(self) -> None:
        """Take in all lines that are there now."""
        for batch in self.followed.batches():
            self._take(batch)

    def close(self) -> None:
        """Take in what is left, and close the files."""
        self.look()
        for batch in self.followed.end():
            self._take(batch)
        if self._held is not None:
            self._read(self._held)
            self._held = None
        self.followed.close()

    def tick(self, at_s: float, *, findings: bool = True) -> LogTick:
        """Return where the log stands, and begin a new interval."""
        if self._finding and findings and self.reader:
            self._finding.renew(at_s, self.reader.name)
        now, recent, total, reported = self.tally.stretches()
        counts, followed = self.tally.counts, self.followed
        worst, missing = self._finding.said(at_s) if self._finding else (None, "left out: --no-findings")
        return LogTick(
            source=self.name,
            at_s=at_s,
            block_size=self._keying.block_size if self._keying else None,
            capacity_blocks=self.options.capacity_blocks,
            evictions=self.tally.cache.evictions,
            now=now,
            recent=recent,
            total=total,
            reported=reported,
            cold_share=self.tally.cold_share,
            lines=self._lines + followed.too_long,
            read=counts["read"] + followed.too_long,
            rejected=counts["rejected"] + followed.too_long,
            without_prompt=counts["without_prompt"],
            duplicates=counts["duplicates"],
            not_sent=counts["not_sent"],
            last_reject=None if self.tally.last_reject is None else ": ".join(self.tally.last_reject),
            rotations=followed.rotations,
            truncations=followed.truncations,
            maybe_lost=followed.maybe_lost,
            worst=worst,
            worst_missing=missing,
            notes=list(self._notes),
        )

    def _take(self, batch: Batch) -> None:
        self._lines += batch.data.count(b"\n")
        if self.reader is None and not self._recognise(batch):
            return
        if self._held is not None:
            batch = Batch(self._held.data + batch.data, batch.name, self._held.number)
            self._held = None
        if self.reader is not None and self.reader.name == "vllm-log":
            batch, self._held = _without_open_prompt(batch)
        self._read(batch)

    def _recognise(self, batch: Batch) -> bool:
        given = self.options.input_format
        if not batch.data.strip():
            return False
        readers = [READERS[given]] if given else list(READERS.values())
        found = next((one for one in readers if given or one.sniff(batch.data[: 256 << 10])), None)
        if found is None:
            raise InputError(
                f"{batch.name}:{batch.number}: not in a known format; name it with --input-format "
                "(kvtools formats lists them)."
            )
        if not isinstance(found, JsonLinesReader) and found.name not in _LINE_FORMATS:
            raise InputError(
                f"{batch.name}: {found.name} is no format of lines that stand for themselves; kvtools analyze reads it."
            )
        self.reader = found
        self._keying = self._key_with(fast=True)
        return True

    def _key_with(self, *, fast: bool) -> Keying:
        chosen = self.options
        return Keying(
            load(chosen.chat_template),
            load_tokenizer(chosen.tokenizer, fast=fast),
            chosen.block_size,
            chosen.rules,
            chosen.strict,
        )

    def _read(self, batch: Batch) -> None:
        if self._finding:
            self._finding.add(batch.data)
        before = self.tally.last_reject
        for chunk in _chunks(batch, self.reader, self.options):
            fresh = self.tally.first_time(chunk)
            self._look_up(fresh)
        if self.tally.last_reject is not before and self.tally.last_reject is not None:
            place, why = self.tally.last_reject
            name, _, line = place.rpartition(":")
            self.tally.last_reject = (f"{name}:{int(line) + batch.number - 1}", why)

    def _look_up(self, fresh: Chunk) -> None:
        keying = self._keying
        if keying is None:
            return
        try:
            keyed = keying.key(fresh.requests)
        except FastTokenizerDiffers as difference:
            block_size, rules, kind = keying.block_size, keying.rules, keying.kind
            self._keying = keying = self._key_with(fast=False)
            keying.block_size, keying.rules, keying.kind = block_size, rules, kind
            self._notes.append(
                f"the fast tokenizer differs from the reference in {difference}: from here on the reference is used; "
                "what was read before may be off by such prompts."
            )
            keyed = keying.key(fresh.requests)
        self.tally.add(fresh, keyed, keying)


def _chunks(batch: Batch, reader: Reader | None, options: WatchOptions) -> Iterator[Chunk]:
    if reader is None:
        return iter(())
    # A part of a log has no digest: nobody asks for it.
    file = Opened(cast("Any", io.BytesIO(batch.data)), cast("Any", None))
    reading = ReadOptions(options.route_key, options.strict, options.mapping)
    return reader.read(file, Source(batch.name, Path(batch.name)), reading)


def _without_open_prompt(batch: Batch) -> tuple[Batch, Batch | None]:
    """Return the lines before a prompt of vLLM's log whose request's line has not come yet, and those from it on."""
    place = batch.data.rfind(b" details: prompt: ")
    if place < 0 or len(batch.data) > _MOST_HELD_BYTES or b"Received request " in batch.data[place:]:
        return batch, None
    start = batch.data.rfind(b"\n", 0, place) + 1
    before = batch.data[:start]
    rest = Batch(batch.data[start:], batch.name, batch.number + before.count(b"\n"))
    return Batch(before, batch.name, batch.number), rest
