"""Rewrite a log file line by line. What is no request of its format passes through unchanged, byte for byte."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, Protocol

from kvtools.normalize.lines import Kept, NewLine
from kvtools.normalize.sidecar import SidecarWriter, core_of, from_inline, with_inline
from kvtools.readers.lines import MAX_LINE_BYTES
from kvtools.readers.sources import DAMAGED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
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

    ``reasons`` says why requests were refused (or why a part of a changed one stays); ``moved`` counts requests by
    template and field.
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

    ``sidecar`` takes what restores them (``None``: nothing does, or it is written into the lines with ``inline``);
    ``refuse`` is told ``(line of the log, reason)``; ``watch`` sees each rewritten line with its number in
    the log.
    """

    out: BinaryIO
    sidecar: SidecarWriter | None
    inline: bool = False
    refuse: Callable[[int, str], None] = lambda *_: None
    watch: Callable[[int, NewLine], None] = lambda *_: None
    tally: Tally = field(default_factory=Tally)
    _ended: bool = True

    def rewrite(self, stream: BufferedIOBase, rewriter: LineRewriter, earlier: Earlier | None = None) -> None:
        """Write all lines of ``stream``, rewritten where that can be taken back."""
        if not self._ended:
            self._write(b"\n", [])
        for number, (raw, whole) in enumerate(_raw_lines(stream), 1):
            steps = earlier.steps(number) if earlier else []
            core, before, behind = core_of(raw) if whole else (b"", raw, b"")
            result = rewriter.rewrite(core) if core else Kept(requests=0)
            if isinstance(result, NewLine):
                written = self._placed(result, core, steps)
                if written is not None:
                    self._write(before + written + behind, [] if self.inline else [*steps, result.pieces])
                    self._count(number, result)
                    continue
                result = Kept(("metadata_taken",), result.requests)
            self._write(raw, steps)
            self._keep(number, result)

    def _placed(self, new: NewLine, core: bytes, steps: Steps) -> bytes | None:
        """Return the line to write, ``None`` where its steps have no place in it."""
        if not self.inline:
            return new.data
        held = with_inline(new.data, [*steps, new.pieces])
        return None if held is None or (not steps and from_inline(held) != core) else held

    def _count(self, number: int, new: NewLine) -> None:
        self.tally.changed += new.requests
        self._reasons(number, new.reasons)
        self.watch(number, new)
        for _, one in new.sections:
            if one.moved is not None and one.moves is not None:
                for name in one.moved.values:
                    self.tally.moved[one.moves.template_id, name] += new.requests

    def _keep(self, number: int, kept: Kept) -> None:
        if "not_this_format" in kept.reasons:
            self.tally.not_read += 1
            self.refuse(number, "not_this_format")
            return
        self._reasons(number, kept.reasons)
        if kept.reasons:
            self.tally.refused += kept.requests
        else:
            self.tally.unchanged += kept.requests

    def _reasons(self, number: int, reasons: Iterable[str]) -> None:
        for reason in reasons:
            self.tally.reasons[reason] += 1
            self.refuse(number, reason)

    def _write(self, raw: bytes, steps: Steps) -> None:
        self.out.write(raw)
        self._ended = raw.endswith(b"\n")
        if self.sidecar is not None:
            self.sidecar.written(raw, steps)


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
