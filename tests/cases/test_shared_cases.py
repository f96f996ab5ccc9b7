"""Public bug reports as small cases: what kvtools answers is the right answer written there."""

from __future__ import annotations

from pathlib import Path

import pytest
from shared_case import Case


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


def test_050_tokens_not_blocks(cases: Path) -> None:
    case = Case.load(cases, "050")
    assert case.hits() == case.expected["hits"] == [0, 32, 32]
    assert round(sum(case.hits()) / sum(map(len, case.prompts())), 4) == case.expected["token_rate"]


def test_052_the_tail_goes_first(cases: Path) -> None:
    case = Case.load(cases, "052")
    assert case.hits(blocks=case.config["num_blocks"]) == case.expected["hits"] == [0, 0, 32]


def test_053_partial_blocks_do_not_push_out_full_ones(cases: Path) -> None:
    case = Case.load(cases, "053")
    assert case.hits(blocks=case.config["num_blocks"]) == case.expected["hits_new"] == [0, 0, 0, 0, 32]


def test_059_a_second_run_is_warm(cases: Path) -> None:
    case = Case.load(cases, "059")
    assert case.hits() == case.expected["hits"] == [0, 0, 192, 192]


def test_064_a_second_bos_shifts_every_block(cases: Path) -> None:
    case = Case.load(cases, "064")
    assert case.hits()[1] == case.expected["hits"] == 0
    twin = Case(case.config, [case.requests[0], case.requests[0]], {})
    assert twin.hits() == [0, 48]


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
