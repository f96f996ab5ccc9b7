"""The worst finding of a log's last requests: the lines that ``watch`` keeps, given to ``analyze`` now and then."""

from __future__ import annotations

import tempfile
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvtools.errors import KvtoolsError
from kvtools.flow.analyze import AnalyzeOptions, analyze
from kvtools.report.findings_text import what
from kvtools.report.watch import Worst

if TYPE_CHECKING:
    from kvtools.report.findings import Finding
    from kvtools.report.model import Report

MOST_LINES = 1_000
MOST_BYTES = 8 << 20
LEAST_LINES = 20
"""Fewer requests show nothing that varies."""


@dataclass(slots=True)
class CurrentFinding:
    """Keeps the last lines (at most 1,000, or 8 MiB) and says what costs most in them, at most every ``every_s``."""

    reading: dict[str, Any]
    every_s: float
    _lines: deque[bytes] = field(default_factory=deque)
    _bytes: int = 0
    _fresh: bool = False
    _made_s: float | None = None
    _worst: Worst | None = None
    _missing: str | None = "not looked at yet"

    def add(self, data: bytes) -> None:
        """Keep the last of these lines."""
        lines = data.rsplit(b"\n", MOST_LINES + 1)[-MOST_LINES - 1 :]
        for line in lines:
            if line.strip():
                self._lines.append(line)
                self._bytes += len(line)
                self._fresh = True
        while len(self._lines) > MOST_LINES or self._bytes > MOST_BYTES:
            self._bytes -= len(self._lines.popleft())

    def renew(self, at_s: float, input_format: str) -> None:
        """Look again where there are new lines and the last look is old enough."""
        if not self._fresh or (self._made_s is not None and at_s - self._made_s < self.every_s):
            return
        if len(self._lines) < LEAST_LINES:
            self._missing = f"fewer than {LEAST_LINES} requests so far"
            return
        self._fresh, self._made_s = False, at_s
        given = self.reading | {"input_format": input_format, "rejects": None, "strict": False}
        with tempfile.TemporaryDirectory(prefix="kvtools-watch-") as folder:
            path = Path(folder) / "last.log"
            path.write_bytes(b"\n".join(self._lines) + b"\n")
            try:
                report = analyze(path, AnalyzeOptions(**given, classes=False))
            except KvtoolsError as error:
                self._worst, self._missing = None, f"not known: {error}".replace(str(path), "the last lines")
                return
        self._keep(report)

    def _keep(self, report: Report) -> None:
        self._worst, self._missing = None, None
        if report.findings is None:
            self._missing = "not known: the log has no text to look at"
        elif not report.findings or not report.findings[0].tokens_lost:
            self._missing = f"none in the last {report.requests:,} requests"
        else:
            worst = report.findings[0]
            self._worst = Worst(
                what=what(worst),
                where=_where(worst),
                hit_rate=report.cache.hit_rate if report.cache else None,
                hit_rate_if_fixed=worst.hit_rate_if_fixed,
                of_requests=report.requests,
                age_s=0.0,
            )

    def said(self, at_s: float) -> tuple[Worst | None, str | None]:
        """Return the worst finding with its age, or why there is none."""
        if self._worst is None or self._made_s is None:
            return None, self._missing
        worst = self._worst
        return Worst(
            what=worst.what,
            where=worst.where,
            hit_rate=worst.hit_rate,
            hit_rate_if_fixed=worst.hit_rate_if_fixed,
            of_requests=worst.of_requests,
            age_s=max(at_s - self._made_s, 0.0),
        ), None


def _where(finding: Finding) -> str:
    if finding.position_chars is None:
        return finding.section
    return f"{finding.section}, char {finding.position_chars:,}"
