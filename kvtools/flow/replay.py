"""``replay``: a log through one engine or two, and where prediction and observation agree."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kvtools import __version__
from kvtools.errors import InputError, UsageError
from kvtools.flow.intake import Intake, IntakeOptions, PathLike, Watcher, take_in
from kvtools.model import CacheSpec, Commit, FreePartialBlocks, Outputs, SchedulerSpec
from kvtools.profile import replay_order
from kvtools.replay.compare import Observed, compare
from kvtools.replay.engine import Engine, Run
from kvtools.replay.journal import journal_path, open_journal
from kvtools.replay.log import UNKNOWN, LogBuilder, ReplayLog
from kvtools.replay.simulator import SimulatorEngine
from kvtools.replay.steptime import Speed, speed_of
from kvtools.replay.vllm_engine import VllmEngine
from kvtools.report.compare import compare_figures
from kvtools.report.coverage import coverage
from kvtools.report.files import replacing
from kvtools.report.model import SCHEMA_VERSION, Settings
from kvtools.report.replay import ReplayReport, Scheduler, replay_figures, request_lines

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kvtools.flow.sizing import CacheMemory
    from kvtools.model import ReplayResult
    from kvtools.replay.journal import Journal
    from kvtools.replay.server import ServerEngine

ENGINES = ("simulator", "vllm", "server")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions(IntakeOptions):
    """What ``replay`` can be told besides how to read.

    ``engines``: one name, or the one that predicts and the one that is observed. ``server`` holds what only a
    server needs, ``model`` a model folder for vLLM. ``per_request`` receives a JSON line per request, ``resume``
    continues a replay that broke off. ``prefill_tokens_per_s`` and ``decode_step_ms`` state the step time.
    """

    engines: tuple[str, ...] = ("simulator",)
    server: ServerEngine | None = None
    model: Path | None = None
    capacity_blocks: int | None = None
    memory: CacheMemory | None = None
    outputs: Outputs = "one"
    free_partial_blocks: FreePartialBlocks = "first"
    commit: Commit = "scheduled"
    scheduler: SchedulerSpec = field(default_factory=SchedulerSpec)
    limit_sessions: int | None = None
    per_request: Path | None = None
    resume: bool = False
    prefill_tokens_per_s: float | None = None
    decode_step_ms: float | None = None

    def __post_init__(self) -> None:
        unknown = [name for name in self.engines if name not in ENGINES]
        if unknown or not 1 <= len(self.engines) <= 2 or len(set(self.engines)) < len(self.engines):
            raise UsageError(
                f"--engine {','.join(self.engines)}: one or two different ones of {', '.join(ENGINES)}."
            )
        if "server" in self.engines and self.server is None:
            raise UsageError("--engine server needs --url.")
        self._check_engines()
        if self.resume and self.per_request is None:
            raise UsageError("--resume continues the replay of --per-request FILE: name the file.")
        if self.per_request is not None and str(self.per_request) == "-":
            raise UsageError("--per-request -: name a file; standard output carries the report.")
        if self.limit_sessions is not None and self.limit_sessions < 1:
            raise UsageError(f"--limit-sessions {self.limit_sessions}: at least 1.")
        if {"vllm", "server"} & set(self.engines) and self.scheduler.async_scheduling:
            raise UsageError("--async-scheduling is the simulator's: an engine decides for itself.")
        CacheSpec(1 if self.block_size is None else self.block_size, self.capacity_blocks)

    def _check_engines(self) -> None:
        """Refuse what the chosen engines would leave unheard."""
        engines = set(self.engines)
        if self.server is not None and "server" not in engines:
            raise UsageError("--url is for --engine server: name it, or leave the URL out.")
        if self.model is not None and "vllm" not in engines:
            raise UsageError("--model is for --engine vllm or server: name one, or leave the model out.")
        if engines == {"simulator"} and self.resume:
            raise UsageError("--resume is for --engine vllm or server: the simulator never breaks off.")
        stated = self.prefill_tokens_per_s, self.decode_step_ms
        if stated != (None, None) and ("simulator" not in engines or self.scheduler.arrivals != "log"):
            raise UsageError(
                "--prefill-tokens-per-s and --decode-step-ms are for --engine simulator --arrivals log."
            )


def replay(
    paths: Sequence[PathLike] | PathLike, options: ReplayOptions | None = None, watcher: Watcher | None = None
) -> ReplayReport:
    """Return what the engines count when the log is replayed through them.

    Raises:
        InputError: the log cannot be read, or lacks what an engine needs.
        EngineError: an engine is missing or failed; finished requests stand beside ``options.per_request``.
        UsageError: the options contradict each other.
    """
    chosen = options or ReplayOptions()
    return take_in(paths, chosen, watcher or Watcher(), lambda intake: _replay(intake, chosen))


def _replay(intake: Intake, options: ReplayOptions) -> ReplayReport:
    engines = [_engine(name, options) for name in options.engines]
    builder = LogBuilder(
        intake.tokenizer,
        keep_tokens=options.outputs == "text" or any(engine.needs.tokens for engine in engines),
        keep_answers=options.outputs == "text",
        keep_bodies=any(engine.needs.bodies for engine in engines),
    )
    for chunk, keyed, dropped in intake.chunks():
        builder.add(chunk, keyed, dropped)
    log = builder.built()
    block_size, rules = intake.settled(builder.counts, len(log))
    order = replay_order(log.arrival_us)
    log = log if order is None else log.take(order)
    log_requests = len(log)
    log = log if options.limit_sessions is None else log.first_sessions(options.limit_sessions)
    capacity = options.memory.capacity_blocks(block_size) if options.memory else options.capacity_blocks
    spec = CacheSpec(
        block_size,
        capacity,
        rules,
        options.outputs,
        free_partial_blocks=options.free_partial_blocks,
        commit=options.commit,
    )
    speed = _speed(log, spec, options)
    results = [_run(engine, log, spec, options, intake, speed) for engine in engines]
    if all(result.refused.all() for result in results):
        raise InputError(
            f"none of the {len(log):,} requests can run: all are larger than the cache or --max-model-len; give more."
        )
    if options.per_request is not None:
        with replacing(options.per_request) as file:
            file.writelines(request_lines(log, results[-1]))
        journal_path(options.per_request).unlink(missing_ok=True)
    context = _Context(options, speed, "log" if order is None else "arrival", log_requests)
    return _report(intake, builder, log, results, context)


@dataclass(frozen=True, slots=True)
class _Context:
    """What the report says of the run besides its results; ``log_requests`` is the log before sessions were chosen."""

    options: ReplayOptions
    speed: Speed | None
    order: str
    log_requests: int


def _engine(name: str, options: ReplayOptions) -> Engine:
    if name == "server" and options.server is not None:
        return options.server
    return VllmEngine(options.model) if name == "vllm" else SimulatorEngine()


def _speed(log: ReplayLog, spec: CacheSpec, options: ReplayOptions) -> Speed | None:
    """Return the step time that drives the simulator's clock, where one is needed."""
    if options.scheduler.arrivals != "log" or "simulator" not in options.engines:
        return None
    if (log.arrival_us == UNKNOWN).any():
        raise InputError(
            "--arrivals log: some requests have no time; replay with --arrivals closed or sequential."
        )
    one_by_one = SchedulerSpec()
    first = SimulatorEngine().replay(log, Run(spec, one_by_one, open_journal(None, {}, resume=False)))
    computed = first.queried_tokens - first.hit_tokens
    return speed_of(log, computed, options.prefill_tokens_per_s, options.decode_step_ms)


def _run(
    engine: Engine,
    log: ReplayLog,
    spec: CacheSpec,
    options: ReplayOptions,
    intake: Intake,
    speed: Speed | None,
) -> ReplayResult:
    simulated = isinstance(engine, SimulatorEngine)
    if isinstance(engine, SimulatorEngine) and speed is not None:
        engine = replace(engine, step_time=speed.step_time())
    watcher = intake.watcher
    if not simulated:
        watcher.phase("replaying", "requests")
        watcher.begin(len(log))
    journal = _journal(engine, log, spec, options, intake, simulated=simulated)
    try:
        return engine.replay(log, Run(spec, options.scheduler, journal, watcher.advance))
    finally:
        journal.close()
        if options.per_request is not None and not journal.finished:
            journal_path(options.per_request).unlink(missing_ok=True)


def _journal(
    engine: Engine,
    log: ReplayLog,
    spec: CacheSpec,
    options: ReplayOptions,
    intake: Intake,
    *,
    simulated: bool,
) -> Journal:
    """Open the journal of an engine that can break off half way."""
    run = {
        "engine": engine.name,
        "inputs": [entry.sha256 for entry in intake.inputs()],
        "requests": len(log),
        "cache": [spec.block_size, spec.capacity_blocks, spec.outputs],
        "scheduler": [options.scheduler.arrivals, options.scheduler.policy],
    }
    return open_journal(None if simulated else options.per_request, run, resume=options.resume)


def _report(
    intake: Intake,
    builder: LogBuilder,
    log: ReplayLog,
    results: list[ReplayResult],
    context: _Context,
) -> ReplayReport:
    speed, scheduler, spec = context.speed, context.options.scheduler, results[0].spec
    has_text = intake.keying.kind == "prompts"
    compared = None
    if len(results) > 1:
        observed = Observed(results[1].hit_tokens, results[1].queried_tokens, results[1].spec.block_size)
        names = (results[0].engine, results[1].engine)
        compared = compare_figures(compare(results[0], observed, log.tokens), names, log.request_id)
    return ReplayReport(
        schema_version=SCHEMA_VERSION,
        kvtools_version=__version__,
        inputs=intake.inputs(),
        settings=Settings(
            tokenizer=intake.tokenizer.name if has_text else "none (block ids given)",
            tokenizer_check=intake.tokenizer_check() if has_text else "not needed",
            chat_template=intake.template.name,
            order=context.order,
            measure_from=0.0,
        ),
        coverage=coverage(builder.counts, intake.log.skipped),
        requests=len(log),
        log_requests=context.log_requests,
        scheduler=Scheduler(
            arrivals=scheduler.arrivals,
            outputs=spec.outputs,
            rules=spec.rules,
            policy=scheduler.policy,
            free_partial_blocks=spec.free_partial_blocks,
            commit=spec.commit,
            max_num_seqs=scheduler.max_num_seqs,
            max_num_batched_tokens=scheduler.max_num_batched_tokens,
            step_time=None if speed is None else speed.describe(),
        ),
        replays=[replay_figures(result, log.arrival_us) for result in results],
        compare=compared,
    )
