"""The way in that all verbs share: paths to keyed chunks, with every record counted."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from kvtools.chat import DEFAULT_TEMPLATE, load
from kvtools.errors import ChangedInput, InputError, RejectedInput
from kvtools.executors import SERIAL
from kvtools.profile import Keying
from kvtools.readers import FileTally, ReadOptions, discard_spool, find_inputs, read
from kvtools.readers.duplicates import Deduplicator
from kvtools.report.model import Input
from kvtools.report.rejects import RejectLog, reject_log
from kvtools.tokens import (
    DEFAULT_TOKENIZER,
    FastTokenizerDiffers,
    Tokenizer,
    how_checked,
    load_tokenizer,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pandas as pd

    from kvtools.chat import ChatTemplate
    from kvtools.executors import Work
    from kvtools.model import Rules
    from kvtools.profile import Counts, Keyed
    from kvtools.readers import Chunk, InputLog

R = TypeVar("R")
PathLike = str | Path


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeOptions:
    """How to read a log; a field that is ``None`` is settled by the log.

    ``rejects`` receives a JSON line per rejected record; ``strict`` stops at the first. ``mapping`` names, for
    CSV and parquet, the source of each column. ``work`` says where ``analyze`` makes keys of chunks, and
    whether it keeps them for the next run.
    """

    input_format: str | None = None
    route_key: str | None = None
    chat_template: str = DEFAULT_TEMPLATE
    tokenizer: str = DEFAULT_TOKENIZER
    block_size: int | None = None
    rules: Rules | None = None
    rejects: Path | None = None
    strict: bool = False
    mapping: Mapping[str, str] | None = None
    work: Work = SERIAL


@dataclass(slots=True)
class Watcher:
    """What a long run tells whoever waits: how far it is, and what went wrong on the way.

    ``phase`` names what is done from here on, and what ``begin`` and ``advance`` count: bytes, requests, or nothing
    (an empty unit: how long it takes is not known). ``begin`` follows it where something is counted.
    """

    begin: Callable[[int], None] = lambda _: None
    advance: Callable[[int], None] = lambda _: None
    warn: Callable[[str], None] = lambda _: None
    phase: Callable[[str, str], None] = lambda _name, _unit: None

    def quiet(self) -> Watcher:
        """Return a watcher of a pass over what was read before: what is wrong with it has been told."""
        return Watcher(self.begin, self.advance, phase=self.phase)


@dataclass(slots=True)
class Intake:
    """One pass over a log. The keying is settled by the first chunk; the tallies are complete after the last."""

    log: InputLog
    options: IntakeOptions
    watcher: Watcher
    rejects: RejectLog
    template: ChatTemplate
    tokenizer: Tokenizer
    keying: Keying
    fast: bool = True
    tallies: list[FileTally] = field(default_factory=list)

    def chunks(self) -> Iterator[tuple[Chunk, Keyed, int]]:
        """Yield each chunk with its keyed requests and the number of repeated calls that were dropped from it."""
        for chunk, dropped in self.fresh_chunks():
            keyed = self.keying.key(chunk.requests)
            self.rejects.add(chunk.reject_rows())
            self.rejects.add(keyed.rejects)
            yield chunk, keyed, dropped

    def fresh_chunks(self) -> Iterator[tuple[Chunk, int]]:
        """Yield each chunk without the repeated calls, and how many these were; rejects are not recorded."""
        once = Deduplicator()
        self.watcher.phase("reading", "bytes")
        self.watcher.begin(self.log.size_bytes())
        reading = ReadOptions(self.options.route_key, self.options.strict, self.options.mapping)
        for chunk in read(self.log, reading, self.tallies, self.watcher.advance):
            yield once.first_time(chunk)
        self.watcher.phase("replaying", "")

    def again(self) -> Iterator[pd.DataFrame]:
        """Yield the tables of the same chunks once more; nothing is counted, rejected or keyed a second time.

        Raises:
            ChangedInput: at the end of the pass, where a file is not what it was in the first.
        """
        once = Deduplicator()
        self.watcher.phase("reading again", "bytes")
        self.watcher.begin(self.log.size_bytes())
        reading = ReadOptions(self.options.route_key, self.options.strict, self.options.mapping)
        tallies: list[FileTally] = []
        for chunk in read(self.log, reading, tallies, self.watcher.advance):
            yield once.first_time(chunk)[0].requests
        self.watcher.phase("pricing fixes", "")
        for before, now in zip(self.tallies, tallies, strict=True):
            if before.sha256 != now.sha256:
                raise ChangedInput(f"{now.path} changed while it was read: copy it and read the copy.")

    def settled(self, counts: Counts, prompts: int) -> tuple[int, Rules]:
        """Return block size and rules once the log is read.

        Raises:
            InputError: the log had no request with a prompt.
        """
        block_size, rules = self.keying.block_size, self.keying.rules
        if block_size is None or rules is None or not prompts:
            raise _nothing_to_analyze(counts, self.tallies)
        return block_size, rules

    def inputs(self) -> list[Input]:
        """Return the files as they stand in a report."""
        return [Input(path=t.path, sha256=t.sha256, requests=t.requests) for t in self.tallies]

    def tokenizer_check(self) -> str:
        """Say how the ids of this pass were made sure of."""
        return how_checked(self.tokenizer)


def take_in(
    paths: Sequence[PathLike] | PathLike, options: IntakeOptions, watcher: Watcher, run: Callable[[Intake], R]
) -> R:
    """Find the files and hand one pass over them to ``run``; return what it makes of it.

    Where the fast tokenizer differs from the reference, ``run`` is called again with a pass on the reference.

    Raises:
        InputError: a path is missing, unreadable or of no known format.
        TemplateError: the chat template is missing or broken.
        UsageError: the input format is not known.
    """
    named = [str(path) for path in ([paths] if isinstance(paths, (str, Path)) else paths)]
    log = find_inputs(named, options.input_format)
    try:
        with reject_log(options.rejects) as rejects:
            # The list of rejects is most wanted where nothing else could be read: it is written all the same.
            outcome = _attempt(
                lambda fast: run(_intake(log, options, watcher, rejects, fast=fast)), watcher, rejects
            )
            for line in rejects.first:
                watcher.warn(f"{line}; rejected.")
    finally:
        discard_spool(log)
    if isinstance(outcome, InputError):
        raise outcome
    return outcome


def _attempt(run: Callable[[bool], R], watcher: Watcher, rejects: RejectLog) -> R | InputError:
    """Run with the fast tokenizer, and again on the reference where the two differ; return an input error."""
    try:
        return run(True)  # noqa: FBT003 - fast
    except RejectedInput:
        raise  # the first reject ended the run: there is no list of them
    except FastTokenizerDiffers as difference:
        watcher.warn(
            f"the fast tokenizer differs from the reference in {difference}; "
            "the whole run is done again with the reference (about ten times slower)."
        )
    except InputError as error:
        return error
    rejects.restart()
    try:
        return run(False)  # noqa: FBT003 - not fast
    except RejectedInput:
        raise
    except InputError as error:
        return error


def _intake(
    log: InputLog, options: IntakeOptions, watcher: Watcher, rejects: RejectLog, *, fast: bool
) -> Intake:
    template = load(options.chat_template)
    tokenizer = load_tokenizer(options.tokenizer, fast=fast)
    keying = Keying(template, tokenizer, options.block_size, options.rules, options.strict)
    return Intake(log, options, watcher, rejects, template, tokenizer, keying, fast)


def _nothing_to_analyze(counts: Counts, tallies: list[FileTally]) -> InputError:
    names = ", ".join(tally.path for tally in tallies[:3]) + (", …" if len(tallies) > 3 else "")
    return InputError(
        f"no request with a prompt in {names}: {counts.records:,} records read, "
        f"{counts.rejected.total():,} rejected, {counts.without_prompt:,} without a prompt; "
        "check the format (--input-format) and list what was rejected (--rejects FILE)."
    )
