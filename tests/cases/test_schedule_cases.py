"""Cases of group E through ``plan schedule``: 084, 088, 090 and 092. 089 is about warm-up sets, 091 about routing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from shared_case import Case

from kvtools.flow.intake import Watcher, take_in
from kvtools.flow.plan_schedule import plan_schedule
from kvtools.flow.plan_schedule_clock import ClockOptions
from kvtools.flow.plan_schedule_log import schedule_log
from kvtools.flow.plan_schedule_options import ScheduleOptions


@pytest.fixture
def cases(shared: Path) -> Path:
    return shared / "cases"


def test_084_a_fifth_request_waits_instead_of_being_admitted_again_and_again(
    cases: Path, tmp_path: Path
) -> None:
    """Four requests of 7 blocks fit into 30; vLLM reserves a whole prompt, and so nothing is preempted."""
    case = Case.load(cases, "084")
    log = tmp_path / "log.jsonl"
    lines = [
        {
            "id": one["id"],
            "ts": 1000 + one["ts"],
            "prompt_token_ids": list(range(1000 * place, 1000 * place + one["prompt_tokens"])),
            "output_tokens": one["completion_tokens"],
        }
        for place, one in enumerate(case.requests)
    ]
    log.write_text("\n".join(map(json.dumps, lines)))
    # A step takes 3 s: the first request, alone at 0 s, has its 4 tokens at 12 s. The others come at 1, 2, 3 and 4 s;
    # three begin with the step at 3 s, the fifth when the first is gone, and has its first token at 15 s.
    clock = ClockOptions(prefill_tokens_per_s=1e9, decode_step_ms=3000)
    options = ScheduleOptions(capacity_blocks=case.expected["capacity"], clock=clock, policies=("fcfs",))
    (whole,) = (one for one in plan_schedule(log, options).schedule if one.name == "all")
    assert (whole.finished, whole.interrupted) == (5, 0)
    assert whole.ttft_ms.p99 == 15_000 - 4_000
    assert whole.kv_usage is not None
    assert whole.kv_usage.max == 28 / case.expected["capacity"]


@pytest.mark.parametrize("blocks", [24, 30])
def test_088_two_prompts_in_turn_hit_what_the_exact_cache_says(
    cases: Path, tmp_path: Path, blocks: int
) -> None:
    case = Case.load(cases, "088")
    clock = ClockOptions(prefill_tokens_per_s=1e9, decode_step_ms=1)
    options = ScheduleOptions(capacity_blocks=blocks, clock=clock, policies=("fcfs", "hotcold"))
    report = plan_schedule(case.token_log(tmp_path / "log.jsonl"), options)
    rates = [one.hit_rate for one in report.schedule if one.name == "all"]
    prompts = sum(map(len, case.prompts()))
    assert rates == [sum(case.expected[f"hits_{blocks}"]) / prompts] * 2


@pytest.mark.parametrize("place", range(5))
def test_090_what_is_left_of_a_set_that_is_too_large_is_hit_under_every_policy(
    cases: Path, tmp_path: Path, place: int
) -> None:
    case = Case.load(cases, "090")
    follower = {"id": "next", "ts": 9, "segments": [*case.requests[place]["segments"], ["next", 1]]}
    asked = Case(case.config, [*case.requests, follower], {})
    clock = ClockOptions(prefill_tokens_per_s=1e9, decode_step_ms=1)
    options = ScheduleOptions(
        capacity_blocks=case.config["num_blocks"], clock=clock, policies=("fcfs", "priority", "hotcold")
    )
    report = plan_schedule(asked.token_log(tmp_path / "log.jsonl"), options)
    tokens = sum(map(len, asked.prompts()))
    rates = {one.policy: one.hit_rate for one in report.schedule if one.name == "all"}
    assert rates == dict.fromkeys(options.policies, case.expected["hits"][place] / tokens)


def test_092_a_mix_tells_sessions_by_equality_of_their_ids(cases: Path, tmp_path: Path) -> None:
    case = Case.load(cases, "092")
    timed = [{**request, "ts": at} for at, request in enumerate(case.requests)]
    path = Case(case.config, timed, {}).token_log(tmp_path / "log.jsonl")
    log = take_in(path, ScheduleOptions(), Watcher(), lambda intake: schedule_log(intake, None, 16))
    first, second, third = log.logged.session.tolist()
    assert first == third != second  # a and c are session-1, b is session-12
