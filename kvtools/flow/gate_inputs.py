"""What the gate judges: a log, or templates with recorded values, as one log and what is known of its requests."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from kvtools.errors import InputError, UsageError
from kvtools.flow.analyze import analyze
from kvtools.flow.intake import Watcher, take_in
from kvtools.gate.measured import Measured, StableHead
from kvtools.gate.rendering import read_given, read_values, rendered_requests
from kvtools.report.model import Input
from kvtools.table import text_column

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from kvtools.flow.analyze import AnalyzeOptions
    from kvtools.flow.intake import Intake, PathLike
    from kvtools.gate.rendering import GivenTemplate, ValuesRead
    from kvtools.report.model import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One log to judge.

    ``paths`` are read; of a rendered one, ``values`` and ``templates`` are what it was made of, and ``template_of``
    names the template of each line.
    """

    paths: tuple[str, ...]
    values: ValuesRead | None = None
    templates: Mapping[str, GivenTemplate] = field(default_factory=dict)
    template_of: Mapping[int, str] = field(default_factory=dict)

    @property
    def values_sha256(self) -> str | None:
        """What tells whether a baseline is of the same recorded values; ``None`` of a log."""
        return None if self.values is None else self.values.sha256


@contextmanager
def judged(
    paths: Sequence[PathLike] | PathLike, templates: Path | None, values: Path | None
) -> Iterator[Judged]:
    """Yield what is judged; a rendered log lives in a temporary folder until the block ends.

    Files are taken by name, so that no figure depends on the order in which they were given.

    Raises:
        UsageError: both a log and templates were given, or neither, or templates without values.
        InputError: values or templates cannot be read or rendered.
    """
    named = [str(path) for path in ([paths] if isinstance(paths, (str, Path)) else paths)]
    if (templates is None) != (values is None):
        raise UsageError(
            "--templates and --values need each other: recorded values are rendered with templates."
        )
    if templates is None or values is None:
        if not named:
            raise UsageError("name the log to judge, or --templates DIR with --values FILE.")
        yield Judged(paths=tuple(sorted(named)))
        return
    if named:
        raise UsageError("give a log, or --templates with --values, not both: one of them is judged.")
    read = read_values(values)
    given = read_given(templates, read)
    with tempfile.TemporaryDirectory(prefix="kvtools-") as folder:
        log = Path(folder) / "rendered.jsonl"
        of_line = {}
        with log.open("wb") as file:
            for number, line in enumerate(rendered_requests(read, given), 1):
                file.write(line.data)
                of_line[number] = line.template
        yield Judged(paths=(str(log),), values=read, templates=given, template_of=of_line)


def reported(one: Judged, options: AnalyzeOptions, watcher: Watcher) -> Report:
    """Return the report on what is judged, with the inputs that were named, not a temporary one."""
    if one.values is None:
        return analyze(one.paths, options, watcher)
    report = analyze(one.paths, replace(options, input_format="chat-jsonl", mapping=None), watcher)
    made_of = [
        Input(path=str(one.values.path), sha256=one.values.sha256, requests=report.requests),
        *(
            Input(path=str(given.path), sha256=given.sha256, requests=_uses(one, name))
            for name, given in sorted(one.templates.items())
        ),
    ]
    return msgspec.structs.replace(report, inputs=made_of)


def _uses(one: Judged, name: str) -> int:
    return sum(template == name for template in one.template_of.values())


def measured(
    one: Judged, report: Report, options: AnalyzeOptions, watcher: Watcher, *, heads: bool
) -> Measured:
    """Return the report with what the requests of each template and route begin with, where ``heads`` are asked for.

    Raises:
        InputError: standard input is judged, which cannot be read twice.
    """
    if not heads:
        return Measured(report)
    if "-" in one.paths:
        raise InputError(
            "min-stable-prefix reads the log twice, and standard input is gone after once: name a file."
        )
    quiet = watcher.quiet()
    given = options if one.values is None else replace(options, input_format="chat-jsonl", mapping=None)
    by_scope, by_route = take_in(
        one.paths, replace(given, rejects=None), quiet, lambda intake: _heads(intake, one)
    )
    return Measured(report, by_scope, by_route)


def _heads(intake: Intake, one: Judged) -> tuple[dict[str | None, StableHead], dict[str, StableHead]]:
    scopes, routes = _Heads(), _Heads()
    for chunk, keyed, _ in intake.chunks():
        if keyed.tokens is None:
            continue
        names, sources = text_column(chunk.requests, "route"), text_column(chunk.requests, "source")
        for index, row in enumerate(keyed.rows.tolist()):
            tokens, route = keyed.tokens.row(index), names[row]
            scope = route
            if one.values is not None:
                scope = one.template_of[int((sources[row] or "").rpartition(":")[2])]
            scopes.add(scope, tokens)
            if route is not None:
                routes.add(route, tokens)
    found = scopes.found()
    return dict(sorted(found.items(), key=lambda item: item[0] or "")), {
        name: head for name, head in routes.found().items() if name is not None
    }


@dataclass(slots=True)
class _Heads:
    """The common beginning of all prompts of each scope."""

    _tokens: dict[str | None, NDArray[np.int32]] = field(default_factory=dict)
    _requests: dict[str | None, int] = field(default_factory=dict)

    def add(self, scope: str | None, tokens: NDArray[np.int32]) -> None:
        known = self._tokens.get(scope)
        self._requests[scope] = self._requests.get(scope, 0) + 1
        if known is None:
            self._tokens[scope] = tokens.copy()
            return
        length = min(len(known), len(tokens))
        differ = np.flatnonzero(known[:length] != tokens[:length])
        self._tokens[scope] = known[: differ[0] if len(differ) else length]

    def found(self) -> dict[str | None, StableHead]:
        return {
            scope: StableHead(len(tokens), self._requests[scope]) for scope, tokens in self._tokens.items()
        }
