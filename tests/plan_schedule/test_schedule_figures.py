"""Clock, mixes, turning points, search and verdict, each against figures worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scheduled import CLOCK, mixed

from kvtools.errors import UsageError
from kvtools.model import CacheSpec, SchedulerSpec
from kvtools.plan.schedule import schedule
from kvtools.plan.schedule_clock import linear, roofline
from kvtools.plan.schedule_figures import ClassFigures, Percentiles, Usage, figures_of
from kvtools.plan.schedule_mix import mix, rows_of_mix
from kvtools.plan.schedule_policies import PolicyLimits, policy_of
from kvtools.plan.schedule_search import score, search
from kvtools.plan.schedule_state import Clock
from kvtools.plan.schedule_sweep import Point, lines
from kvtools.plan.schedule_verdict import verdict_of

LIMITS_MS = {"hot": (80.0, 200.0), "cold": (150.0, 500.0)}


def figures(policy: str, name: str, p99: float, **other: object) -> ClassFigures:
    """Return a class whose TTFT is ``p99`` ms at every percentile."""
    times = Percentiles(p99, p99, p99)
    base = ClassFigures(policy, name, 100, 100, times, times, 1000.0, 10.0, 0.5, 0, 0, 0, 0, 0, 0)
    return replace(base, **other)


def test_a_roofline_is_bytes_over_bandwidth_and_flops_over_peak() -> None:
    clock = roofline("l4", 1, 15_000_000_000, 131_072).clock
    # L4: 300 GB/s and 121 TFLOP/s. 15 GB are 50 ms; 7.5 G parameters, 2 FLOP each; 131,072 bytes.
    assert clock == Clock(50_000, round(15e9 / 121e12 * 1e9), round(131_072 / 300), overlap=True)
    assert roofline("L4", 2, 15_000_000_000, 0).clock.step_us == 25_000
    with pytest.raises(UsageError, match="not in the table"):
        roofline("abacus", 1, 1, 1)


def test_a_stated_clock() -> None:
    assert linear(20_000, 15, "as stated").clock == Clock(15_000, 50_000, 0, overlap=False)
    with pytest.raises(UsageError):
        linear(0, 15, "as stated")


def test_a_mix_leaves_requests_of_one_class_out_and_comes_as_often() -> None:
    hot = np.repeat([True, False], [300, 100])
    alone = np.zeros(400, dtype=np.uint64)
    for share, cold in ((0.25, 100), (0.5, 100), (0.1, 33), (0.0, 0), (1.0, 100)):
        rows = rows_of_mix(hot, alone, share, 0)
        assert rows is not None
        assert int((~hot[rows]).sum()) == cold
        assert len(rows) == {0.25: 400, 0.5: 200, 0.1: 333, 0.0: 300, 1.0: 100}[share]
        assert (np.diff(rows) > 0).all()
    assert rows_of_mix(hot[:60], alone[:60], 0.5, 0) is None  # there is no cold one among them


def test_a_mix_keeps_sessions_together() -> None:
    hot = np.repeat([True, False], [400, 100])
    session = np.arange(500, dtype=np.uint64) // 4 + 1
    rows = rows_of_mix(hot, session, 0.5, 1)
    assert rows is not None
    names, sizes = np.unique(session[rows[hot[rows]]], return_counts=True)
    assert (len(names), set(sizes.tolist())) == (25, {4})


def test_a_mix_runs_faster_by_what_was_left_out() -> None:
    work, _ = mixed(1)
    rows = np.arange(0, 60, 2)
    half = mix(work, rows)
    assert half.arrival_us[0] == work.arrival_us[0]
    assert np.ptp(half.arrival_us) == pytest.approx(np.ptp(work.arrival_us[rows]) / 2, abs=1)
    assert (half.prompt_tokens == work.prompt_tokens[rows]).all()


def test_figures_of_a_run() -> None:
    work, hot = mixed(7)
    limits = PolicyLimits()
    done = schedule(
        work,
        hot,
        CacheSpec(4, 40),
        SchedulerSpec(max_num_seqs=3),
        CLOCK,
        policy_of("fcfs", limits, 3),
        limits,
    )
    rows = {one.name: one for one in figures_of(done, hot, 40)}
    assert rows["hot"].requests + rows["cold"].requests == rows["all"].requests == 60
    times = sorted((done.first_us - done.arrival_us)[hot & ~done.too_large].tolist())
    # The 99th percentile is one of the times, the next above where it falls between two.
    assert rows["hot"].ttft_ms.p99 == times[-1] / 1000
    assert rows["hot"].ttft_ms.p50 == times[-(-(len(times) - 1) // 2)] / 1000
    span_s = (done.end_us.max() - done.arrival_us.min()) / 1e6
    assert rows["all"].throughput_tokens_s == pytest.approx(
        (work.prompt_tokens + work.output_tokens)[~done.too_large].sum() / span_s
    )
    assert rows["all"].usage is not None
    assert rows["hot"].usage is None


def test_lines_of_a_sweep() -> None:
    usages, p99s = (0.4, 0.7, 0.9), (50.0, 150.0, 900.0)
    points = [
        Point(
            share,
            "fcfs",
            100,
            1000.0,
            share > 0.2,
            [
                figures("fcfs", "hot", p99),
                figures("fcfs", "all", p99, usage=Usage(0, 0, usage, 1), interrupted=5 if usage > 0.8 else 0),
            ],
        )
        for share, usage, p99 in zip((0.1, 0.2, 0.3), usages, p99s, strict=True)
    ]
    found = lines(points, (80.0, 200.0))
    assert found.throughput_cold_share == 0.3
    assert found.latency_ms == 150.0  # at the last share that it kept up with
    assert found.memory_usage == 0.7  # the last before more than 1 % were interrupted
    assert found.limit_cold_share == 0.2  # 150 ms is above the P50 limit
    calm = lines(points[:1], (80.0, 200.0))
    assert (calm.throughput_cold_share, calm.memory_usage, calm.latency_ms, calm.limit_cold_share) == (
        None,
    ) * 4


def test_a_gain_is_named_with_its_price() -> None:
    found = {
        "fcfs": [figures("fcfs", "hot", 900), figures("fcfs", "cold", 1000), figures("fcfs", "all", 950)],
        "hotcold": [
            figures("hotcold", "hot", 90),
            figures("hotcold", "cold", 4000),
            figures("hotcold", "all", 500),
        ],
        "breaker": [figures("breaker", "hot", 10), figures("breaker", "all", 10, refused=50)],
    }
    verdict = verdict_of(found, LIMITS_MS)
    # The breaker's hot requests are faster still, but it sent half of the requests away.
    assert (verdict.helps, verdict.policy) == (True, "hotcold")
    assert "from 900 ms to 90 ms" in verdict.sentence
    assert "from 1,000 ms" not in verdict.sentence
    assert "from 1.0 s to 4.0 s" in verdict.sentence


def test_no_gain_is_bought_with_a_limit_that_was_kept() -> None:
    found = {
        "fcfs": [figures("fcfs", "hot", 70), figures("fcfs", "cold", 90), figures("fcfs", "all", 80)],
        "dynamic": [
            figures("dynamic", "hot", 50),
            figures("dynamic", "cold", 600),
            figures("dynamic", "all", 80),
        ],
    }
    assert verdict_of(found, LIMITS_MS).sentence.startswith("no gain: hot P99 TTFT is 70 ms")
    found["dynamic"][1] = figures("dynamic", "cold", 140)
    assert verdict_of(found, LIMITS_MS).policy == "dynamic"


def test_no_gain_is_said_with_its_reason() -> None:
    def both(hot: float, cold_requests: int = 100) -> dict[str, list[ClassFigures]]:
        cold = figures("fcfs", "cold", 100, requests=cold_requests)
        rows = [figures("fcfs", "hot", hot), cold, figures("fcfs", "all", 100, requests=1000)]
        return {"fcfs": rows, "hotcold": [replace(one, policy="hotcold") for one in rows]}

    few = verdict_of(both(900, cold_requests=20), LIMITS_MS)
    assert few.sentence.startswith("no gain: your cold share is 2.0 %")
    assert not few.helps
    assert "keeps its limit of 200 ms" in verdict_of(both(100), LIMITS_MS).sentence
    assert "are not what makes hot ones wait" in verdict_of(both(900), LIMITS_MS).sentence
    alone = {"fcfs": [figures("fcfs", "hot", 900), figures("fcfs", "all", 900)]}
    assert "every request is hot" in verdict_of(alone, LIMITS_MS).sentence


def test_a_score_weighs_limits_first_and_losses_most() -> None:
    kept = [figures("x", "hot", 60), figures("x", "cold", 100), figures("x", "all", 100)]
    slower = [*kept[:2], figures("x", "all", 200)]
    over = [figures("x", "hot", 240), *kept[1:]]
    lost = [*kept[:2], figures("x", "all", 100, killed=50)]
    # 240 ms are 2 times over the P50 limit of 80 and 0.2 times over the P99 limit of 200.
    assert score(over, LIMITS_MS) == pytest.approx(2.2)
    assert score(lost, LIMITS_MS) == pytest.approx(5.0)
    assert score(kept, LIMITS_MS) < score(slower, LIMITS_MS) < 0


def test_the_search_finds_what_is_best_and_repeats_itself() -> None:
    def judge(limits: PolicyLimits) -> float:
        return abs(limits.hot_reserve - 0.4)

    best = search("partitioned", PolicyLimits(), 64, judge, 40, seed=1)
    assert best.score < 0.03
    assert best == search("partitioned", PolicyLimits(), 64, judge, 40, seed=1)
    assert best.limits.cold_seqs is None  # not a limit of this policy
    assert search("partitioned", PolicyLimits(hot_reserve=0.4), 64, judge, 3, seed=1).score == 0
