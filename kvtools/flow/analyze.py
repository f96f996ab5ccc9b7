"""``analyze``: how well the prompts of a log reuse the prefix cache, and how much cache that takes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from kvtools.cache import Interner, Prompts, study_cache
from kvtools.cache.demand import overloads
from kvtools.diagnosis.misses import split_misses
from kvtools.diagnosis.ranking import Ranked
from kvtools.diagnosis.verdict import verdict
from kvtools.errors import ChangedInput, UsageError
from kvtools.flow.apart import INSTANCE_KEYS, kept_apart, scattered
from kvtools.flow.diagnose import Gathered, diagnose, diagnosis_catalogue, second_pass, whatif_of
from kvtools.flow.fold import fold_log
from kvtools.flow.heat import HeatOptions, HeatStage
from kvtools.flow.intake import Intake, PathLike, Watcher, take_in
from kvtools.flow.judge import figures_of, flushes_of
from kvtools.flow.section_order import order_of_chats, order_of_trace
from kvtools.flow.sizing import CacheMemory, with_block_bytes
from kvtools.model import CacheSpec, Outputs
from kvtools.profile import prefix_similarity, replay_order
from kvtools.replay.compare import UNKNOWN, Observed, compare
from kvtools.report.build import Findings, Reading, build_report, traffic_report
from kvtools.report.compare import compare_figures
from kvtools.report.cost import cost_basis, price_of
from kvtools.report.findings import diagnosis_figures
from kvtools.report.model import Demand, Report, Settings
from kvtools.report.traffic import period_of
from kvtools.report.verdict import miss_figures, verdict_figures
from kvtools.sessions import find_sessions
from kvtools.table import Ragged

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from kvtools.cache import CacheStudy
    from kvtools.diagnosis.history import HistoryFinding
    from kvtools.diagnosis.whatif import WhatIf
    from kvtools.model import ReplayResult
    from kvtools.profile import LogProfile, RequestColumns
    from kvtools.report.compare import Compare
    from kvtools.report.cost import Price
    from kvtools.report.findings import Diagnosis
    from kvtools.report.section_order import SectionOrder


NOT_TEXT = ": only salts, adapters, media and instances were looked at"
NOT_ASKED = "left out: --no-findings"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyzeOptions(HeatOptions):
    """What ``analyze`` can be told besides how to read.

    ``measure_from`` (0..1) counts only the requests after that share of the log; ``curve_blocks`` are the
    cache sizes to print. ``findings`` asks what breaks the prefix (the log is read twice), with the values
    masked unless ``show_text``; ``patterns`` is a file of further kinds of values. ``keep_order``: groups of sections
    that keep their relative order where a better order of sections is searched. ``price_per_mtok`` (of a
    million prompt tokens), or ``gpu_hour_price`` of ``gpus`` GPUs that compute ``prefill_tokens_per_s`` together,
    turns the tokens lost into money.
    """

    capacity_blocks: int | None = None
    memory: CacheMemory | None = None
    outputs: Outputs = "one"
    measure_from: float = 0.0
    curve_blocks: tuple[int, ...] | None = None
    findings: bool = True
    show_text: bool = False
    patterns: Path | None = None
    keep_order: tuple[tuple[str, ...], ...] = ()
    price_per_mtok: float | None = None
    gpu_hour_price: float | None = None
    prefill_tokens_per_s: float | None = None
    gpus: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.measure_from < 1:
            raise UsageError(f"--measure-from {self.measure_from:g}: a share of the log, from 0 to below 1.")
        if self.curve_blocks and min(self.curve_blocks) < 1:
            raise UsageError(f"--curve-blocks {min(self.curve_blocks)}: a cache holds at least 1 block.")
        if self.keep_order and not self.findings:
            raise UsageError(
                "--keep-order: --no-findings skips the search that it is for; leave out one of them."
            )
        # A wrong size must not wait for the end of a long run to be told.
        CacheSpec(1 if self.block_size is None else self.block_size, self.capacity_blocks)
        self.check_classes()
        self.price()

    def blocks(self, block_size: int) -> int | None:
        """Return how many blocks of ``block_size`` tokens the cache holds, ``None`` without a limit."""
        return self.memory.capacity_blocks(block_size) if self.memory else self.capacity_blocks

    def price(self) -> Price | None:
        """Return what a million prompt tokens cost, ``None`` where no price was given."""
        return price_of(self.price_per_mtok, self.gpu_hour_price, self.prefill_tokens_per_s, self.gpus)


def analyze(
    paths: Sequence[PathLike] | PathLike,
    options: AnalyzeOptions | None = None,
    watcher: Watcher | None = None,
) -> Report:
    """Return how well the prompts of a log reuse the prefix cache, and how much cache that takes.

    ``paths``: files, globs, folders, or ``-`` for standard input.

    Raises:
        InputError: a path is missing, unreadable or of no known format, or no request has a prompt, a length,
            a time or reported hits.
        RejectedInput: ``options.strict`` and a record cannot be used.
        TemplateError: the chat template is missing or broken.
        UsageError: an option is out of its range.
    """
    chosen = options or AnalyzeOptions()
    return take_in(paths, chosen, watcher or Watcher(), lambda intake: _analyze(intake, chosen))


def _analyze(intake: Intake, options: AnalyzeOptions) -> Report:
    heat = HeatStage(options)
    gathered = Gathered(diagnosis_catalogue(options.patterns) if options.findings else None)
    profile = fold_log(intake, gathered, heat)
    if not profile.prompts and profile.traffic.columns().says_something:
        return heat.onto_lengths(_without_prompts(intake, profile, options))
    block_size, rules = intake.settled(profile.counts, profile.prompts)
    requests = profile.requests()
    ids = Interner().intern(requests.keys.values)
    prefix = prefix_similarity(requests, ids)
    order, logged = replay_order(requests.arrival_us), requests
    if order is not None:
        requests, prefix = requests.take(order), prefix.take(order)
        ids = Interner().intern(requests.keys.values)
    spec = CacheSpec(block_size, options.blocks(block_size), rules, options.outputs)
    study = _studied(requests, ids, spec, options.measure_from)
    reading = _reading(intake, profile, "log" if order is None else "arrival", options)
    misses = split_misses(study, requests.prompt_tokens, requests.samples, profile.seen, order)
    flushes = flushes_of(requests, ids, study, options.measure_from)
    figures = figures_of(profile, requests, study, misses, flushes)
    whatif = whatif_of(logged, order, spec, options.measure_from)
    diagnosis = _diagnosis(intake, gathered, (requests, logged), whatif, options)
    found = Findings(
        inputs=reading.inputs,
        settings=reading.settings,
        skipped_files=reading.skipped_files,
        profile=profile,
        requests=requests,
        ids=ids,
        prefix=prefix,
        study=study,
        observed=_observed(requests, study.result),
        demand=_demand(requests, spec),
        diagnosis=diagnosis,
        findings_missing=_why_missing(gathered, diagnosis),
        section_order=_order_of_chats(intake, gathered, logged.namespace, whatif, options),
        misses=miss_figures(misses),
        verdict=verdict_figures(verdict(figures), figures, profile.utc_offset_min or 0),
    )
    report = with_block_bytes(build_report(found, options.curve_blocks), options.memory)
    return heat.onto(report, profile, logged, order, study)


analyzed = _analyze  # the same on a pass that another verb has begun


def _without_prompts(intake: Intake, profile: LogProfile, options: AnalyzeOptions) -> Report:
    reading = _reading(intake, profile, "log", options)
    if not options.findings:
        return traffic_report(replace(reading, findings_missing=NOT_ASKED))
    order = order_of_trace(intake, options.keep_order)
    _told_of_unused(intake, options, order)
    return traffic_report(replace(reading, section_order=order))


def _diagnosis(
    intake: Intake,
    gathered: Gathered,
    columns: tuple[RequestColumns, RequestColumns],
    whatif: WhatIf,
    options: AnalyzeOptions,
) -> Diagnosis | None:
    """Return what breaks the prefix, ``None`` where it is not asked for, or there is no text and nothing else to tell.

    ``columns`` are the requests as they are replayed and as they were logged.
    """
    requests, logged = columns
    catalogue = gathered.catalogue
    if catalogue is None:
        return None
    ranked = Ranked(whatif.replayed(), (), (), ())
    histories: list[HistoryFinding] = []
    try:
        apart = kept_apart(intake.keying, gathered.apart, lambda: second_pass(intake, gathered.rows), whatif)
        if gathered.has_text:
            ranked, histories = diagnose(intake, gathered, whatif, find_sessions(requests, requests.session))
    except ChangedInput as changed:
        intake.watcher.warn(f"{changed} Findings are left out.")
        return None
    if (options.route_key or "").rpartition(".")[2] in INSTANCE_KEYS:
        apart = [*scattered(logged, whatif), *apart]
    if not gathered.has_text and not apart:
        return None
    for name in catalogue.unmatched():
        intake.watcher.warn(f"pattern {name} matched none of the varying text that was looked at.")
    for name in catalogue.stopped():
        intake.watcher.warn(f"pattern {name} took too long and was left out.")
    price = options.price()
    measured = requests.arrival_us[int(len(requests.arrival_us) * options.measure_from) :]
    basis = None if price is None else cost_basis(price, len(measured), period_of(measured, 0))
    return diagnosis_figures(ranked, histories, apart, show_text=options.show_text, basis=basis)


def _why_missing(gathered: Gathered, diagnosis: Diagnosis | None) -> str:
    """Say why there are no findings, nothing where there are."""
    if gathered.catalogue is None:
        return NOT_ASKED
    if not gathered.has_text:
        return "token ids and block ids are no text" + (NOT_TEXT if diagnosis else "")
    return "the log changed while it was read" if diagnosis is None else ""


def _order_of_chats(
    intake: Intake,
    gathered: Gathered,
    namespaces: NDArray[np.uint64],
    whatif: WhatIf,
    options: AnalyzeOptions,
) -> SectionOrder | None:
    if gathered.catalogue is None:
        return None
    second = second_pass(intake, gathered.rows)
    try:
        found = order_of_chats(intake.keying, gathered.chats, second, whatif, namespaces, options.keep_order)
    except ChangedInput as changed:
        intake.watcher.warn(f"{changed} The order of sections is left out.")
        return None
    _told_of_unused(intake, options, found)
    return found


def _told_of_unused(intake: Intake, options: AnalyzeOptions, found: SectionOrder | None) -> None:
    if options.keep_order and found is None:
        intake.watcher.warn("--keep-order has no effect: this log has no sections whose order can be chosen.")


def _reading(intake: Intake, profile: LogProfile, order: str, options: AnalyzeOptions) -> Reading:
    given = "none (block ids given)" if profile.prompts else "none (no prompts)"
    settings = Settings(
        tokenizer=intake.tokenizer.name if profile.has_text else given,
        tokenizer_check=intake.tokenizer_check() if profile.has_text else "not needed",
        chat_template=intake.template.name,
        order=order,
        measure_from=options.measure_from,
    )
    return Reading(
        inputs=intake.inputs(), settings=settings, skipped_files=intake.log.skipped, profile=profile
    )


def _studied(
    requests: RequestColumns, ids: NDArray[np.int32], spec: CacheSpec, measure_from: float
) -> CacheStudy:
    """Replay every lookup: a request for n answers is n of them."""
    prompts = Prompts(requests.prompt_tokens, ids, requests.keys.offsets, requests.skip_lookup)
    if (requests.samples == 1).all():
        return study_cache(prompts, spec, measure_from)
    owner = np.repeat(np.arange(len(requests.samples)), requests.samples)
    blocks = Ragged(ids, requests.keys.offsets).take(owner)
    each = Prompts(prompts.tokens[owner], blocks.values, blocks.offsets, prompts.skip_lookup[owner])
    return study_cache(each, spec, measure_from).per_request(owner, len(requests.samples))


def _observed(requests: RequestColumns, predicted: ReplayResult) -> Compare | None:
    """Compare the hits with those that the server reported in the log, ``None`` where it reported none."""
    if (requests.cached_tokens == UNKNOWN).all():
        return None
    seen = Observed(requests.cached_tokens, requests.observed_tokens, predicted.spec.block_size)
    return compare_figures(compare(predicted, seen), (predicted.engine, "the server"), requests.observed_id)


def _demand(requests: RequestColumns, spec: CacheSpec) -> Demand | None:
    """Return the demand of the requests in flight, where capacity, arrivals and latencies are known."""
    columns = (requests.arrival_us, requests.latency_us)
    if spec.capacity_blocks is None or any((column == UNKNOWN).any() for column in columns):
        return None
    tokens = requests.prompt_tokens + np.maximum(requests.output_tokens, 1)
    ends = requests.arrival_us + requests.latency_us
    stretches = overloads(requests.arrival_us, ends, -(-tokens // spec.block_size), spec.capacity_blocks)
    return Demand(
        peak_blocks=max((stretch.peak_blocks for stretch in stretches), default=0),
        over_capacity_us=sum(stretch.until_us - stretch.from_us for stretch in stretches),
        stretches=len(stretches),
    )
