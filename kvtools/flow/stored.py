"""Reports that were written as JSON: read back, and set side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtools.errors import InputError
from kvtools.report.comparison import compare_reports
from kvtools.report.model import Report

if TYPE_CHECKING:
    from pathlib import Path

    from kvtools.report.comparison import Comparison


def read_report(path: Path) -> Report:
    """Return the report in a file that ``analyze`` wrote with ``--format json``.

    Raises:
        InputError: it cannot be read, is not a report, or is one of another schema version.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(
            f"{path}: {error.strerror or error}; name a report of analyze --format json."
        ) from None
    try:
        return Report.from_json(data)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def compare_stored(before: Path, after: Path) -> Comparison:
    """Return what changed between the reports in two files.

    Raises:
        InputError: one of them cannot be read, or is about a log without prompts.
    """
    return compare_reports(read_report(before), read_report(after))
