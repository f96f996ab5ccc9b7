"""Public bug reports as small cases: what kvtools answers is the right answer written there."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from shared_case import Case

from kvtools.cache.demand import overloads
from kvtools.flow import AnalyzeOptions, ReplayOptions, analyze, replay


@pytest.fixture(scope="module")
def cases(shared: Path) -> Path:
    return shared / "cases"


def test_016_a_shared_prefix_below_one_block(cases: Path) -> None:
    case = Case.load(cases, "016")
    assert case.hits(block_size=784) == case.expected["hits_bs784"] == [0, 0, 0]
    assert case.hits(block_size=16) == case.expected["hits_bs16"] == [0, 240, 240]


def test_022_a_salt_per_request(cases: Path) -> None:
    case = Case.load(cases, "022")
    assert case.hits() == case.expected["hits"] == [0, 0, 0, 96]


def test_023_prompt_logprobs_fill_the_cache_without_reading_it(cases: Path, tmp_path: Path) -> None:
    case = Case.load(cases, "023")
    assert case.hits() == case.expected["hits"] == [0, 0, 96]
    report = analyze(case.token_log(tmp_path / "log.jsonl"))
    assert report.cache.queried_tokens == case.expected["queries"] == 200
    assert report.cache.hit_tokens == case.expected["counted_hits"] == 96


def test_050_tokens_not_blocks(cases: Path) -> None:
    case = Case.load(cases, "050")
    assert case.hits() == case.expected["hits"] == [0, 32, 32]
    assert round(sum(case.hits()) / sum(map(len, case.prompts())), 4) == case.expected["token_rate"]


def test_052_the_tail_goes_first(cases: Path) -> None:
    case = Case.load(cases, "052")
    assert case.hits(blocks=case.config["num_blocks"]) == case.expected["hits"] == [0, 0, 32]


def test_053_partial_blocks_do_not_push_out_full_ones(cases: Path) -> None:
    case = Case.load(cases, "053")
    blocks = case.config["num_blocks"]
    assert case.hits(blocks=blocks) == case.expected["hits_new"] == [0, 0, 0, 0, 32]
    old = case.simulate(
        blocks=blocks, output_tokens=[1] * 5, arrivals="sequential", free_partial_blocks="last"
    )
    assert old.hit_tokens.tolist() == case.expected["hits_old"] == [0, 0, 0, 0, 0]


def test_054_a_preempted_request_counts_its_first_lookup_only(cases: Path) -> None:
    # The case lists the lookups of an engine; here the same happens to two requests of 100 tokens in a cache of 14
    # blocks, 40 tokens generated each: both are admitted (7 blocks each), and the second is preempted for the first.
    expected = json.loads((next(cases.glob("054-*")) / "expected.json").read_text())
    case = Case({}, [{"segments": [["A", 100]]}, {"segments": [["B", 100]]}], {})
    simulation = case.simulate(blocks=14, output_tokens=[40, 40], arrivals="closed")
    assert simulation.preemptions.sum() >= 1
    assert int(simulation.queried_tokens.sum()) == expected["queries"] == 200
    assert int(simulation.hit_tokens.sum()) == expected["hits"] == 0
    assert simulation.resumed_hit_tokens > 0  # what naive counting would add


def test_056_a_burst_in_one_step(cases: Path) -> None:
    case = Case.load(cases, "056")
    simulation = case.simulate(blocks=None, output_tokens=[1, 1, 1], arrivals="closed")
    assert simulation.hit_tokens.tolist() == case.expected["vllm"] == [0, 96, 96]
    assert set(simulation.admitted_step.tolist()) == {0}  # all in one step
    late = case.simulate(blocks=None, output_tokens=[1, 1, 1], arrivals="closed", commit="finished")
    assert late.hit_tokens.tolist() == case.expected["late_commit"] == [0, 0, 0]


def test_058_warm_up_is_told_apart_from_what_is_measured(cases: Path, tmp_path: Path) -> None:
    case = Case.load(cases, "058")
    assert case.hits()[1:] == case.expected["warmed"] == [512, 512]
    # --measure-from counts what follows the warm-up: one of three requests.
    report = analyze(case.token_log(tmp_path / "log.jsonl"), AnalyzeOptions(measure_from=0.34))
    assert (report.cache.hit_tokens, report.cache.queried_tokens) == (1024, 1040)
    cold = Case(case.config, case.requests[1:], {})
    assert cold.hits() == case.expected["cold"] == [0, 512]


def test_060_sessions_are_sampled_whole(cases: Path, tmp_path: Path) -> None:
    case = Case.load(cases, "060")
    assert case.hits() == case.expected["full"] == [0, 32, 64, 64, 96, 96]
    lines = tmp_path / "lines.jsonl"
    replay(case.token_log(tmp_path / "log.jsonl"), ReplayOptions(limit_sessions=1, per_request=lines))
    rows = [json.loads(line) for line in lines.read_text().splitlines()]
    assert [row["id"] for row in rows] == ["a-t1", "a-t2", "a-t3"]
    assert [row["hit_tokens"] for row in rows] == case.expected["by_session"] == [0, 64, 96]


def test_067_n_answers_are_n_lookups(cases: Path, tmp_path: Path) -> None:
    case = Case.load(cases, "067")
    # The bytes tokenizer makes 100 characters of one prompt 100 tokens.
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps({"id": "r1", "n": case.requests[0]["n"], "prompt": "x" * 100}))
    report = analyze(log, AnalyzeOptions(tokenizer="bytes"))
    assert report.cache.queried_tokens == case.expected["engine_queries"] == 400
    assert report.cache.hit_tokens == case.expected["engine_hits"] == 288
    assert report.requests == case.expected["logical_requests"] == 1
    (figures,) = replay(log, ReplayOptions(tokenizer="bytes")).replays
    assert (figures.queried_tokens, figures.hit_tokens) == (400, 288)


def test_077_a_retry_is_a_lookup_and_a_lost_connection_none(cases: Path, tmp_path: Path) -> None:
    case = Case.load(cases, "077")
    log = tmp_path / "log.jsonl"
    # The bytes tokenizer makes 100 characters of one prompt 100 tokens.
    rows = [{**request, "prompt": "S" * 100} for request in case.requests]
    log.write_text("\n".join(map(json.dumps, rows)))
    lines = tmp_path / "lines.jsonl"
    report = analyze(log, AnalyzeOptions(tokenizer="bytes"))
    assert report.coverage.read == case.expected["attempts"] == 3
    assert report.coverage.not_sent == 1
    assert report.requests == case.expected["lookups"] == 2
    replay(log, ReplayOptions(tokenizer="bytes", per_request=lines))
    hits = [json.loads(line)["hit_tokens"] for line in lines.read_text().splitlines()]
    assert hits == case.expected["hits"] == [0, 96]


def test_084_more_requests_run_than_fit(cases: Path) -> None:
    case = Case.load(cases, "084")
    ends = np.array([request["end"] for request in case.requests])
    tokens = np.array([request["prompt_tokens"] + request["completion_tokens"] for request in case.requests])
    starts = np.array([request["ts"] for request in case.requests])
    (overload,) = overloads(starts, ends, -(-tokens // 16), case.expected["capacity"])
    assert [overload.from_us, overload.until_us] == case.expected["overload"] == [4, 10]
    assert overload.peak_blocks == case.expected["demand"] == 35
    # And so at most 4 of them run at once.
    requests = [{"segments": [[f"r{n}", 100]]} for n in range(5)]
    simulation = Case({}, requests, {}).simulate(blocks=30, output_tokens=[4] * 5, arrivals="closed")
    assert simulation.admitted_step[4] >= simulation.finished_step[:4].min()
    assert simulation.preemptions.sum() == 0  # vLLM reserves the whole prompt on admission


def test_059_a_second_run_is_warm(cases: Path) -> None:
    case = Case.load(cases, "059")
    assert case.hits() == case.expected["hits"] == [0, 0, 192, 192]


def test_064_a_second_bos_shifts_every_block(cases: Path) -> None:
    case = Case.load(cases, "064")
    assert case.hits()[1] == case.expected["hits"] == 0
    twin = Case(case.config, [case.requests[0], case.requests[0]], {})
    assert twin.hits() == [0, 48]


def test_088_two_system_prompts_need_room_for_both(cases: Path, tmp_path: Path) -> None:
    case = Case.load(cases, "088")
    assert case.hits(blocks=24) == case.expected["hits_24"] == [0, 0, 272, 48, 272]
    assert case.hits(blocks=30) == case.expected["hits_30"] == [0, 0, 320, 96, 320]
    # The requirement is the sum of what is shared, not the largest of it.
    report = analyze(case.token_log(tmp_path / "log.jsonl"))
    shared_blocks = [node.tokens // 16 for node in report.prefix_tree]
    assert shared_blocks == [20, 6]
    assert sum(shared_blocks) == case.expected["hot_set_blocks"] == 26


def test_090_a_warm_up_set_larger_than_the_cache(cases: Path) -> None:
    case = Case.load(cases, "090")
    blocks = case.config["num_blocks"]
    # "The next request of each" is asked of the cache as the warm-up left it: five runs, one more request in each.
    after = [
        Case(case.config, [*case.requests, request], {}).hits(blocks=blocks)[-1] for request in case.requests
    ]
    # A prompt of 48 tokens can hit 32 of its own (at most n-1); the case counts a request that extends it.
    longer = [
        Case(
            case.config,
            [*case.requests, {"segments": [*request["segments"], ["next", 1]]}],
            {},
        ).hits(blocks=blocks)[-1]
        for request in case.requests
    ]
    assert longer == case.expected["hits"] == [0, 0, 48, 48, 48]
    assert after == [0, 0, 32, 32, 32]


def test_100_ceiling_and_size_are_told_apart(cases: Path) -> None:
    case = Case.load(cases, "100")
    assert case.hits() == case.expected["ceiling"] == [0, 0, 0, 64, 64, 64]
    assert case.hits(blocks=8) == case.expected["blocks_8"] == [0, 0, 0, 0, 0, 0]
    assert case.hits(blocks=20) == case.expected["blocks_20"] == [0, 0, 0, 64, 64, 64]


def test_102_the_running_average_and_the_steady_rate(cases: Path) -> None:
    case = Case.load(cases, "102")
    hits, tokens = case.hits(), [len(prompt) for prompt in case.prompts()]
    running = [sum(hits[: k + 1]) / sum(tokens[: k + 1]) for k in range(4)]
    assert [round(rate, 3) for rate in running] == case.expected["running"]
    assert round(hits[-1] / tokens[-1], 3) == case.expected["steady"]
