"""The hot/cold scheduler in a real vLLM: answers, order, limits and timeouts, beside fcfs and the simulation."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvtools.cache.workload import Workload
from kvtools.model import CacheSpec, SchedulerSpec
from kvtools.plan.schedule import Schedule, schedule
from kvtools.plan.schedule_policies import PolicyLimits, policy_of
from kvtools.plan.schedule_state import KILLED, Clock

BLOCK, BLOCKS, SEATS, BUDGET, COLD_LIMIT = 32, 60, 4, 256, 2
HOT, COLD = 0, 3
CLOCK = Clock(step_us=10_000, token_ns=50_000, context_ns=0, overlap=False)
MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "head_dim": 64,
    "hidden_act": "silu",
    "hidden_size": 64,
    "intermediate_size": 64,
    "max_position_embeddings": 2_048,
    "model_type": "llama",
    "num_attention_heads": 1,
    "num_hidden_layers": 1,
    "num_key_value_heads": 1,
    "rms_norm_eps": 1e-06,
    "tie_word_embeddings": True,
    "vocab_size": 2_048,
}
SYNC, ASYNC = "kvtools.vllm_plugin.HotColdScheduler", "kvtools.vllm_plugin.AsyncHotColdScheduler"


def _request(name: str, at_us: int, priority: int, prompt: list[int], output: int) -> dict[str, Any]:
    return {"id": name, "arrival_us": at_us, "priority": priority, "prompt": prompt, "output": output}


def _burst() -> list[dict[str, Any]]:
    """Return eight long cold requests at once, and twelve short hot ones of two heads, most of them right behind."""
    chance = random.Random(13)

    def text(tokens: int) -> list[int]:
        return [chance.randrange(3, 2_048) for _ in range(tokens)]

    heads = [text(64), text(64)]
    rows = [_request(f"cold-{n}", 10 * n, COLD, text(chance.randint(250, 500)), 40) for n in range(8)]
    for n in range(12):
        at_us = 60_000 + 25_000 * n + chance.randrange(1_000)
        rows.append(_request(f"hot-{n}", at_us, HOT, heads[n % 2] + text(chance.randint(8, 90)), 4 + n % 3))
    return rows


def _mixed() -> list[dict[str, Any]]:
    """Return 60 requests at random times that fill the cache."""
    chance = random.Random(7)
    rows, at_us = [], 0
    head = [chance.randrange(3, 2_048) for _ in range(96)]
    for n in range(60):
        at_us += chance.randint(1_000, 90_000)
        cold = chance.random() < 0.4
        own = [chance.randrange(3, 2_048) for _ in range(chance.randint(200, 600) if cold else 40)]
        rows.append(
            _request(
                f"r-{n}",
                at_us,
                COLD if cold else HOT,
                own if cold else head + own,
                chance.randint(20, 60) if cold else chance.randint(1, 12),
            )
        )
    return rows


def _engine(requests: list[dict[str, Any]], scheduler: str | None, **kvtools: Any) -> dict[str, Any]:
    settings: dict[str, Any] = {"scheduling_policy": "fcfs"}
    if scheduler is not None:
        settings = {
            "scheduling_policy": "priority",
            "scheduler_cls": scheduler,
            "additional_config": {"kvtools": {"cold_limit": COLD_LIMIT} | kvtools},
        }
    clock = {"step_us": CLOCK.step_us, "token_ns": CLOCK.token_ns}
    return {"settings": settings, "clock": clock, "requests": requests}


WAIT_S = 1.0
ENGINES = {
    "fcfs": _engine(_burst(), None),
    "hotcold": _engine(_burst(), SYNC),
    "async class": _engine(_burst(), ASYNC),
    "mixed fcfs": _engine(_mixed(), None),
    "mixed": _engine(_mixed(), SYNC, cold_timeout_s=0),
    "promote": _engine(_burst(), SYNC, cold_limit=1, cold_timeout_s=WAIT_S),
    "abort": _engine(_burst(), SYNC, cold_limit=1, cold_timeout_s=WAIT_S, on_timeout="abort"),
    "by fcfs": _engine([], SYNC) | {"settings": {"scheduling_policy": "fcfs", "scheduler_cls": SYNC}},
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each engine did."""
    folder = tmp_path_factory.mktemp("hotcold")
    (folder / "config.json").write_text(json.dumps(MODEL))
    job, found = folder / "job.json", folder / "found.json"
    settings = {
        "block_size": BLOCK,
        "num_gpu_blocks_override": BLOCKS + 1,
        "max_num_seqs": SEATS,
        "max_num_batched_tokens": BUDGET,
        "max_model_len": 1_024,
    }
    job.write_text(json.dumps({"model": str(folder), "settings": settings, "engines": ENGINES}))
    program = [sys.executable, str(Path(__file__).with_name("hotcold_worker.py")), str(job), str(found)]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    done = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    results: dict[str, Any] = json.loads(found.read_text())
    return results


def _chained(requests: list[dict[str, Any]], tokens: dict[str, list[int]]) -> list[list[int]]:
    known: dict[tuple[int, tuple[int, ...]], int] = {}
    rows = []
    for request in requests:
        whole = request["prompt"] + tokens[request["id"]]
        parent, row = -1, []
        for start in range(0, len(whole) - BLOCK + 1, BLOCK):
            parent = known.setdefault((parent, tuple(whole[start : start + BLOCK])), len(known))
            row.append(parent)
        rows.append(row)
    return rows


def _simulated(name: str, tokens: dict[str, list[int]]) -> tuple[Schedule, list[str]]:
    """Return what ``plan schedule`` says of an engine's requests, and their names; ``tokens`` are their answers."""
    requests = ENGINES[name]["requests"]
    set_to = {"cold_limit": COLD_LIMIT, "cold_timeout_s": 30.0, "on_timeout": "promote"} | ENGINES[name][
        "settings"
    ]["additional_config"]["kvtools"]
    limits = PolicyLimits(
        cold_seqs=set_to["cold_limit"],
        cold_timeout_s=set_to["cold_timeout_s"] or 1e6,
        timeout_ends=set_to["on_timeout"] == "abort",
    )
    rows = _chained(requests, tokens)
    count = len(requests)
    work = Workload(
        prompt_tokens=np.array([len(request["prompt"]) for request in requests], np.int64),
        output_tokens=np.array([request["output"] for request in requests], np.int64),
        block_ids=np.concatenate(rows).astype(np.int64),
        offsets=np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64),
        arrival_us=np.array([request["arrival_us"] for request in requests], np.int64),
        priority=np.zeros(count, np.int64),
        skip_lookup=np.zeros(count, np.bool_),
    )
    hot = np.array([request["priority"] == HOT for request in requests])
    scheduler = SchedulerSpec(arrivals="log", max_num_seqs=SEATS, max_num_batched_tokens=BUDGET)
    policy = policy_of("hotcold", limits, SEATS)
    done = schedule(work, hot, CacheSpec(BLOCK, BLOCKS), scheduler, CLOCK, policy, limits)
    return done, [request["id"] for request in requests]


def _by_simulation(
    name: str, tokens: dict[str, list[int]]
) -> tuple[list[str], dict[str, int], dict[str, int]]:
    """Return the simulated finish order, when each request ended in µs, and how often it was preempted."""
    done, names = _simulated(name, tokens)
    order = [names[place] for place in done.finish_order]
    ended = {one: int(done.end_us[place]) for place, one in enumerate(names)}
    preempted = {one: int(n) for one, n in zip(names, done.interruptions, strict=True) if n}
    return order, ended, preempted


@pytest.mark.parametrize(
    ("name", "beside"),
    [("hotcold", "fcfs"), ("async class", "fcfs"), ("promote", "fcfs"), ("mixed", "mixed fcfs")],
)
def test_answers_are_those_of_fcfs(ran: dict[str, Any], name: str, beside: str) -> None:
    assert ran[name]["tokens"] == ran[beside]["tokens"]
    assert len(ran[name]["tokens"]) == len(ENGINES[name]["requests"])
    assert {reason for reason, _ in ran[name]["reasons"].values()} == {"length"}
    assert ran[name]["left"] == 0


@pytest.mark.parametrize("name", ["hotcold", "async class"])
def test_hot_requests_finish_first_under_a_burst_of_cold_ones(ran: dict[str, Any], name: str) -> None:
    """Only cold requests that had a seat before the hot ones came may be among the first fourteen."""
    first = ran[name]["finish_order"][: 12 + COLD_LIMIT]
    assert sum(one.startswith("hot") for one in first) == 12
    by_fcfs = ran["fcfs"]["finish_order"][: 12 + COLD_LIMIT]
    assert sum(one.startswith("cold") for one in by_fcfs) > COLD_LIMIT


@pytest.mark.parametrize(
    ("name", "limit"), [("hotcold", 2), ("async class", 2), ("mixed", 2), ("promote", 1), ("abort", 1)]
)
def test_running_cold_requests_never_exceed_the_limit(ran: dict[str, Any], name: str, limit: int) -> None:
    counted = ran[name]["cold_by_step"]
    assert max(counted) == limit
    assert len(counted) > 50
    assert max(ran[name]["hot_by_step"]) > 0
    # Without the limit, the cold ones of the same requests take every seat.
    plain = ran["mixed fcfs" if name == "mixed" else "fcfs"]["cold_by_step"]
    assert max(plain) == SEATS


def test_cold_requests_are_preempted_for_hot_ones_and_no_hot_one_is(ran: dict[str, Any]) -> None:
    cold = {request["id"] for request in _mixed() if request["priority"] == COLD}
    assert ran["mixed"]["preempted"]
    assert set(ran["mixed"]["preempted"]) <= cold


@pytest.mark.parametrize("name", ["hotcold", "async class", "mixed", "promote"])
def test_the_simulated_order_and_times_are_the_real_ones(ran: dict[str, Any], name: str) -> None:
    order, ended, preempted = _by_simulation(name, ran[name]["tokens"])
    assert order == ran[name]["finish_order"]
    assert ended == ran[name]["ended_us"]
    assert preempted == {one: ran[name]["preempted"].count(one) for one in ran[name]["preempted"]}


def test_cold_requests_that_waited_too_long_are_promoted(ran: dict[str, Any]) -> None:
    done, names = _simulated("promote", ran["promote"]["tokens"])
    promoted = {one for one, _, _ in ran["promote"]["promoted"]}
    assert promoted == {names[place] for place in np.flatnonzero(done.promoted)}
    assert len(promoted) >= 2
    arrived = {request["id"]: request["arrival_us"] for request in _burst()}
    longest_step_us = CLOCK.step_us + BUDGET * CLOCK.token_ns // 1000
    for one, priority, at_us in ran["promote"]["promoted"]:
        assert priority == HOT
        assert 0 <= at_us - arrived[one] - 1e6 * WAIT_S <= longest_step_us


def test_cold_requests_that_waited_too_long_are_aborted_and_their_clients_told(ran: dict[str, Any]) -> None:
    found = ran["abort"]
    aborted = {one for one, (reason, _) in found["reasons"].items() if reason == "abort"}
    # An aborted request has no answer; the simulation only asks for the blocks of its prompt.
    done, names = _simulated("abort", ran["fcfs"]["tokens"])
    assert aborted == {names[place] for place in np.flatnonzero(done.outcome == KILLED)}
    assert len(aborted) >= 2
    assert all(one.startswith("cold") and found["tokens"][one] == [] for one in aborted)
    assert {found["reasons"][one][1] for one in aborted} == {"cold request waited too long"}
    whole = [one for one in found["finish_order"] if one not in aborted]
    assert whole == [names[place] for place in done.finish_order if names[place] not in aborted]
    assert {one: found["tokens"][one] for one in whole} == {one: ran["fcfs"]["tokens"][one] for one in whole}
    assert (len(found["finish_order"]), found["left"]) == (20, 0)


def test_what_cannot_work_is_refused_with_one_sentence(ran: dict[str, Any]) -> None:
    assert ran["by fcfs"]["refused"] == (
        "UsageError: the hot/cold scheduler parts requests by priority: add --scheduling-policy priority."
    )
    assert ran["another version"]["refused"] == (
        "EngineError: vLLM 0.33.0: the hot/cold scheduler is tested with 0.32.0 only; install that, or start vLLM "
        "without --scheduler-cls."
    )


def test_the_names_that_vllm_is_given_are_the_classes_that_run(ran: dict[str, Any]) -> None:
    assert ran["fcfs"]["class"][0] == "Scheduler"
    assert ran["hotcold"]["class"][0] == "HotColdScheduler"
    assert ran["async class"]["class"] == ["AsyncHotColdScheduler", "HotColdScheduler", "AsyncScheduler"]
