"""vLLM's server log: one line per request where request logging is on.

Three forms of it:

* older versions, with the prompt as a Python literal: ``Received request ID: prompt: '...', params:
  SamplingParams(...), prompt_token_ids: [...], lora_request: None.``
* newer versions, without: ``Received request ID: params: ..., lora_request: None.`` These are requests without
  prompt: it stands in the log at the level DEBUG alone, in a line of its own before it
* ``Request ID details: prompt: '...', prompt_token_ids: [...]``, joined here with the line it belongs to.

All other lines (statistics, access log, warnings, tracebacks) are no requests. A server that was started with
``--max-log-len`` cuts prompts without a mark, which nothing here can see.

Times carry no year (``MM-DD HH:MM:SS``), so an arrival is counted from the log's first request; a log that passes
the end of February without a line on the 29th is taken to have none. Where lines begin with an ISO 8601 time of
their own, as ``docker logs -t`` and ``kubectl logs --timestamps`` write them, that is the arrival.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from kvtools.readers.chat_jsonl import MOST_SAMPLES
from kvtools.readers.chat_jsonl import token_ids as checked_ids
from kvtools.readers.document import Record, chunks
from kvtools.readers.lines import lines
from kvtools.readers.records import FAULTS, Rejected
from kvtools.readers.times import BadTime, arrival_us
from kvtools.table import namespace_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kvtools.readers.base import Chunk, ReadOptions, Row
    from kvtools.readers.lines import Line
    from kvtools.readers.sources import Opened, Source

_COLOUR = re.compile(rb"\x1b\[[0-9;]*m")
_LEVEL = (
    r"(?P<before>.{0,200}?)\b(?:DEBUG|INFO) (?P<clock>\d\d-\d\d \d\d:\d\d:\d\d)(?:[.,]\d+)?"
    r" \[?[^\]\s]{1,200}:\d+\] "
)
_REQUEST = re.compile(
    _LEVEL
    + r"(?:Received request (?P<id>\S+): (?=prompt|params|lora)|Request (?P<details>\S+) details: (?=prompt))"
)
_CUT_OFF = re.compile(
    _LEVEL
    + r"(?:Received request [^\s:]*:?|Received request \S+: [a-z]{0,6}|Request \S+ details: [a-z]{0,5})"
)
_ANY_LINE = re.compile(
    rb"\b(?:DEBUG|INFO|WARNING|ERROR) \d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)? \[?[^\]\s]{1,200}:\d+\]"
)
_STAMP = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)(?=\s)")
# What repr writes and nothing else: Python takes other escapes too, with a warning.
_ESCAPE = r"\\(?:[\\'\"nrt]|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})"
_LITERAL = re.compile(rf"'(?:[^'\\]++|{_ESCAPE})*+'|\"(?:[^\"\\]++|{_ESCAPE})*+\"")
_IDS = re.compile(r", ?prompt[_ ]token[_ ]ids: \[")
_SAMPLES = re.compile(r"params: SamplingParams\(n=(\d{1,9})\b")
_PROMPT_LOGPROBS = re.compile(r"params: SamplingParams\(.*?\bprompt_logprobs=\d")
_ADAPTER = re.compile(r"lora_request: LoRARequest\(.*?lora_name='([^']*)'")
_HIT_RATE = re.compile(r"(?<!External )Prefix cache hit rate: (?:GPU: )?(\d{1,3}(?:\.\d{1,9})?)%")
# What every version writes last. Without it the adapter may be lost, and with it the namespace.
_WHOLE = re.compile(r"\blora_request: (?:None\b|LoRARequest\(.*\))|[e\])]\.\s*\Z")
_JOINED = ("prompt", "token_ids", "prompt_tokens")
_MOST_WAITING = 1024
_HALF_A_YEAR = 6


def printed_hit_rate(line: str) -> float | None:
    """Return the hit rate (share 0..1) of the engine's own cache that a line of statistics prints, else ``None``.

    What it covers differs: all requests since the start in the engine V0, the last 1,000 or so in V1.
    """
    found = _HIT_RATE.search(line)
    return float(found[1]) / 100 if found else None


class VllmLogReader:
    """The format as a reader."""

    name = "vllm-log"

    def sniff(self, head: bytes) -> bool:
        """Return whether some line begins as vLLM's do (``INFO 08-01 12:00:00 [logger.py:39]``)."""
        if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"[{")):
            return False
        return bool(_ANY_LINE.search(_COLOUR.sub(b"", head)))

    def read(self, file: Opened, source: Source, options: ReadOptions) -> Iterator[Chunk]:
        """Yield chunks, one row per request."""
        return chunks(_Log().records(lines(file.stream)), source, options)


@dataclass(slots=True)
class _Clock:
    """Times without a year, as microseconds since the first of them."""

    dated: bool | None = None
    first: tuple[int, ...] = ()
    last: tuple[int, ...] = ()
    turns: int = 0
    base: int = 2001
    """Stands for the year that the log begins in: an ordinary one, a leap year once a 29th of February is seen."""

    def arrival_us(self, before: str, clock: str) -> int | None:
        stamp = _STAMP.search(before)
        if self.dated is None:
            self.dated = stamp is not None
        if self.dated:
            return arrival_us(stamp[0]) if stamp else None
        now = tuple(int(part) for part in re.split(r"[- :]", clock))
        turns = self.turns
        if self.last and abs(now[0] - self.last[0]) > _HALF_A_YEAR:
            turns += 1 if now < self.last else -1
        if now[:2] == (2, 29):
            self.base = 2000 - turns
        try:
            moment = _moment(self.base + turns, now)
        except ValueError:
            raise BadTime(f"not a time: {clock!r}") from None
        self.first, self.last, self.turns = self.first or now, now, turns
        return (moment - _moment(self.base, self.first)) // timedelta(microseconds=1)


def _moment(year: int, parts: tuple[int, ...]) -> datetime:
    month, day, hour, minute, second = parts
    return datetime(year, month, day, hour, minute, second, tzinfo=UTC)


@dataclass(slots=True)
class _Log:
    """What a line needs of those before it: the clock, and prompts whose request's line is still to come."""

    clock: _Clock = field(default_factory=_Clock)
    waiting: dict[str, tuple[int, Row]] = field(default_factory=dict)

    def records(self, found: Iterable[Line]) -> Iterator[Record]:
        for line in found:
            if line.fault or b"Received request " in line.data or b" details: prompt: " in line.data:
                yield Record(line.number, len(line.data), partial(self._rows, line))
                if len(self.waiting) > _MOST_WAITING:
                    yield from self._left(1)
        yield from self._left(len(self.waiting))

    def _left(self, number: int) -> Iterator[Record]:
        """Yield the oldest of the prompts whose request's line never came."""
        for own_id in list(self.waiting)[:number]:
            line, row = self.waiting.pop(own_id)
            yield Record(line, 0, partial(iter, (row,)))

    def _rows(self, line: Line) -> Iterator[Row]:
        if line.fault:
            raise Rejected(line.fault, FAULTS[line.fault])
        written = _text(line.data)
        found = _REQUEST.match(written)
        if found is None:
            if _CUT_OFF.fullmatch(written):
                raise Rejected("cut_line", "the line of a request, cut off")
            return
        own_id: str = found["id"] or found["details"]
        row: Row = {
            "request_id": own_id,
            "arrival_us": self.clock.arrival_us(found["before"], found["clock"]),
        }
        row |= _request(written[found.end() :])
        if found["details"]:
            if own_id in self.waiting:
                yield self.waiting.pop(own_id)[1]
            self.waiting[own_id] = (line.number, row)
            return
        _, details = self.waiting.pop(own_id, (0, {}))
        yield row | {name: value for name in _JOINED if (value := details.get(name)) is not None}


def _text(data: bytes) -> str:
    try:
        return _COLOUR.sub(b"", data).decode()
    except UnicodeDecodeError:
        raise Rejected("bad_utf8", "not UTF-8 text") from None


def _request(rest: str) -> Row:
    """Return what a line says behind the request's id.

    Raises:
        Rejected: the prompt is no whole Python literal, the token ids are none, or the end of the line is missing.
    """
    prompt, rest = _prompt(rest.removeprefix("prompt: ")) if rest.startswith("prompt: ") else (None, rest)
    ids, rest = _token_ids(rest)
    if not _WHOLE.search(rest):
        raise Rejected("cut_line", "the line of a request, cut off behind its prompt")
    samples = _SAMPLES.search(rest)
    adapter = _ADAPTER.search(rest)
    return {
        "namespace": namespace_of(None, adapter[1] if adapter else None, None),
        "prompt": prompt,
        "token_ids": ids or None,
        "prompt_tokens": len(ids) if ids else None,
        "samples": int(samples[1]) if samples and 1 < int(samples[1]) <= MOST_SAMPLES else None,
        "skip_lookup": 1 if _PROMPT_LOGPROBS.search(rest) else None,
    }


def _prompt(rest: str) -> tuple[str | None, str]:
    """Return the prompt that ``rest`` begins with, and what follows it; in a prompt may stand anything."""
    if rest.startswith("None,"):
        return None, rest[len("None") :]
    literal = _LITERAL.match(rest)
    if literal is None:
        raise Rejected("bad_prompt", "the prompt is no whole Python string; the line may be cut off")
    try:
        prompt: str = ast.literal_eval(literal[0])
        prompt.encode()
    except (ValueError, SyntaxError, MemoryError):
        raise Rejected("bad_prompt", "the prompt is a Python string that no text can hold") from None
    return prompt or None, rest[literal.end() :]


def _token_ids(rest: str) -> tuple[list[int], str]:
    """Return the token ids and what stands around them."""
    # The last place: stop words among the parameters may hold anything.
    places = [found.span() for found in _IDS.finditer(rest)]
    if not places:
        return [], rest
    start, first = places[-1]
    end = rest.find("]", first) + 1
    try:
        return checked_ids(msgspec.json.decode(rest[first - 1 : end])), rest[:start] + rest[end:]
    except msgspec.DecodeError:
        raise Rejected(
            "bad_token_ids", "prompt_token_ids is no list of numbers; the line may be cut off"
        ) from None


READER = VllmLogReader()
