"""``plan schedule``: what other scheduling policies would have done with the requests of a log."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from kvtools import __version__
from kvtools.errors import InputError
from kvtools.flow.intake import Intake, PathLike, Watcher, take_in
from kvtools.flow.plan_intake import plan_cache, plan_settings
from kvtools.flow.plan_schedule_clock import step_model
from kvtools.flow.plan_schedule_log import ScheduleLog, schedule_log
from kvtools.flow.plan_schedule_options import SCENARIOS, ScheduleOptions
from kvtools.model import CacheSpec, share
from kvtools.plan.schedule import Schedule, schedule
from kvtools.plan.schedule_figures import HOT, figures_of
from kvtools.plan.schedule_mix import mix, rows_of_mix, taken
from kvtools.plan.schedule_policies import FCFS, policy_of
from kvtools.plan.schedule_search import SEARCHED, score, search
from kvtools.plan.schedule_sweep import Point, lines, point
from kvtools.plan.schedule_verdict import verdict_of
from kvtools.report.coverage import coverage
from kvtools.report.model import SCHEMA_VERSION
from kvtools.report.numbers import counted
from kvtools.report.plan_schedule import Engine, Limit, ScheduleReport, Search
from kvtools.report.plan_schedule_rows import class_row, clock_row, sweep_row, turning_row, verdict_row

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from kvtools.cache import Workload
    from kvtools.plan.schedule_clock import StepModel
    from kvtools.plan.schedule_figures import ClassFigures
    from kvtools.plan.schedule_policies import PolicyLimits


def plan_schedule(
    paths: Sequence[PathLike] | PathLike,
    options: ScheduleOptions | None = None,
    watcher: Watcher | None = None,
) -> ScheduleReport:
    """Return what each policy would have done with the requests of a log.

    Raises:
        InputError: the log, the rules or the model's config cannot be read, or the log has no arrivals or lengths.
        UsageError: the options contradict each other.
    """
    chosen = options or ScheduleOptions()
    return take_in(paths, chosen, watcher or Watcher(), lambda intake: _plan(intake, chosen))


@dataclass(frozen=True, slots=True, eq=False)
class _Study:
    """The log, the engine it is run on, and the watcher that is told of each run."""

    log: ScheduleLog
    options: ScheduleOptions
    spec: CacheSpec
    model: StepModel
    watcher: Watcher

    def run(
        self,
        name: str,
        work: Workload,
        hot: NDArray[np.bool_],
        limits: PolicyLimits | None = None,
    ) -> tuple[Schedule, list[ClassFigures]]:
        """Run requests under a policy."""
        options = self.options
        chosen = replace(limits or options.limits, seed=options.seed)
        policy = policy_of(name, chosen, options.scheduler.max_num_seqs)
        clock = self.model.clock
        done = schedule(work, hot, self.spec, options.scheduler, clock, policy, chosen, options.what_if)
        self.watcher.advance(1)
        return done, figures_of(done, hot, self.spec.capacity_blocks)

    def policies(self) -> list[str]:
        """Return the policies asked for, with the engine's default in front: all is compared with it."""
        return [FCFS, *(name for name in self.options.policies if name != FCFS)]


def _plan(intake: Intake, options: ScheduleOptions) -> ScheduleReport:
    log = schedule_log(intake, options.rules_file, options.block_size)
    capacity = options.memory.capacity_blocks(log.block_size) if options.memory else options.capacity_blocks
    spec = CacheSpec(log.block_size, capacity, outputs="lengths")
    model = step_model(log, spec, options.clock, options.scheduler)
    study = _Study(log, options, spec, model, intake.watcher)
    policies = study.policies()
    searched = [name for name in policies if name in SEARCHED] if options.tries else []
    mixes = len(options.sweep) + (len(SCENARIOS) if options.scenarios else 0)
    intake.watcher.phase("simulating", "")
    intake.watcher.begin(len(policies) * (1 + mixes) + len(searched) * (options.tries + 2))
    found = {name: study.run(name, log.work, log.hot) for name in policies}
    if found[FCFS][0].too_large.all():
        raise InputError(
            f"none of the {len(log.hot):,} requests fits into {counted(capacity or 0, 'block')}: give a larger cache."
        )
    points, left_out = _points(study, {f"{100 * one:g} %": one for one in options.sweep})
    scenes, unmade = _points(study, SCENARIOS if options.scenarios else {})
    notes = [*log.notes, *left_out, *unmade, *options.what_if.told(), *_notes(spec)]
    searches = [_search(study, name) for name in searched]
    return _report(intake, study, found, (points, scenes), (searches, notes))


def _notes(spec: CacheSpec) -> list[str]:
    if spec.capacity_blocks is not None:
        return []
    return [
        (
            "KV memory has no limit here: nothing is interrupted, and guards of memory never act; "
            "give --capacity-blocks or --kv-memory."
        )
    ]


def _points(study: _Study, shares: Mapping[str, float]) -> tuple[dict[str, list[Point]], list[str]]:
    """Run every policy on mixes of the log; return the points by name of mix, and what could not be made."""
    points: dict[str, list[Point]] = {}
    notes = []
    log = study.log
    for name, cold_share in shares.items():
        rows = rows_of_mix(log.hot, log.logged.session, cold_share, study.options.seed)
        if rows is None:
            notes.append(f"{name}: too few requests of the log make a mix with {100 * cold_share:g} % cold.")
            study.watcher.advance(len(study.policies()))
            continue
        work, hot = mix(log.work, rows), log.hot[rows]
        points[name] = []
        for policy in study.policies():
            done, figures = study.run(policy, work, hot)
            actual = share(int((~hot).sum()), len(hot)) or 0.0
            points[name].append(point(done, figures, work, study.model.clock, actual))
    return points, notes


def _search(study: _Study, policy: str) -> Search:
    """Search the best limits on the first half of the log, and judge them on the second."""
    options, log = study.options, study.log
    middle = len(log.hot) // 2
    first, later = np.arange(middle), np.arange(middle, len(log.hot))
    parts = [(taken(log.work, rows), log.hot[rows]) for rows in (first, later)]

    def judge(limits: PolicyLimits) -> float:
        return score(study.run(policy, *parts[0], limits)[1], options.limits_ms)

    best = search(policy, options.limits, options.scheduler.max_num_seqs, judge, options.tries, options.seed)
    rows = study.run(policy, *parts[1], best.limits)[1]
    default = study.run(FCFS, *parts[1])[1]
    return Search(
        policy=policy,
        settings=best.settings(options.scheduler.max_num_seqs),
        tries=best.tries,
        seed=options.seed,
        found_score=best.score,
        score=score(rows, options.limits_ms),
        fcfs_score=score(default, options.limits_ms),
        rows=[class_row(one, options.limits_ms) for one in rows],
    )


def _report(
    intake: Intake,
    study: _Study,
    found: Mapping[str, tuple[Schedule, list[ClassFigures]]],
    mixes: tuple[dict[str, list[Point]], dict[str, list[Point]]],
    rest: tuple[list[Search], list[str]],
) -> ScheduleReport:
    log, options, spec = study.log, study.options, study.spec
    (points, scenes), (searches, notes) = mixes, rest
    rows = {name: figures for name, (_, figures) in found.items()}
    by_policy = [
        [one for mixed in points.values() for one in mixed if one.policy == name]
        for name in study.policies()
        if points
    ]
    return ScheduleReport(
        schema_version=SCHEMA_VERSION,
        kvtools_version=__version__,
        inputs=intake.inputs(),
        settings=plan_settings(intake, "arrival"),
        coverage=coverage(log.counts, intake.log.skipped),
        requests=len(log.hot),
        cold_share=share(int((~log.hot).sum()), len(log.hot)) or 0.0,
        span_s=float(np.ptp(log.work.arrival_us)) / 1e6,
        classes_by=log.classes_by,
        cache=plan_cache(spec),
        engine=Engine(
            max_num_seqs=options.scheduler.max_num_seqs,
            max_num_batched_tokens=options.scheduler.max_num_batched_tokens,
            long_prefill_token_threshold=options.scheduler.long_prefill_token_threshold,
        ),
        clock=clock_row(study.model),
        limits=[
            Limit(name=name, p50_ms=limit[0], p99_ms=limit[1]) for name, limit in options.limits_ms.items()
        ],
        verdict=verdict_row(verdict_of(rows, options.limits_ms)),
        schedule=[class_row(one, options.limits_ms) for figures in rows.values() for one in figures],
        sweep=[sweep_row(None, one) for mixed in points.values() for one in mixed],
        turning_points=[turning_row(lines(one, options.limits_ms[HOT])) for one in by_policy],
        scenarios=[sweep_row(name, one) for name, mixed in scenes.items() for one in mixed],
        search=searches,
        notes=notes,
    )
