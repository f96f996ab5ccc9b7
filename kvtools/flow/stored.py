"""Reports that were written as JSON: read back, and set side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from kvtools.errors import InputError
from kvtools.report.comparison import compare_reports, comparison_markdown, render_comparison
from kvtools.report.documents import read_document
from kvtools.report.model import Report

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kvtools.report.comparison import Comparison
    from kvtools.report.documents import Document

T = TypeVar("T")


def read_report(path: Path) -> Report:
    """Return the report in a file that ``analyze`` wrote with ``--format json``.

    Raises:
        InputError: it cannot be read, is not a report, or is one of another schema version.
    """
    return _read(path, Report.from_json)


def read_document_file(path: Path) -> Document:
    """Return the report in a file that ``analyze``, ``replay``, ``warmup`` or ``check`` wrote with ``--format json``.

    Raises:
        InputError: it cannot be read, is no report, or is one of another schema version.
    """
    return _read(path, read_document)


def _read(path: Path, read: Callable[[bytes], T]) -> T:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(
            f"{path}: {error.strerror or error}; name a report of analyze --format json."
        ) from None
    try:
        return read(data)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def compare_stored(before: Path, after: Path) -> Comparison:
    """Return what changed between the reports in two files.

    Raises:
        InputError: one of them cannot be read, or is about a log without prompts.
    """
    return compare_reports(read_report(before), read_report(after))


def compared(before: Path, after: Path, kind: str, lang: str = "en") -> str:
    """Return what changed between the reports in two files as ``json``, ``md``, ``html`` or ``text`` in ``lang``.

    Raises:
        InputError: one of them cannot be read, or is about a log without prompts.
        UsageError: a language that reports are not written in.
    """
    old, new = read_report(before), read_report(after)
    found = compare_reports(old, new)
    if kind == "html":
        from kvtools.report.html import render_comparison_html  # noqa: PLC0415 - heavy

        return render_comparison_html(old, new, found, lang=lang)
    if kind == "text":
        return render_comparison(found, lang)
    return found.to_json() if kind == "json" else comparison_markdown(found)
