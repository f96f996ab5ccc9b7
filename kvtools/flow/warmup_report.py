"""The report of a warm-up set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvtools import __version__
from kvtools.flow.warmup_lines import Unwritten, Written, item_id, shown_namespace
from kvtools.report.coverage import coverage
from kvtools.report.model import SCHEMA_VERSION, Settings
from kvtools.report.numbers import counted, percent
from kvtools.report.warmup import (
    Budget,
    CurvePoint,
    Evaluation,
    Horizon,
    LeftOut,
    Start,
    Warmup,
    WarmupItem,
    WarmupReport,
    Way,
)
from kvtools.warmup.judge import survivors

if TYPE_CHECKING:
    from kvtools.flow.intake import Intake
    from kvtools.flow.warmup import WarmupOptions
    from kvtools.flow.warmup_log import Gathering, WarmupLog
    from kvtools.model import CacheSpec
    from kvtools.warmup.choose import Chosen
    from kvtools.warmup.judge import Judged, Replayed
    from kvtools.warmup.rehearsal import Rehearsal
    from kvtools.warmup.sizing import Plan

_LEFT_OUT_LISTED = 20
_CURVE = (10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000)
"""Points of the cold-start curve, in requests; the last point is the end of the log."""


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """A set, its lines in sending order, and how it did; ``greedy_saved`` tokens by the computed set in any case."""

    chosen_by: str
    rehearsal: Rehearsal
    plan: Plan
    stop: int
    spec: CacheSpec
    lines: list[Written]
    failed: list[Unwritten]
    judged: Judged
    greedy_saved: int


def report_of(
    intake: Intake, gathered: Gathering, log: WarmupLog, options: WarmupOptions, made: Made
) -> WarmupReport:
    """Return the report."""
    has_text = intake.keying.kind == "prompts"
    optimistic = made.stop == len(log)
    return WarmupReport(
        schema_version=SCHEMA_VERSION,
        kvtools_version=__version__,
        inputs=intake.inputs(),
        settings=Settings(
            tokenizer=intake.tokenizer.name if has_text else "none (block ids given)",
            tokenizer_check=intake.tokenizer_check() if has_text else "not needed",
            chat_template=intake.template.name,
            order=gathered.order,
            measure_from=0.0,
        ),
        coverage=coverage(gathered.counts, intake.log.skipped),
        conclusion=_conclusion(made, optimistic=optimistic),
        warmup=_warmup(log, options, made),
        evaluation=_evaluation(log, options, made, optimistic=optimistic),
    )


def _conclusion(made: Made, *, optimistic: bool) -> str:
    judged = made.judged
    if not made.lines:
        if made.chosen_by == "nothing":
            return "No warm-up: at restarts within the log every set did worse than a cold start."
        if made.failed or made.plan.left_out:
            return "No warm-up: no prefix that comes again fits the budget and the cache, or can be written."
        return (
            "No warm-up: no block was asked for twice in the part of the log that the set is built from, "
            "so there is nothing that is worth sending."
        )
    saved, spent = judged.saved(judged.warm), judged.warm.spent_tokens
    sentence = (
        f"{counted(len(made.lines), 'request')} save {saved:,} of {int(judged.queried.sum()):,} prompt tokens "
        f"({percent(judged.rate(judged.cold))} → {percent(judged.rate(judged.warm))}) "
        f"for {spent:,} spent on warming"
    )
    if optimistic:
        return f"{sentence}, judged on the requests it was built from: optimistic."
    if made.chosen_by == "frequency":
        return f"{sentence}; the most frequent prompts, which did best at restarts within the first part."
    naive = judged.saved(judged.naive)
    less = ", more than the set" if naive > saved else ""
    return f"{sentence}; the naive top-K saves {naive:,}{less}."


def _warmup(log: WarmupLog, options: WarmupOptions, made: Made) -> Warmup:
    size, choice = made.spec.block_size, made.plan.choice
    sent = [line.sent for line in made.lines]
    alive = survivors(sent, [line.prefix.depth for line in made.lines], made.spec.capacity_blocks)
    items = [
        WarmupItem(
            id=item_id(number),
            namespace=shown_namespace(line.namespace),
            tokens=line.prefix.depth * size,
            sent_tokens=line.sent.tokens,
            expected_saved_tokens=round(line.prefix.value * size),
            members=line.prefix.members,
            verified=line.verified,
            form=line.form,
            survives=survives,
        )
        for number, (line, survives) in enumerate(zip(made.lines, alive, strict=True))
    ]
    gone = [(one.prefix, one.namespace, one.reason) for one in made.failed]
    too_much = "the cache has no room for it: it would push out what is worth more"
    gone += [(one, log.namespaces[one.request], too_much) for one in made.plan.left_out]
    return Warmup(
        chosen_by=made.chosen_by,
        rehearsed_restarts=len(made.rehearsal.saved),
        ways=_ways(made.rehearsal),
        built_on_requests=made.stop,
        block_size=size,
        write=options.write,
        items=items,
        left_out=[_left_out(*one, size) for one in gone[:_LEFT_OUT_LISTED]],
        left_out_count=len(gone),
        budget=_budget(options, made),
        horizon=_horizon(log, made),
        expected_saved_tokens=round(sum(line.prefix.value for line in made.lines) * size),
        bound_share=choice.value / choice.bound if choice.bound else None,
    )


def _ways(rehearsal: Rehearsal) -> list[Way]:
    """Return what each way saved at the rehearsed restarts; without a limit the look-ahead is the horizon."""
    ways = rehearsal.ways
    totals = rehearsal.saved.sum(axis=0).tolist()
    return [
        Way(
            by=way.by,
            look_ahead=way.look_ahead if rehearsal.limited and way.by != "frequency" else None,
            spread=way.spread,
            saved_tokens=total,
            taken=way is rehearsal.best,
        )
        for way, total in zip(ways, totals, strict=True)
    ]


def _left_out(prefix: Chosen, namespace: str | None, reason: str, size: int) -> LeftOut:
    return LeftOut(
        namespace=shown_namespace(namespace),
        tokens=prefix.depth * size,
        expected_saved_tokens=round(prefix.value * size),
        members=prefix.members,
        reason=reason,
    )


def _budget(options: WarmupOptions, made: Made) -> Budget:
    return Budget(
        queries=options.budget_queries,
        tokens=options.budget_tokens,
        blocks=options.budget_blocks,
        capacity_blocks=made.spec.capacity_blocks,
        used_queries=len(made.lines),
        used_tokens=made.judged.warm.spent_tokens,
        used_blocks=len({block for line in made.lines for block in line.sent.blocks.tolist()}),
    )


def _horizon(log: WarmupLog, made: Made) -> Horizon:
    per_hour = log.requests_within(3600.0, made.stop)
    seconds = None if per_hour is None else 3600.0 * made.plan.horizon / per_hour
    return Horizon(requests=made.plan.horizon, seconds=seconds)


def _evaluation(log: WarmupLog, options: WarmupOptions, made: Made, *, optimistic: bool) -> Evaluation:
    judged = made.judged
    requests = len(judged.queried)
    points = [*(point for point in _CURVE if point < requests), requests]
    begin = len(log) - requests
    return Evaluation(
        requests=requests,
        holdout=options.holdout,
        optimistic=optimistic,
        cold=_start(judged, judged.cold),
        topk=_start(judged, judged.naive),
        warm=_start(judged, judged.warm),
        greedy_saved_tokens=made.greedy_saved,
        curve=[_point(log, judged, begin, point) for point in points],
    )


def _start(judged: Judged, one: Replayed) -> Start:
    return Start(
        hit_rate=judged.rate(one),
        hit_tokens=int(one.hits.sum()),
        saved_tokens=judged.saved(one),
        queries=one.queries,
        spent_tokens=one.spent_tokens,
    )


def _point(log: WarmupLog, judged: Judged, begin: int, requests: int) -> CurvePoint:
    first, last = int(log.arrival_us[begin]), int(log.arrival_us[begin + requests - 1])
    return CurvePoint(
        requests=requests,
        seconds=None if min(first, last) < 0 else (last - first) / 1e6,
        cold_hit_rate=judged.rate(judged.cold, requests),
        topk_hit_rate=judged.rate(judged.naive, requests),
        warm_hit_rate=judged.rate(judged.warm, requests),
        topk_saved_tokens=judged.saved(judged.naive, requests),
        warm_saved_tokens=judged.saved(judged.warm, requests),
    )
