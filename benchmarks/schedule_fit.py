"""docs/plan-schedule.md: a clock fitted to a real vLLM run, its error on the other half, and the noise beside it.

    make fit-schedule      (benchmarks/schedule_run.py records the runs before)

Each run is the same traffic. The clock is fitted to the first half of one and predicts its second half; how far the
second halves of the runs are apart shows what no clock could predict.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
from schedule_docs import PAGE, between
from schedule_run import BLOCK_SIZE, BLOCKS, BUDGET, SEATS

from kvtools.flow.intake import Intake, Watcher, take_in
from kvtools.flow.plan_schedule_clock import ClockOptions, step_model
from kvtools.flow.plan_schedule_log import schedule_log
from kvtools.flow.plan_schedule_options import ScheduleOptions
from kvtools.model import CacheSpec, SchedulerSpec
from kvtools.plan.schedule import schedule
from kvtools.plan.schedule_clock import StepModel, describe
from kvtools.plan.schedule_policies import PolicyLimits, policy_of

PLOT = PAGE.with_name("plan-schedule-fit.svg")
ENGINE = SchedulerSpec(arrivals="log", max_num_seqs=SEATS, max_num_batched_tokens=BUDGET)
CACHE = CacheSpec(BLOCK_SIZE, BLOCKS, outputs="lengths")
PERCENTS = np.arange(1, 100)
WIDTH, HEIGHT, LEFT, BOTTOM = 660, 360, 80, 40


@dataclass(frozen=True)
class Judged:
    """A run: its clock, logged and simulated TTFT of the second half in ms, and requests whose hits are equal."""

    model: StepModel
    logged_ms: np.ndarray
    simulated_ms: np.ndarray
    equal_hits: int
    requests: int


def judged(path: str) -> Judged:
    """Fit a clock to the first half of a run, and simulate all of it by that clock."""

    def of(intake: Intake) -> Judged:
        log = schedule_log(intake, None, BLOCK_SIZE)
        model = step_model(log, CACHE, ClockOptions(), ENGINE)
        limits = PolicyLimits()
        policy = policy_of("fcfs", limits, SEATS)
        done = schedule(log.work, log.hot, CACHE, ENGINE, model.clock, policy, limits)
        late = np.arange(len(log.hot)) >= len(log.hot) // 2
        return Judged(
            model=model,
            logged_ms=log.logged.ttft_us[late] / 1000,
            simulated_ms=(done.first_us - done.arrival_us)[late] / 1000,
            equal_hits=int((done.hit_tokens == log.logged.cached_tokens).sum()),
            requests=len(log.hot),
        )

    return take_in(path, ScheduleOptions(block_size=BLOCK_SIZE), Watcher(), of)


def spread(runs: list[Judged], percent: float) -> str:
    """Return the least and the most of a percentile among the runs, and the width as a share of their median."""
    values = [float(np.percentile(run.logged_ms, percent)) for run in runs]
    width = (max(values) - min(values)) / float(np.median(values))
    return f"{min(values):,.0f} … {max(values):,.0f} ms ({100 * width:.0f} %)"


def within(model: StepModel) -> bool:
    """Tell whether the clock predicts TTFT as well as it is meant to: P50 within 15 %, P99 within 30 %."""
    error = model.error
    assert error is not None
    return abs(error.ttft_p50 or 0) <= 0.15 and abs(error.ttft_p99 or 0) <= 0.3


def table(runs: list[Judged]) -> str:
    """Return the figures as Markdown."""
    rows = [
        "| run | clock found | P50 TTFT, logged → simulated | P99 TTFT | P50, P99 latency | equal hits |",
        "|---|---|---|---|---|---|",
    ]
    for number, run in enumerate(runs, 1):
        error = run.model.error
        assert error is not None
        cells = [
            f"{np.percentile(run.logged_ms, at):,.0f} → {np.percentile(run.simulated_ms, at):,.0f} ms "
            f"({100 * (off or 0):+.0f} %)"
            for at, off in ((50, error.ttft_p50), (99, error.ttft_p99))
        ]
        latency = f"{100 * (error.latency_p50 or 0):+.0f} %, {100 * (error.latency_p99 or 0):+.0f} %"
        clock = describe(run.model).rpartition(" (")[0]
        rows.append(
            f"| {number} | {clock} | {cells[0]} | {cells[1]} | {latency} | {run.equal_hits:,} of {run.requests:,} |"
        )
    noise = (
        f"Noise: the second halves of the runs, logged, have a P50 of {spread(runs, 50)} "
        f"and a P99 of {spread(runs, 99)}."
    )
    met = [str(number) for number, run in enumerate(runs, 1) if within(run.model)]
    goal = f"Within 15 % at P50 and 30 % at P99 of TTFT, by number of run: {', '.join(met) or 'none'}."
    picture = f"![TTFT of the second half, logged and simulated, by percentile]({PLOT.name})"
    return "\n".join([*rows, "", goal, noise, "", picture])


def curve(values_ms: np.ndarray, low: float, high: float, style: str) -> str:
    """Return the percentiles of ``values_ms`` as a line of the plot, whose height is the logarithm."""
    share = (np.log(np.percentile(values_ms, PERCENTS)) - np.log(low)) / (np.log(high) - np.log(low))
    across = LEFT + PERCENTS / 100 * (WIDTH - LEFT - 20)
    up = HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - 20)
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(across, up, strict=True))
    return f'<polyline points="{points}" fill="none" {style}/>'


def plot(runs: list[Judged]) -> str:
    """Return the percentiles of TTFT, logged and simulated, as SVG."""
    everything = np.concatenate([np.concatenate((run.logged_ms, run.simulated_ms)) for run in runs])
    low, high = 10 ** np.floor(np.log10(everything.min())), 10 ** np.ceil(np.log10(everything.max()))
    body = [f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']
    decades = round(np.log10(high / low))
    for decade in range(decades + 1):
        y = HEIGHT - BOTTOM - decade / decades * (HEIGHT - BOTTOM - 20)
        body.append(f'<line x1="{LEFT}" x2="{WIDTH - 20}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        body.append(
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{low * 10**decade:,.0f} ms</text>'
        )
    for percent in (0, 25, 50, 75, 99):
        x = LEFT + percent / 100 * (WIDTH - LEFT - 20)
        body.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">P{percent}</text>')
    grey, red = 'stroke="#888" stroke-width="1.5"', 'stroke="#c33" stroke-width="1.5" stroke-dasharray="5 3"'
    body += [curve(run.logged_ms, low, high, grey) for run in runs]
    body += [curve(run.simulated_ms, low, high, red) for run in runs]
    body.append(f'<text x="{LEFT + 10}" y="34" fill="#555">grey: vLLM, each run</text>')
    body.append(
        f'<text x="{LEFT + 10}" y="52" fill="#c33">red, dashed: simulated, clock of that run\'s first half</text>'
    )
    size = f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
    font = 'font-family="sans-serif" font-size="13"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font}>\n' + "\n".join(body) + "\n</svg>\n"


def main() -> None:
    runs = [judged(path) for path in sys.argv[1:]]
    PLOT.write_text(plot(runs))
    PAGE.write_text(between(PAGE.read_text(), "fit", table(runs)))


if __name__ == "__main__":
    main()
