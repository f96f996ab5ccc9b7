"""``check_history``: does the newest of a series of hit rates fall below those before it?"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from kvtools import __version__
from kvtools.errors import InputError
from kvtools.gate.baseline import baseline_of, check_alike, holds_baseline, read_baseline, settings_of
from kvtools.gate.budget import Budget
from kvtools.gate.history import Dated, history_checks, samples_of
from kvtools.gate.judge import enough
from kvtools.report.check import VERDICT_SCHEMA_VERSION, Verdict
from kvtools.report.model import Input, Report

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kvtools.gate.baseline import Baseline

SUFFIX = ".json"


def check_history(paths: Sequence[Path]) -> Verdict:
    """Return whether the newest hit rate of the whole log, or of a route, fell below the median of those before it.

    ``paths`` are reports or baselines (JSON), or folders that hold such; the file names say their order, the oldest
    first.

    Raises:
        InputError: a file cannot be read, two are not about the same thing, or there is too little to judge.
    """
    files = _files(paths)
    held = [_baseline(file) for file in files]
    first, dated = held[0], list[Dated]()
    for file, one in zip(files, held, strict=True):
        check_alike(first.report, first.values_sha256, one, str(file))
        dated += samples_of(one.report, str(file))
    checks, causes = history_checks(dated)
    return Verdict(
        schema_version=VERDICT_SCHEMA_VERSION,
        kvtools_version=__version__,
        inputs=tuple(
            Input(path=str(file), sha256=sha256(file.read_bytes()).hexdigest(), requests=one.report.requests)
            for file, one in zip(files, held, strict=True)
        ),
        settings=settings_of(first.report),
        checks=tuple(checks),
        causes=tuple(causes),
        passed=not any(check.status == "fail" for check in checks),
    )


def _files(paths: Sequence[Path]) -> list[Path]:
    found: dict[Path, Path] = {}
    for path in paths:
        if not path.exists():
            raise InputError(f"{path}: no such file or folder; name reports or baselines.")
        for file in path.glob(f"*{SUFFIX}") if path.is_dir() else [path]:
            found.setdefault(file.resolve(), file)
    if not found:
        raise InputError(f"{paths[0]}: holds no report and no baseline (*.json); name another folder.")
    return sorted(found.values(), key=lambda file: (file.name, str(file)))


def _baseline(file: Path) -> Baseline:
    """Return what a file holds as a baseline, whichever command wrote it."""
    try:
        data = file.read_bytes()
        held = read_baseline(file) if holds_baseline(data) else baseline_of(Report.from_json(data), None)
        enough(held.report, Budget())
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror}); name another file.") from None
    except InputError as error:
        if str(error).startswith(f"{file}: "):
            raise
        raise InputError(f"{file}: {error}") from None
    return held
