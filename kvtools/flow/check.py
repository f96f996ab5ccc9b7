"""``check`` and ``baseline``: a log, or templates with recorded values, against a budget."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kvtools import __version__
from kvtools.errors import GateFailed
from kvtools.flow.analyze import AnalyzeOptions
from kvtools.flow.gate_inputs import Judged, judged, measured, reported
from kvtools.flow.gate_places import example_places
from kvtools.flow.intake import PathLike, Watcher
from kvtools.flow.plant import planted
from kvtools.gate.baseline import baseline_of, check_alike, read_baseline, settings_of
from kvtools.gate.budget import Budget, limit_of
from kvtools.gate.causes import log_causes, template_causes
from kvtools.gate.checklists import checklists
from kvtools.gate.config import Configuration, find_configuration
from kvtools.gate.judge import enough, judge
from kvtools.report.check import VERDICT_SCHEMA_VERSION, Cause, Check, Verdict
from kvtools.tokens import load_tokenizer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kvtools.gate.baseline import Baseline
    from kvtools.report.model import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """What is held against which limits.

    ``analysis`` says how to read and replay. ``baseline`` is what ``kvtools baseline`` wrote. ``templates`` is a folder
    and ``values`` a file of recorded values that are rendered with it, instead of a log.
    """

    analysis: AnalyzeOptions = field(default_factory=AnalyzeOptions)
    budget: Budget = field(default_factory=Budget)
    baseline: Path | None = None
    templates: Path | None = None
    values: Path | None = None


def check(
    paths: Sequence[PathLike] | PathLike, options: CheckOptions, watcher: Watcher | None = None
) -> Verdict:
    """Return the verdict on a log or on templates; ``verdict.exit_code`` is the gate's.

    Raises:
        UsageError: no limit is set, or options contradict each other.
        InputError: there is too little to judge, a limit cannot be measured, or the baseline is about something else.
    """
    watch = watcher or Watcher()
    before = None if options.baseline is None else read_baseline(options.baseline)
    with judged(paths, options.templates, options.values) as one:
        return _verdict(one, options, before, watch)


def baseline(
    paths: Sequence[PathLike] | PathLike, options: CheckOptions, watcher: Watcher | None = None
) -> Baseline:
    """Return a baseline of a log or of templates, to judge later ones against.

    Raises:
        InputError: there is too little to judge.
    """
    with judged(paths, options.templates, options.values) as one:
        report = reported(one, options.analysis, watcher or Watcher())
        settings_of(report)
        enough(report, options.budget)
        return baseline_of(report, one.values_sha256)


def self_test(
    paths: Sequence[PathLike] | PathLike, options: CheckOptions, watcher: Watcher | None = None
) -> str:
    """Plant a timestamp in front of every prompt and return in one sentence which checks fail for it.

    Raises:
        GateFailed: the gate passes all the same, or it fails without the fault, so that nothing is proven.
        InputError: as ``check``; or the log has neither text nor token ids to plant it in.
    """
    watch = watcher or Watcher()
    before = None if options.baseline is None else read_baseline(options.baseline)
    with judged(paths, options.templates, options.values) as one:
        sound = _verdict(one, options, before, watch)
        if not sound.passed:
            failed = ", ".join(dict.fromkeys(check.name for check in sound.checks if _fails(check)))
            raise GateFailed(f"self-test: {failed} fails already without the planted fault; mend that first.")
        with planted(one, options.analysis) as faulty:
            found = _verdict(faulty, options, before, watch.quiet())
    failed = "; ".join(check.message for check in found.checks if _fails(check))
    if found.passed:
        raise GateFailed(
            "self-test: the gate passes with a timestamp in front of every prompt: its limits are too loose; set "
            "min-hit-rate, or max-drop with a baseline."
        )
    return f"self-test: with a timestamp in front of every prompt the gate fails, as it must: {failed}"


def _fails(one: Check) -> bool:
    return one.gates and one.status == "fail"


def _verdict(one: Judged, options: CheckOptions, before: Baseline | None, watcher: Watcher) -> Verdict:
    analysis, budget = options.analysis, options.budget
    report = reported(one, analysis, watcher)
    settings = settings_of(report)
    if before is not None:
        check_alike(report, one.values_sha256, before, str(options.baseline))
    whole = measured(one, report, analysis, watcher, heads=budget.demands("min-stable-prefix"))
    checks = judge(whole, budget, None if before is None else before.report)
    return Verdict(
        schema_version=VERDICT_SCHEMA_VERSION,
        kvtools_version=__version__,
        inputs=tuple(report.inputs),
        settings=settings,
        checks=(*checks, *checklists(report)),
        causes=tuple(_causes(one, report, analysis)),
        passed=not any(map(_fails, checks)),
    )


def _causes(one: Judged, report: Report, options: AnalyzeOptions) -> list[Cause]:
    if one.values is None:
        return log_causes(report, example_places(one.paths, report, options))
    tokenizer = load_tokenizer(options.tokenizer, fast=False)
    size = report.cache.block_size if report.cache else 1
    found = template_causes(one.templates, one.values, tokenizer, size)
    return [*log_causes(report, {}), *found]


def configured(
    given: dict[str, float], options: CheckOptions, config: Path | None, folder: Path
) -> tuple[CheckOptions, Configuration]:
    """Return the options with the limits ``given`` on the command line, which win, and those of the configuration.

    Raises:
        UsageError: a limit is out of its range, or the configuration is wrong.
    """
    found = find_configuration(folder, config)
    budget = Budget({name: limit_of(name, value, f"--{name}") for name, value in given.items()})
    paths = {key: path for key, (path, _) in found.paths.items()}
    merged = replace(
        options,
        budget=budget.over(found.budget),
        baseline=options.baseline or paths.get("baseline"),
        templates=options.templates or paths.get("templates"),
        values=options.values or paths.get("values"),
    )
    return merged, found
