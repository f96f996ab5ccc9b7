"""``warmup``: the prefixes to compute before the traffic comes, judged on traffic that they were not chosen from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kvtools.errors import InputError, UsageError
from kvtools.flow.intake import Intake, IntakeOptions, PathLike, Watcher, take_in
from kvtools.flow.warmup_ahead import LONGEST_S, Bursts, ahead_of
from kvtools.flow.warmup_lines import Unwritten, Written, batch_lines, write_lines
from kvtools.flow.warmup_log import Gathering, WarmupLog
from kvtools.flow.warmup_report import Made, report_of
from kvtools.model import CacheSpec
from kvtools.report.files import replacing
from kvtools.warmup.judge import Judged, judge
from kvtools.warmup.rehearsal import made_by, rehearse
from kvtools.warmup.replaying import as_sent, computed_tokens, most_frequent, replayed, sending_order
from kvtools.warmup.sizing import Budget
from kvtools.warmup.tree import tree_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kvtools.flow.sizing import CacheMemory
    from kvtools.report.warmup import WarmupReport
    from kvtools.warmup.choose import Chosen
    from kvtools.warmup.lines import Write
    from kvtools.warmup.replaying import Sent

DEFAULT_QUERIES = 100
"""As many as the article on hit rates sends."""

DEFAULT_HORIZON_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmupOptions(IntakeOptions):
    """What ``warmup`` can be told besides how to read.

    ``target`` receives the lines. ``budget_queries`` requests, ``budget_tokens`` tokens to compute and
    ``budget_blocks`` blocks bound the set; the cache always does. ``horizon_s``: how far ahead a saving counts.
    ``holdout``: the share of the log (0..1) that the set is judged on and not built from; 0 judges it on what it was
    built from. ``ahead_s``: say what to send so long before the next burst of cold requests, in windows of that length.
    ``time_of_day``: try a way that weights blocks by the time of day to come.
    """

    target: Path | None = None
    write: Write = "batch"
    budget_queries: int | None = None
    budget_tokens: int | None = None
    budget_blocks: int | None = None
    capacity_blocks: int | None = None
    memory: CacheMemory | None = None
    horizon_s: float = DEFAULT_HORIZON_S
    holdout: float = 0.3
    ahead_s: float | None = None
    time_of_day: bool = False

    def __post_init__(self) -> None:
        for name in ("budget_queries", "budget_tokens", "budget_blocks"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                option = "--" + name.replace("_", "-")
                raise UsageError(f"{option} {getattr(self, name)} allows nothing to be sent: give 1 or more.")
        if not 0 <= self.holdout < 1:
            raise UsageError(f"--holdout {self.holdout:g}: a share of the log, from 0 to below 1.")
        if not 0 < self.horizon_s < float("inf"):
            raise UsageError(f"--horizon {self.horizon_s:g} s: longer than 0.")
        if self.ahead_s is not None and not 1 <= self.ahead_s <= LONGEST_S:
            raise UsageError(f"--ahead {self.ahead_s:g} s: from 1s to {LONGEST_S / 60:.0f}m.")
        CacheSpec(1 if self.block_size is None else self.block_size, self.capacity_blocks)


def warmup(
    paths: Sequence[PathLike] | PathLike, options: WarmupOptions | None = None, watcher: Watcher | None = None
) -> WarmupReport:
    """Return the warm-up set of a log and how it did; the lines are in ``options.target``.

    Raises:
        InputError: the log cannot be read, or is too short to judge by.
        UsageError: the options contradict each other.
    """
    chosen = options or WarmupOptions()
    return take_in(paths, chosen, watcher or Watcher(), lambda intake: _warmup(intake, chosen))


def _warmup(intake: Intake, options: WarmupOptions) -> WarmupReport:
    gathered = Gathering(bursts=None if options.ahead_s is None else Bursts())
    prompts = gathered.read(intake)
    block_size, rules = intake.settled(gathered.counts, prompts)
    capacity = options.memory.capacity_blocks(block_size) if options.memory else options.capacity_blocks
    spec = CacheSpec(block_size, capacity, rules)
    log = gathered.log(spec)
    if options.time_of_day:
        log = log.with_clock()
    stop = _stop(len(log), options.holdout)
    _refuse_ids(intake, options)
    maker = _Maker(intake, log, options, spec, stop)
    made = maker.made()
    ahead = None
    if gathered.bursts is not None and options.ahead_s is not None:
        ahead = ahead_of(gathered.bursts, log, made.lines, stop, options.ahead_s, spec)
    if options.target is not None:
        with replacing(options.target) as file:
            chosen = {item.id for item in ahead.items} if ahead else ()
            file.writelines(batch_lines(made.lines, block_size, chosen))
    return replace(report_of(intake, gathered, log, options, made), ahead=ahead)


def _stop(requests: int, holdout: float) -> int:
    if holdout == 0:
        return requests
    stop = requests - max(1, round(requests * holdout))
    if stop < 1:
        raise InputError(
            f"{requests:,} requests are too few to build a set from some and judge it by others; "
            "build it from all with --no-holdout."
        )
    return stop


def _refuse_ids(intake: Intake, options: WarmupOptions) -> None:
    if options.target is not None and intake.keying.kind == "ids":
        raise InputError(
            "the log holds block ids, no prompts: there is nothing to send; leave out -o to see what a set would save."
        )


@dataclass(slots=True)
class _Maker:
    """Makes and judges the set of one log."""

    intake: Intake
    log: WarmupLog
    options: WarmupOptions
    spec: CacheSpec
    stop: int

    def made(self) -> Made:
        """Return the set of the way that saved most at restarts rehearsed within the first part, and how it did."""
        history, capacity = self.log.history, self.spec.capacity_blocks
        budget, horizon = self._budget(), self._horizon()
        rehearsal = rehearse(history, self.stop, horizon, budget, self.spec)
        way = rehearsal.best
        found = made_by(way or rehearsal.ways[0], tree_of(history, self.stop), horizon, budget, capacity)
        lines, failed = self._lines(found.ordered if way else ())
        naive = most_frequent(history, self.stop, budget.queries, capacity)
        judged = self._judge([line.sent for line in lines], naive)
        greedy = judged
        if way is None or way.by == "frequency":
            computed = sending_order(found.plan.choice.prefixes)
            greedy = self._judge(as_sent(history, computed, self.spec.block_size), naive)
        return Made(
            way.by if way else "nothing", rehearsal, found.plan, self.stop, self.spec, lines, failed, judged,
            greedy.saved(greedy.warm),
        )  # fmt: skip

    def _judge(self, sent: Sequence[Sent], naive: list[int]) -> Judged:
        begin = self.stop if self.stop < len(self.log) else 0
        return judge(self.log.history, (begin, len(self.log)), sent, naive, self.spec)

    def _budget(self) -> Budget:
        options = self.options
        queries = options.budget_queries
        if queries is None:
            free = options.budget_tokens is None and options.budget_blocks is None
            queries = DEFAULT_QUERIES if free else self.stop
        limits = [options.budget_blocks]
        if options.budget_tokens is not None:
            limits.append(options.budget_tokens // self.spec.block_size)
        return Budget(queries, min((limit for limit in limits if limit is not None), default=None))

    def _horizon(self) -> int:
        """Return the horizon in requests: without a clock, and where it reaches further, the later part."""
        later = len(self.log) - self.stop or self.stop
        within = self.log.requests_within(self.options.horizon_s, self.stop)
        return later if within is None else min(within, later)

    def _lines(self, ordered: Sequence[Chosen]) -> tuple[list[Written], list[Unwritten]]:
        """Return the lines of prefixes in their order, the last as many as fit with all that lines add to prefixes."""
        if self.intake.keying.kind == "ids":
            sent = as_sent(self.log.history, ordered, self.spec.block_size)
            return [
                Written(prefix, one, "blocks", 0, self.log.namespaces[prefix.request])
                for prefix, one in zip(ordered, sent, strict=True)
            ], []
        lines, failed = write_lines(self.intake, self.log, ordered, self.stop, self.options.write)
        low, high = 0, len(lines)
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self._fits(lines[middle:]) else (middle + 1, high)
        failed += [
            Unwritten(line.prefix, line.namespace, "its line does not fit the budget or the cache")
            for line in lines[:low]
        ]
        return lines[low:], failed

    def _fits(self, lines: Sequence[Written]) -> bool:
        sent = [line.sent for line in lines]
        blocks = len({block for one in sent for block in one.blocks.tolist()})
        options, capacity = self.options, self.spec.capacity_blocks
        # A request that ends inside a block holds one more while it runs.
        held = blocks + any(one.tokens % self.spec.block_size for one in sent)
        if capacity is not None and held > capacity:
            return False
        if options.budget_tokens is None or not sent:
            return True
        hits, _ = replayed(self.log.history, (0, 0), sent, self.spec)
        return computed_tokens(sent, hits) <= options.budget_tokens
