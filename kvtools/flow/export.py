"""``export``: a log, or a stored report, as files for Prometheus, Alertmanager, Grafana and the node exporter."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
import numpy as np

from kvtools.errors import InputError, UsageError
from kvtools.flow.analyze import AnalyzeOptions, analyze
from kvtools.flow.intake import IntakeOptions, Watcher
from kvtools.flow.replay import ReplayOptions, replay
from kvtools.flow.stored import read_report
from kvtools.monitor import alertmanager, dashboard, rules, textfile
from kvtools.monitor.alerts import alerts
from kvtools.monitor.calibration import calibration_of
from kvtools.monitor.deployment import Deployment
from kvtools.monitor.exported import Exported, NotExported
from kvtools.profile.keying import sent_rows
from kvtools.readers import ReadOptions, discard_spool, find_inputs, read
from kvtools.readers.duplicates import Deduplicator
from kvtools.report.files import replacing
from kvtools.report.model import SCHEMA_VERSION
from kvtools.report.replay import ReplayReport
from kvtools.table import integer_column

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kvtools.flow.intake import PathLike
    from kvtools.flow.sizing import CacheMemory
    from kvtools.report.model import Report

Kind: TypeAlias = Literal["prometheus-rules", "alertmanager", "grafana", "textfile"]

FILES: dict[Kind, str] = {
    "prometheus-rules": rules.FILE,
    "alertmanager": alertmanager.FILE,
    "grafana": dashboard.FILE,
    "textfile": textfile.FILE,
}

_REPORT = re.compile(rb'\s*\{\s*"schema_version"')
_HEAD_BYTES = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions(IntakeOptions):
    """What ``export`` can be told besides how to read.

    ``target``: the folder that receives the file. ``deployment``: the servers that are watched. ``webhook``: who
    Alertmanager notifies. ``labels`` stand on every sample of the textfile.
    """

    target: Path
    capacity_blocks: int | None = None
    memory: CacheMemory | None = None
    deployment: Deployment = field(default_factory=Deployment)
    webhook: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        textfile.check_labels(self.labels)
        if self.webhook is not None and not re.fullmatch(r"https?://\S+", self.webhook):
            raise UsageError(f"--webhook {self.webhook}: give a URL that begins with http:// or https://.")
        AnalyzeOptions(**self.reading())  # a wrong size is told before a long run

    def reading(self) -> dict[str, Any]:
        """Return what says how a log is read and how large its cache is."""
        names = [*(one.name for one in fields(IntakeOptions)), "capacity_blocks", "memory"]
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True)
class _Known:
    """What an export is made of; ``prefill_s``: seconds to the first token by percentile."""

    report: Report | None
    replayed: ReplayReport | None = None
    prefill_s: Mapping[str, float] = field(default_factory=dict)


def export(
    kind: Kind, paths: Sequence[PathLike] | PathLike, options: ExportOptions, watcher: Watcher | None = None
) -> Exported:
    """Write the file of ``kind`` into ``options.target`` and return what it holds.

    ``paths``: a log as for ``analyze``, or the JSON report of one; for ``textfile`` also the report of ``replay``.

    Raises:
        InputError: neither a log nor a report can be read, or the folder cannot be written.
        UsageError: options or reports do not fit together.
    """
    named = [str(path) for path in ([paths] if isinstance(paths, (str, Path)) else paths)]
    _keep_inputs(named, options.target / FILES[kind])
    stored = [_is_report(name) for name in named]
    if any(stored):
        if not all(stored):
            raise UsageError("give a log or a stored report, not both.")
        if options.reading() != ExportOptions(target=options.target).reading():
            raise UsageError("a stored report has been read already: leave out the options on reading a log.")
        known = _stored(named)
    else:
        known = _read(kind, named, options, watcher or Watcher())
    if kind == "textfile":
        return _textfile(known, options)
    if known.report is None:
        raise UsageError(f"{named[0]}: the report of a replay; {kind} needs that of kvtools analyze.")
    return _calibrated(kind, known.report, options)


def _keep_inputs(paths: Sequence[str], file: Path) -> None:
    for path in paths:
        if Path(path).is_file() and Path(path).resolve() == file.resolve():
            raise UsageError(
                f"-o {file.parent}: {file.name} would overwrite the input {path}; name another folder."
            )


def _calibrated(kind: Kind, report: Report, options: ExportOptions) -> Exported:
    found, watched = calibration_of(report), options.deployment
    made, left_out = alerts(found, watched)
    notes: list[str] = []
    if kind == "prometheus-rules":
        check, text = "promtool check rules", rules.rules_yaml(watched, made, left_out)
    elif kind == "alertmanager":
        check = "amtool check-config"
        text = alertmanager.alertmanager_yaml(watched, made, options.webhook)
        notes += (
            [] if options.webhook else ["The receiver notifies nobody yet: add yours, or give --webhook URL."]
        )
    else:
        check = "import it in Grafana (Dashboards, New, Import):"
        text = dashboard.dashboard_json(found, watched)
    path = _written(options.target, FILES[kind], text)
    shown = kind == "prometheus-rules"
    return Exported(
        kind=kind,
        file=str(path),
        hit_rate=found.hit_rate,
        hit_rate_low=found.hit_rate_low,
        alerts=[alert.name for alert in made] if shown else [],
        not_exported=[NotExported(name=one.name, why=one.why) for one in left_out] if shown else [],
        notes=notes,
        check=f"{check} {shlex.quote(str(path))}",
    )


def _textfile(known: _Known, options: ExportOptions) -> Exported:
    text = textfile.textfile(known.report, known.replayed, known.prefill_s, options.labels)
    path = _written(options.target, textfile.FILE, text)
    given = {line.split(maxsplit=2)[0].partition("{")[0] for line in text.splitlines() if line[0] != "#"}
    found = None if known.report is None else calibration_of(known.report)
    return Exported(
        kind="textfile",
        file=str(path),
        hit_rate=None if found is None else found.hit_rate,
        hit_rate_low=None if found is None else found.hit_rate_low,
        alerts=[],
        not_exported=[NotExported(name=name, why="not told") for name in textfile.HELP if name not in given],
        notes=["Put it where the node exporter's --collector.textfile.directory points."],
        check=f"promtool check metrics < {shlex.quote(str(path))}",
    )


def _written(target: Path, name: str, text: str) -> Path:
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{target}: cannot be a folder ({error.strerror}); choose another place.") from None
    with replacing(target / name) as file:
        file.write(text)
    return target / name


def _read(kind: Kind, paths: Sequence[str], options: ExportOptions, watcher: Watcher) -> _Known:
    if kind == "textfile" and "-" in paths:
        raise InputError(
            "textfile reads the log several times, and standard input is gone after once: name a file."
        )
    reading = options.reading()
    report = analyze(paths, AnalyzeOptions(**reading, findings=False), watcher)
    if kind != "textfile":
        return _Known(report)
    again = reading | {"rejects": None}
    replayed = None if report.cache is None else replay(paths, ReplayOptions(**again), watcher.quiet())
    return _Known(report, replayed, _prefill_s(paths, options))


def _prefill_s(paths: Sequence[str], options: ExportOptions) -> dict[str, float]:
    """Return percentiles of the logged time to the first token in s, nothing where none was logged."""
    log = find_inputs(list(paths), options.input_format)
    once, parts = Deduplicator(), []
    try:
        for chunk in read(log, ReadOptions(options.route_key, strict=False, mapping=options.mapping), []):
            table = once.first_time(chunk)[0].requests
            times = integer_column(table, "ttft_us")[sent_rows(table)]
            parts.append(times[times >= 0])
    finally:
        discard_spool(log)
    known = np.concatenate(parts) if parts else np.empty(0)
    if not len(known):
        return {}
    shares = (50, 90, 99)
    return dict(zip(map(str, shares), (np.percentile(known, shares) / 1e6).tolist(), strict=True))


def _is_report(path: str) -> bool:
    file = Path(path)
    if not file.is_file():
        return False
    with file.open("rb") as opened:
        return bool(_REPORT.match(opened.read(_HEAD_BYTES)))


def _stored(paths: Sequence[str]) -> _Known:
    """Return the reports in files, at most one of ``analyze`` and one of ``replay``."""
    known = _Known(None)
    for path in paths:
        replayed = _replay_report(Path(path))
        if (known.report if replayed is None else known.replayed) is not None:
            raise UsageError(f"{path}: a second report of the same kind; give one.")
        if replayed is None:
            known = replace(known, report=read_report(Path(path)))
        else:
            known = replace(known, replayed=replayed)
    return known


def _replay_report(path: Path) -> ReplayReport | None:
    """Return the report of a replay, ``None`` where the file holds another one."""
    data = path.read_bytes()
    try:
        if "replays" not in msgspec.json.decode(data, type=dict[str, msgspec.Raw]):
            return None
        found = msgspec.json.decode(data, type=ReplayReport)
    except msgspec.DecodeError as error:
        raise InputError(f"{path}: not a kvtools report ({error}); write one with --format json.") from None
    if found.schema_version != SCHEMA_VERSION:
        raise InputError(
            f"{path}: the report has schema version {found.schema_version}, this kvtools reads {SCHEMA_VERSION}."
        )
    return found
