"""Bytes to request table: the formats, and the walk over many files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvtools.errors import InputError, UsageError
from kvtools.readers import (
    azure,
    bailian,
    burstgpt,
    chat_jsonl,
    conversation,
    csv_table,
    exchange,
    hash_trace,
    langfuse,
    litellm,
    openai_batch,
    otlp,
    parquet,
    prometheus,
    ragpulse,
    sglang_log,
    token_log,
    tracelab,
    vllm_log,
)
from kvtools.readers.base import Chunk, Reader, ReadOptions
from kvtools.readers.sources import Source, discard, expand, head_of, opened, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = [
    "READERS",
    "Chunk",
    "FileTally",
    "InputFile",
    "InputLog",
    "ReadOptions",
    "Reader",
    "discard_spool",
    "find_inputs",
    "read",
]

READERS: dict[str, Reader] = {
    reader.name: reader
    for reader in (
        # Binary and tables, then documents, then server logs, then JSON lines from the particular to the plain.
        parquet.READER,
        azure.READER,
        burstgpt.READER,
        csv_table.READER,
        otlp.READER,
        langfuse.READER,
        sglang_log.READER,
        vllm_log.READER,
        prometheus.READER,
        ragpulse.READER,
        bailian.READER,
        hash_trace.READER,
        openai_batch.READER,
        tracelab.READER,
        token_log.READER,
        exchange.READER,
        litellm.READER,
        conversation.READER,
        chat_jsonl.READER,
    )
}
"""The formats by name, the most particular first: the first one whose ``sniff`` says yes reads the file."""


@dataclass(frozen=True, slots=True)
class InputFile:
    """One file and the reader that takes it."""

    source: Source
    reader: Reader


@dataclass(frozen=True, slots=True)
class InputLog:
    """All files of one run. ``skipped`` are files of a folder or glob in which no format was recognised."""

    files: tuple[InputFile, ...]
    skipped: tuple[str, ...]

    def size_bytes(self) -> int:
        """Stored bytes of all files."""
        return sum(file.source.size_bytes() for file in self.files)


@dataclass(slots=True)
class FileTally:
    """What reading one file came to: SHA-256 of the stored bytes, and how many requests it gave."""

    path: str
    sha256: str = ""
    requests: int = 0


def discard_spool(log: InputLog) -> None:
    """Remove the temporary copies of what came through a pipe."""
    discard(file.source for file in log.files)


def find_inputs(paths: Sequence[str], input_format: str | None = None) -> InputLog:
    """Return the files that ``paths`` name, each with its reader.

    Raises:
        InputError: a path is missing, a named file is empty or of no known format, or no file is left.
        UsageError: ``input_format`` is not a format.
    """
    if input_format is not None and input_format not in READERS:
        raise UsageError(f"--input-format {input_format}: not a format; kvtools formats lists them.")
    sources = expand(paths)
    try:
        return _recognised(paths, sources, input_format)
    except BaseException:
        discard(sources)
        raise


def _recognised(paths: Sequence[str], sources: Sequence[Source], input_format: str | None) -> InputLog:
    files: list[InputFile] = []
    skipped: list[str] = []
    for source in sources:
        reader = READERS[input_format] if input_format else _sniff(source)
        if reader is None:
            skipped.append(source.name)
        else:
            files.append(InputFile(source, reader))
    if not files:
        raise InputError(
            f"no requests in {' '.join(map(shown, paths))}: {len(sources):,} files looked at, none in a known format; "
            f"name it with --input-format (kvtools formats lists them)."
        )
    return InputLog(tuple(files), tuple(skipped))


def _sniff(source: Source) -> Reader | None:
    head, damaged = head_of(source)
    for reader in READERS.values():
        if reader.sniff(head):
            return reader
    if not source.explicit:
        return None
    if not head.strip() and damaged:
        raise InputError(
            f"{source.name}: damaged or cut short before its first line; get a whole copy of it."
        )
    if not head.strip():
        raise InputError(f"{source.name}: the file is empty; name a file that holds requests.")
    raise InputError(
        f"{source.name}:1: not in a known format; name it with --input-format (kvtools formats lists them)."
    )


def read(
    log: InputLog,
    options: ReadOptions,
    tallies: list[FileTally],
    advance: Callable[[int], None] = lambda _: None,
) -> Iterator[Chunk]:
    """Yield all chunks of all files, in order; ``tallies`` receives one entry per file, complete once it is read.

    ``advance`` is told the stored bytes as they are consumed.

    Raises:
        InputError: a file cannot be opened.
        RejectedInput: ``options.strict`` and a record cannot be used.
    """
    for file in log.files:
        tally = FileTally(file.source.name)
        tallies.append(tally)
        with opened(file.source, advance) as stream:
            for chunk in file.reader.read(stream, file.source, options):
                tally.requests += len(chunk.requests)
                yield chunk
            tally.sha256 = stream.sha256()
