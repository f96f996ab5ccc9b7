"""A report in a notebook: the answer and its causes as a small HTML fragment, and its tables as DataFrames."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import msgspec

from kvtools.report.findings_text import SHOWN, if_fixed, what
from kvtools.report.headline import headline_of, replayed
from kvtools.report.html.visible import visible
from kvtools.report.traffic_text import headline_without_prompts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pandas as pd

    from kvtools.report.findings import Finding
    from kvtools.report.model import Report

LISTS = (
    "findings", "clusters", "routes", "curve", "cache_needed", "over_time", "classes", "class_windows", "class_bins",
    "prefix_tree", "inputs", "answers",
)  # fmt: skip
"""Lists of the report that are tables of the same name."""

_HEAD = ("What breaks the prefix", "where", "cluster", "tokens lost", "hit rate if fixed")


def report_headline(report: Report) -> str:
    """Return the answer in one sentence."""
    found = replayed(report)
    return headline_without_prompts(report) if found is None else headline_of(found)


def report_html(report: Report) -> str:
    """Return the headline and the ten dearest findings as HTML, all text of the log escaped; no script, no style."""
    rows = [_row(finding) for finding in report.findings or [] if finding.severity != "info"]
    left = len(rows) - SHOWN
    return "\n".join(
        [
            f"<div><p><b>{escape(report_headline(report))}</b></p>",
            *(_table(rows[:SHOWN]) if rows else ()),
            *([f"<p>{left:,} more: report.to_pandas()['findings']</p>"] if left > 0 else ()),
            "</div>",
        ]
    )


def _table(rows: list[str]) -> Iterator[str]:
    yield f"<table><thead><tr>{''.join(f'<th>{name}</th>' for name in _HEAD)}</tr></thead><tbody>"
    yield from rows
    yield "</tbody></table>"


def _row(finding: Finding) -> str:
    place = "" if finding.position_chars is None else f", char {finding.position_chars:,}"
    cells = (
        what(finding),
        f"{finding.section}{place}",
        f"{finding.cluster} {finding.route or ''}".strip(),
        "-" if finding.tokens_lost is None else f"{finding.tokens_lost:,}",
        if_fixed(finding),
    )
    return f"<tr>{''.join(f'<td>{escape(visible(cell))}</td>' for cell in cells)}</tr>"


def report_tables(report: Report) -> dict[str, pd.DataFrame]:
    """Return the tables of a report by name: one for each of ``LISTS``, of ``tiers`` and of the histograms.

    Columns are the names of the JSON; those of a part stand behind a dot, ``cache.hit_rate``. A table without rows
    keeps its columns. What the log cannot say is missing (``None`` or NaN).
    """
    lists: dict[str, tuple[list[Any], type]] = {
        name: (getattr(report, name) or [], _element(type(report), name)) for name in LISTS
    }
    sessions = report.sessions
    from kvtools.report.sessions import SessionTier  # noqa: PLC0415 - heavy, as all that a report is made of

    lists["tiers"] = ([] if sessions is None else sessions.tiers, SessionTier)
    histograms = type(report.histograms)
    for name in ("prompt_tokens", "interarrival_s"):
        lists[f"histogram_{name}"] = (getattr(report.histograms, name), _element(histograms, name))
    return {name: _frame(rows, kind) for name, (rows, kind) in lists.items()}


def _element(owner: type, name: str) -> type:
    """Return the type of what a list of ``owner`` holds."""
    field = next(field for field in msgspec.inspect.type_info(owner).fields if field.name == name)  # type: ignore[attr-defined]
    return _struct(field.type)


def _struct(kind: Any) -> type:
    if isinstance(kind, msgspec.inspect.UnionType):
        kind = next(one for one in kind.types if isinstance(one, msgspec.inspect.ListType))
    element: type = kind.item_type.cls
    return element


def _frame(rows: list[Any], kind: type) -> pd.DataFrame:
    import pandas as pd  # noqa: PLC0415 - heavy

    columns = list(_columns(kind))
    return pd.DataFrame([_flat(msgspec.to_builtins(row), columns) for row in rows], columns=columns)


def _columns(kind: type, before: str = "") -> Iterator[str]:
    """Yield the names of the fields, those of a struct in place of the struct, whether it may be missing or not."""
    for field in msgspec.inspect.type_info(kind).fields:  # type: ignore[attr-defined]
        types = field.type.types if isinstance(field.type, msgspec.inspect.UnionType) else (field.type,)
        part = next((one.cls for one in types if isinstance(one, msgspec.inspect.StructType)), None)
        if part is None:
            yield before + field.name
        else:
            yield from _columns(part, f"{before}{field.name}.")


def _flat(row: Mapping[str, Any], columns: list[str]) -> list[Any]:
    return [_at(row, column.split(".")) for column in columns]


def _at(row: Mapping[str, Any] | None, steps: list[str]) -> Any:
    value: Any = row
    for step in steps:
        value = None if value is None else value[step]
    return value
