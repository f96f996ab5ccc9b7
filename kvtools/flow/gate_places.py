"""Where a finding can be seen: the first request of the log that it is about, as path and line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtools.fields.sample import sections_of
from kvtools.readers import ReadOptions, discard_spool, find_inputs, read
from kvtools.report.check import Place
from kvtools.table import digest64, present, text_column

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from kvtools.flow.analyze import AnalyzeOptions
    from kvtools.readers import FileTally
    from kvtools.report.findings import Finding
    from kvtools.report.model import Report

_ROLES = {"system message": "system", "user message": "user", "tool message": "tool"}


def example_places(paths: tuple[str, ...], report: Report, options: AnalyzeOptions) -> dict[str, Place]:
    """Return a place for each finding that pays: the first request of its cluster, of its route, or of the log.

    Reading stops where all are found. Of standard input, which is gone, only the name is known.
    """
    findings = [found for found in report.findings or () if found.severity != "info"]
    first = report.inputs[0].path if report.inputs else "-"
    places = {found.id: Place(path=first, line=None) for found in findings}
    if not findings or "-" in paths:
        return places
    exact = set[str]()
    log = find_inputs(list(paths), options.input_format)
    heads = _heads(report)
    try:
        tallies: list[FileTally] = []
        reading = ReadOptions(options.route_key, strict=False, mapping=options.mapping)
        for chunk in read(log, reading, tallies, lambda _: None):
            _look(chunk.requests, findings, heads, places, exact)
            if len(exact) == len(findings):
                break
    finally:
        discard_spool(log)
    return places


def _heads(report: Report) -> dict[str, tuple[str, frozenset[int]]]:
    """Return by name of a cluster its id, and where its stable text may end: at its first field."""
    ids = {one.name: one.id for one in report.clusters}
    ends: dict[str, set[int]] = {name: set() for name in ids}
    for found in report.findings or ():
        if found.cluster in ids and found.position_chars is not None:
            ends[found.cluster].add(found.position_chars)
    return {name: (ids[name], frozenset(ends[name])) for name in ids}


def _look(
    table: pd.DataFrame,
    findings: list[Finding],
    heads: dict[str, tuple[str, frozenset[int]]],
    places: dict[str, Place],
    exact: set[str],
) -> None:
    import numpy as np  # noqa: PLC0415 - light module otherwise

    routes, sources = text_column(table, "route"), text_column(table, "source")
    rows: NDArray[np.int64] = np.flatnonzero(present(table, "messages") | present(table, "prompt"))
    for row, sections in sections_of(table, rows):
        for found in findings:
            if found.id in exact or (found.route is not None and found.route != routes[row]):
                continue
            place = _place(sources[row])
            if places[found.id].line is None:
                places[found.id] = place
            if found.cluster not in heads or _is_of(sections, found, heads[found.cluster]):
                places[found.id] = place
                exact.add(found.id)
        if len(exact) == len(findings):
            return


def _is_of(sections: Iterable[tuple[str, str]], found: Finding, head: tuple[str, frozenset[int]]) -> bool:
    cluster, ends = head
    role = _ROLES.get(found.section, found.section)
    return any(
        f"{digest64(chr(0).join((role, found.route or '', text[:end]))):016x}"[:8] == cluster
        for section, text in sections
        if section == role
        for end in ends
    )


def _place(source: str | None) -> Place:
    path, _, line = (source or "-").rpartition(":")
    return (
        Place(path=path, line=int(line))
        if line.isdecimal() and path
        else Place(path=source or "-", line=None)
    )
