"""SGLang's server log: ``[2025-07-18 15:32:52 TP0] Prefill batch. #new-seq: 1, #new-token: 9, #cached-token: 128, …``.

A line is a batch, not a request, and holds no prompt: each becomes one row without prompt. Its counts are taken
where the batch is one sequence (``#new-seq: 1``): ``prompt_tokens`` = new + cached, ``cached_tokens`` = cached. They
stay unknown where they are no request's own:

* a batch of several sequences has their sums alone;
* a prompt that is prefilled in chunks takes several lines. A batch as large as ``chunked_prefill_size``, where the
  log says it, or of one of the sizes that SGLang chooses by itself, may be a part, and the next of its rank the rest;
* with pages of several tokens (``page_size``, where the log says it) new tokens are rounded up to whole pages
  (``PrefillAdder.ceil_paged_tokens``), so the prompt's are unknown.

The time is that of the batch, later than the arrival, in the server's zone; as any time without a zone it is read
as UTC.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from kvtools.readers.document import Record, chunks
from kvtools.readers.lines import lines
from kvtools.readers.records import FAULTS, Rejected
from kvtools.readers.times import arrival_us

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kvtools.readers.base import Chunk, ReadOptions, Row
    from kvtools.readers.lines import Line
    from kvtools.readers.sources import Opened, Source

_BATCH = re.compile(
    r"\[(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?P<rank>[^\]]{0,40})\].{0,80}?\bPrefill batch\b"
)
_SNIFFED = re.compile(
    rb"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[^\]]{0,40}\].{0,80}?\b(?:Prefill|Decode) batch\b[^#\n]{0,40}#"
)
# Fields follow on all three, so a comma ends a number that is whole.
_NUMBER = re.compile(r"#(new-seq|new-token|cached-token): (\d{1,15}),")
_EXACT_TIME = re.compile(r"\btimestamp: (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?)$")
_SETTING = re.compile(rb"\b(chunked_prefill_size|page_size)=(-?\d{1,9})\b")
_CHUNK_UNIT = 2048
"""The sizes that SGLang chooses are 2,048 tokens times a power of two; memory can shrink a chunk to fewer of these."""


class SglangLogReader:
    """The format as a reader."""

    name = "sglang-log"

    def sniff(self, head: bytes) -> bool:
        """Return whether some line is one of SGLang's batches."""
        return not head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"[{")) and bool(
            _SNIFFED.search(head)
        )

    def read(self, file: Opened, source: Source, options: ReadOptions) -> Iterator[Chunk]:
        """Yield chunks, one row per prefill batch."""
        return chunks(_Log().records(lines(file.stream)), source, options)


@dataclass(slots=True)
class _Log:
    """What a line needs of those before it: two settings, and the ranks that may be in the middle of a prompt."""

    chunk_tokens: int | None = None
    page_tokens: int | None = None
    unfinished: set[str] = field(default_factory=set)

    def records(self, found: Iterable[Line]) -> Iterator[Record]:
        for line in found:
            if line.fault or b"Prefill batch" in line.data:
                yield Record(line.number, len(line.data), partial(self._rows, line))
            else:
                self._read_settings(line.data)

    def _read_settings(self, data: bytes) -> None:
        for name, value in _SETTING.findall(data):
            if name == b"page_size":
                self.page_tokens = int(value)
            else:
                self.chunk_tokens = int(value)

    def _rows(self, line: Line) -> Iterator[Row]:
        if line.fault:
            raise Rejected(line.fault, FAULTS[line.fault])
        written = line.data.decode(errors="replace")
        batch = _BATCH.search(written)
        if batch is None:
            return
        numbers = {name: int(value) for name, value in _NUMBER.findall(written, batch.end())}
        if "new-seq" not in numbers:
            raise Rejected(
                "cut_line", "a prefill batch without its number of sequences; the line may be cut off"
            )
        exact = _EXACT_TIME.search(written)
        yield {
            "arrival_us": arrival_us(exact[1] if exact else batch["time"]),
            **self._counts(batch["rank"], numbers),
        }

    def _counts(self, rank: str, numbers: dict[str, int]) -> Row:
        new, cached = numbers.get("new-token"), numbers.get("cached-token")
        continued = rank in self.unfinished
        self.unfinished.discard(rank)
        if new is not None and self._may_be_a_chunk(new):
            self.unfinished.add(rank)
        if numbers["new-seq"] != 1 or continued or rank in self.unfinished:
            return {}
        if new is None or cached is None or new + cached == 0:
            return {}
        in_pages = self.page_tokens is not None and self.page_tokens > 1
        return {"prompt_tokens": None if in_pages else new + cached, "cached_tokens": cached}

    def _may_be_a_chunk(self, new_tokens: int) -> bool:
        if self.chunk_tokens is None:
            return new_tokens > 0 and new_tokens % _CHUNK_UNIT == 0
        if self.chunk_tokens <= 0:
            return False  # -1 switches chunks off
        return new_tokens >= self.chunk_tokens or (new_tokens > 0 and new_tokens % _CHUNK_UNIT == 0)


READER = SglangLogReader()
