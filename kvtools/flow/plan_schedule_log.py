"""What ``plan schedule`` reads of a log: requests with times and lengths, and the class of each as it arrives."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from kvtools.cache import Interner, Prompts, study_cache
from kvtools.errors import InputError
from kvtools.heat.log import HeatLog
from kvtools.heat.rules_file import read_rules
from kvtools.model import CacheSpec, share
from kvtools.profile import RequestColumns
from kvtools.profile.keying import sent_rows
from kvtools.profile.traffic import without_prompt
from kvtools.replay.log import UNKNOWN, LogBuilder, ReplayLog
from kvtools.replay.workload import workload
from kvtools.table import Ragged, integer_column, offsets_of

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from kvtools.cache import Workload
    from kvtools.flow.intake import Intake
    from kvtools.heat.features import HeatColumns
    from kvtools.profile import Counts

DEFAULT_BLOCK_SIZE = 16
LEARNT = "rules learnt from this log"
ONE_CLASS = "one class: this log shows no two kinds of requests"


@dataclass(frozen=True, slots=True, eq=False)
class ScheduleLog:
    """The requests in order of arrival: as the simulator takes them, what was logged of them, and who is hot."""

    work: Workload
    logged: ReplayLog
    hot: NDArray[np.bool_]
    counts: Counts
    block_size: int
    classes_by: str
    notes: tuple[str, ...]


def schedule_log(intake: Intake, rules_file: Path | None, block_size: int | None) -> ScheduleLog:
    """Read a log once.

    Raises:
        InputError: the log or the rules cannot be read, or the log has no arrivals or no lengths.
    """
    builder, heat = LogBuilder(intake.tokenizer), HeatLog()
    ttft, samples = [], []
    for chunk, keyed, dropped in intake.chunks():
        builder.add(chunk, keyed, dropped)
        heat.add(chunk.requests, keyed)
        table = chunk.requests
        rows = np.sort(np.concatenate((keyed.rows, without_prompt(table, sent_rows(table)))))
        ttft.append(integer_column(table, "ttft_us", UNKNOWN)[rows])
        samples.append(integer_column(table, "samples", 1)[keyed.rows])
    log = builder.built() if builder.parts else None
    if log is None or not len(log):
        size = block_size or intake.keying.block_size or DEFAULT_BLOCK_SIZE
        columns = heat.lengths_only()
        log, owner = _of_lengths(columns, np.concatenate(ttft or [np.empty(0, np.int64)])), None
        notes = ["the log has no prompts: no request hits the cache, whatever the engine would find."]
    else:
        size, _ = intake.settled(builder.counts, len(log))
        counts = np.concatenate(samples)
        owner = np.repeat(np.arange(len(counts)), counts)
        log = replace(log, keys=_full_blocks(log, size))
        first = np.flatnonzero(np.diff(owner, prepend=-1))
        columns = _with_hits(heat, log.take(first), size)
        notes = []
    rows = _usable(log, builder.counts)
    if len(rows) < len(log):
        notes.append(f"{len(log) - len(rows):,} requests without an arrival or a length were left out.")
    hot, by = _classes(columns, rules_file)
    hot = (hot if owner is None else hot[owner])[rows]
    log, known = _outputs(log.take(rows))
    work = workload(log, CacheSpec(size, outputs="lengths"))
    return ScheduleLog(work, log, hot, builder.counts, size, by, (*notes, *known))


def _of_lengths(columns: HeatColumns, ttft: NDArray[np.int64]) -> ReplayLog:
    n = len(columns)
    zeros = np.zeros(n, np.int64)
    return ReplayLog(
        request_id=[""] * n,
        arrival_us=columns.arrival_us,
        prompt_tokens=columns.prompt_tokens,
        output_tokens=columns.output_tokens,
        cached_tokens=zeros + UNKNOWN,
        ttft_us=ttft,
        latency_us=columns.latency_us,
        priority=zeros,
        skip_lookup=np.zeros(n, np.bool_),
        session=zeros.astype(np.uint64),
        namespace=zeros.astype(np.uint64),
        keys=Ragged(np.empty(0, np.uint64), np.zeros(n + 1, np.int64)),
    )


def _full_blocks(log: ReplayLog, block_size: int) -> Ragged:
    """Return the keys without last blocks that are not full, which traces list and vLLM never hits."""
    lengths = log.keys.lengths()
    full = np.minimum(lengths, log.prompt_tokens // block_size)
    places = np.arange(len(log.keys.values)) - np.repeat(log.keys.offsets[:-1], lengths)
    return Ragged(log.keys.values[places < np.repeat(full, lengths)], offsets_of(full))


def _with_hits(heat: HeatLog, log: ReplayLog, block_size: int) -> HeatColumns:
    """Return the columns of the heat model with the hits of a cache without limit, in log order."""
    timed = log.arrival_us
    order = np.argsort(timed, kind="stable") if (timed != UNKNOWN).all() else np.arange(len(log))
    ordered = log.take(order)
    ids = Interner().intern(ordered.keys.values)
    prompts = Prompts(ordered.prompt_tokens, ids, ordered.keys.offsets, ordered.skip_lookup)
    hits = np.empty(len(log), np.int64)
    hits[order] = study_cache(prompts, CacheSpec(block_size)).result.hit_tokens
    return heat.with_prompts(_as_logged(log), hits)


def _as_logged(log: ReplayLog) -> RequestColumns:
    """Return the columns that the heat model reads; the others say nothing."""
    nothing = np.full(len(log), UNKNOWN, np.int64)
    return RequestColumns(
        arrival_us=log.arrival_us,
        prompt_tokens=log.prompt_tokens,
        output_tokens=log.output_tokens,
        latency_us=log.latency_us,
        route=log.session,
        namespace=log.namespace,
        cached_tokens=nothing,
        observed_tokens=nothing,
        observed_id=[""] * len(log),
        samples=np.ones(len(log), np.int64),
        skip_lookup=log.skip_lookup,
        session=log.session,
        keys=log.keys,
    )


def _classes(columns: HeatColumns, rules_file: Path | None) -> tuple[NDArray[np.bool_], str]:
    """Return which requests are hot by what is known of them when they arrive, and by which rules."""
    from kvtools.heat.thresholds import Arrived  # noqa: PLC0415 - loads scikit-learn

    if rules_file is not None:
        rules, by = read_rules(rules_file), f"rules of {rules_file}"
    else:
        from kvtools.heat.study import study_heat  # noqa: PLC0415 - loads scikit-learn

        study = study_heat(columns)
        rules, by = study.rules, ONE_CLASS if study.thresholds is None else LEARNT
    hot = Arrived.of(columns).hot_by(rules.rules, rules.default)
    return hot, LEARNT if by == ONE_CLASS and not hot.all() else by


def _usable(log: ReplayLog, counts: Counts) -> NDArray[np.int64]:
    """Return the requests that have an arrival and a length, in order of arrival."""
    timed, sized = log.arrival_us != UNKNOWN, log.prompt_tokens > 0
    good = np.flatnonzero(timed & sized)
    if not len(good) or np.ptp(log.arrival_us[good]) == 0:
        raise InputError(
            f"plan schedule needs when requests arrived and how long they are: of {counts.records:,} records read, "
            f"{int(timed.sum()):,} have an arrival and {len(good):,} a length too"
            f"{', all at one moment' if len(good) > 1 else ''}; give a log with both."
        )
    return good[np.argsort(log.arrival_us[good], kind="stable")]


def _outputs(log: ReplayLog) -> tuple[ReplayLog, list[str]]:
    """Return the log with a length for every answer: what is not known is the median of the known ones.

    How long an answer of unknown length took is forgotten: no clock can be fitted to it.
    """
    known = log.output_tokens >= 0
    if known.all():
        return log, []
    log = replace(log, latency_us=np.where(known, log.latency_us, UNKNOWN))
    if not known.any():
        return replace(log, output_tokens=np.ones(len(log), np.int64)), [
            "the log has no output lengths: every answer counts as 1 token, so latency is little more than TTFT."
        ]
    median = int(np.median(log.output_tokens[known]))
    part = share(int((~known).sum()), len(log)) or 0.0
    return replace(log, output_tokens=np.where(known, log.output_tokens, median)), [
        f"{100 * part:.0f} % of the requests have no output length: each counts as {median:,} tokens, the median."
    ]
