"""Rewrite a log file line by line. What is no request of its format passes through unchanged, byte for byte."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, BinaryIO, Protocol

from kvtools.normalize.lines import Kept, NewLine
from kvtools.normalize.places import places_in
from kvtools.normalize.sidecar import SidecarWriter, core_of, from_inline, taken_back, with_inline
from kvtools.normalize.tool_forms import DUPLICATE_TOOL_NAME, duplicate_tool_names
from kvtools.readers.lines import MAX_LINE_BYTES
from kvtools.readers.sources import DAMAGED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from io import BufferedIOBase

    from kvtools.normalize.lines import LineRewriter
    from kvtools.normalize.sidecar import Steps


class Earlier(Protocol):
    """What an earlier rewriting of the same lines did."""

    def steps(self, line: int) -> Steps:
        """Return the steps of a line; lines are asked for in their order."""


@dataclass(slots=True)
class Tally:
    """Where the lines of a log went, in requests: changed, unchanged, refused, and lines that hold none.

    ``reasons`` says why requests were refused (or why a part of a changed one stays), and in how many two tools have
    one name; ``moved`` counts requests by template and field.
    """

    changed: int = 0
    unchanged: int = 0
    refused: int = 0
    not_read: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    moved: Counter[tuple[str, str]] = field(default_factory=Counter)


@dataclass(slots=True)
class FileRewriter:
    """Writes the lines of one log after another into ``out``.

    ``sidecar`` takes what restores them; with ``inline`` it is written into the lines instead. ``refuse`` is told
    ``(line, reason)`` and ``watch`` sees each rewritten line, both with the line's number in OUT.
    """

    out: BinaryIO
    sidecar: SidecarWriter
    inline: bool = False
    refuse: Callable[[int, str], None] = lambda *_: None
    watch: Callable[[int, NewLine], None] = lambda *_: None
    tally: Tally = field(default_factory=Tally)
    lines: int = 0
    _ended: bool = True

    def rewrite(self, stream: BufferedIOBase, rewriter: LineRewriter, earlier: Earlier | None = None) -> None:
        """Write all lines of ``stream``, rewritten where that can be taken back."""
        if not self._ended:
            self._write(b"\n", [])
        for raw, whole in _raw_lines(stream):
            steps = earlier.steps(self.lines + 1) if earlier and self._ended else []
            core, before, behind = core_of(raw) if whole else (b"", raw, b"")
            result = rewriter.rewrite(core) if core else Kept(requests=0)
            data = core
            if isinstance(result, NewLine):
                data, steps = result.data, [*steps, result.pieces]
            if self.inline and steps:
                logged = taken_back(data, steps)
                held = with_inline(data, steps)
                if held is None or from_inline(held) != logged:
                    # No place for the steps: the line stays as it was logged.
                    held, steps, result = logged, [], Kept(("metadata_taken",), result.requests)
                data = held
            self._write(before + data + behind, [] if self.inline else steps)
            self._count(result, changed=bool(steps))
            if rewriter.tool_order and _names_twice(core, rewriter.log_format):
                # Nothing stops the rewriting: whoever sent the request should look at it.
                self.tally.reasons[DUPLICATE_TOOL_NAME] += 1
                self.refuse(self.lines, DUPLICATE_TOOL_NAME)

    def _count(self, result: NewLine | Kept, *, changed: bool) -> None:
        """Count a line that is written; ``changed`` by this rewriting or an earlier one."""
        if "not_this_format" in result.reasons:
            self.tally.not_read += 1
            self.refuse(self.lines, "not_this_format")
            return
        for reason in result.reasons:
            self.tally.reasons[reason] += 1
            self.refuse(self.lines, reason)
        if changed:
            self.tally.changed += result.requests
        elif result.reasons:
            self.tally.refused += result.requests
        else:
            self.tally.unchanged += result.requests
        if isinstance(result, NewLine):
            self._moved(result)

    def _moved(self, new: NewLine) -> None:
        self.watch(self.lines, new)
        for _, one in new.sections:
            if one.moved is not None and one.moves is not None:
                for name in one.moved.values:
                    self.tally.moved[one.moves.template_id, name] += new.requests

    def _write(self, raw: bytes, steps: Steps) -> None:
        self.out.write(raw)
        self.lines += self._ended
        self._ended = raw.endswith(b"\n")
        self.sidecar.written(raw, steps)


def _names_twice(line: bytes, log_format: str) -> bool:
    """Tell whether two tools of a request have one name."""
    if b'"tools"' not in line:
        return False
    places = places_in(line, log_format, frozenset())
    where = None if places is None else places.tools()
    return where is not None and _twice(line[where[0] : where[1]])


@lru_cache(maxsize=256)
def _twice(tools: bytes) -> bool:
    """Tell whether two tools of a list have one name; one list stands in many requests."""
    return bool(duplicate_tool_names(tools))


def _raw_lines(stream: BufferedIOBase) -> Iterator[tuple[bytes, bool]]:
    """Yield each line with its end, and whether it may be rewritten: one over the readers' limit comes in parts."""
    whole = True
    while True:
        try:
            raw = stream.readline(MAX_LINE_BYTES + 1)
        except DAMAGED:
            return
        if not raw:
            return
        ends = raw.endswith(b"\n")
        too_long = len(raw) > MAX_LINE_BYTES and not ends
        yield raw, whole and not too_long
        whole = ends or not too_long
