"""``convert``: any log that kvtools reads, written in another format, with or without its text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvtools.errors import InputError, UsageError
from kvtools.flow.intake import Intake, IntakeOptions, PathLike, Watcher, take_in
from kvtools.model import DEFAULT_BLOCK_TOKENS
from kvtools.profile import Counts
from kvtools.report.files import replacing
from kvtools.writers import WRITERS, Anonymizer, BlockIds, lost_columns, with_token_ids

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import pandas as pd

    from kvtools.profile import Keyed
    from kvtools.writers import Writer

_WITH_BLOCKS = ("mooncake", "parquet")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertOptions(IntakeOptions):
    """What ``convert`` can be told besides how to read.

    ``to`` is the format of ``target``. With a ``key`` (``--anonymize``) text is left out and names become
    hashes with that key: only for formats that carry block ids.
    """

    target: Path
    to: str
    key: bytes | None = None

    def __post_init__(self) -> None:
        if self.to not in WRITERS:
            raise UsageError(
                f"--to {self.to}: not a format that can be written; take one of {', '.join(WRITERS)}."
            )
        if self.key is not None and self.to not in _WITH_BLOCKS:
            raise UsageError(
                f"--anonymize leaves no text, and {self.to} is text: write --to {' or '.join(_WITH_BLOCKS)}."
            )


@dataclass(frozen=True, slots=True)
class Converted:
    """What was written: how many requests, which columns the format could not hold, where the records went."""

    requests: int
    lost_columns: tuple[str, ...]
    counts: Counts


def convert(
    paths: Sequence[PathLike] | PathLike, options: ConvertOptions, watcher: Watcher | None = None
) -> Converted:
    """Write the log to ``options.target`` (beside it, then renamed) and return what was written.

    Raises:
        InputError: the log cannot be read, or holds no request.
        UsageError: the options contradict each other.
    """
    return take_in(paths, options, watcher or Watcher(), lambda intake: _convert(intake, options))


def _convert(intake: Intake, options: ConvertOptions) -> Converted:
    writer, written = WRITERS[options.to], _Written(Counts())
    with replacing(options.target) as file:
        for part in writer.write(_tables(intake, options, writer, written)):
            file.buffer.write(part)
        if not written.requests:
            raise InputError(
                f"no request in the log: {written.counts.records:,} records read; nothing is written."
            )
    return Converted(written.requests, tuple(written.lost), written.counts)


@dataclass(slots=True)
class _Written:
    """What has gone to the writer so far; ``lost`` keeps the order in which columns were met."""

    counts: Counts
    requests: int = 0
    lost: tuple[str, ...] = ()


def _tables(
    intake: Intake, options: ConvertOptions, writer: Writer, written: _Written
) -> Iterator[pd.DataFrame]:
    blocks = BlockIds(options.block_size or DEFAULT_BLOCK_TOKENS)
    anonymizer = None if options.key is None else Anonymizer(options.key, blocks)
    for chunk, keyed, dropped in intake.chunks():
        if written.requests == 0 and intake.keying.block_size is not None:
            blocks.block_size = intake.keying.block_size
        table = _prepared(chunk.requests, keyed, options, anonymizer, blocks)
        written.counts.add(Counts.of(chunk, keyed, dropped))
        written.requests += len(table)
        if anonymizer is None:
            written.lost = tuple(dict.fromkeys((*written.lost, *lost_columns(writer, chunk.requests))))
        yield table


def _prepared(
    table: pd.DataFrame,
    keyed: Keyed,
    options: ConvertOptions,
    anonymizer: Anonymizer | None,
    blocks: BlockIds,
) -> pd.DataFrame:
    if anonymizer is not None:
        return anonymizer.apply(table, keyed)
    if options.to == "mooncake":
        return blocks.add_to(table, keyed)
    return with_token_ids(table, keyed) if options.to == "token-log" else table
