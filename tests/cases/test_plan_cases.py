"""Cases of routing and sizing: 024, 088, 092 and 100."""

from __future__ import annotations

from pathlib import Path

import pytest
from shared_case import Case

from kvtools.flow.plan_routing import RoutingOptions, plan_routing
from kvtools.flow.plan_sizing import SizingOptions, plan_sizing


@pytest.fixture
def cases(shared: Path) -> Path:
    return shared / "cases"


def test_024_one_engine_is_the_ceiling_round_robin_the_floor(cases: Path, tmp_path: Path) -> None:
    case = Case.load(cases, "024")
    report = plan_routing(case.token_log(tmp_path / "log.jsonl"), RoutingOptions(replicas=(1, 4)))
    assert report.ceiling.hit_tokens == sum(case.expected["hits_1"])
    assert [floor.hit_tokens for floor in report.floor] == [
        sum(case.expected["hits_1"]),
        sum(case.expected["hits_4_rr"]),
    ]
    together = {one.policy for one in report.routing if one.hit_tokens == report.ceiling.hit_tokens}
    assert {"session-affine", "prefix-aware"} <= together


def test_088_the_sum_of_the_prefixes_is_needed(cases: Path, tmp_path: Path) -> None:
    """20 and 6 blocks come again: 26 are live at most, and the block that is not full has to fit besides."""
    case = Case.load(cases, "088")
    log = case.token_log(tmp_path / "log.jsonl")
    report = plan_sizing(log, SizingOptions(capacity_blocks=24, classes=False))
    assert report.working_set.peak_live_blocks == case.expected["hot_set_blocks"] == 26
    assert report.current is not None
    assert report.current.hit_tokens == sum(case.expected["hits_24"])
    assert report.ceiling.hit_tokens == sum(case.expected["hits_30"])
    assert report.sizing[-1].capacity_blocks == 27
    assert report.sizing[-1].hit_tokens == sum(case.expected["hits_30"])


def test_092_sessions_by_equality_of_their_ids(cases: Path, tmp_path: Path) -> None:
    case = Case.load(cases, "092")
    for number, request in enumerate(case.requests):
        request["ts"] = number
    named = plan_routing(case.token_log(tmp_path / "named.jsonl"), RoutingOptions(replicas=(2,)))
    assert (named.sessions.sessions, named.sessions.named) == (len(case.expected["sessions"]), 3)
    for request in case.requests:
        del request["session"]
    found = plan_routing(case.token_log(tmp_path / "found.jsonl"), RoutingOptions(replicas=(2,)))
    assert (found.sessions.sessions, found.sessions.named, found.sessions.found) == (2, 0, 1)
    for report in (named, found):
        affine = next(one for one in report.routing if one.policy == "session-affine")
        assert affine.hit_tokens == report.ceiling.hit_tokens == 32  # c finds both full blocks of a


def test_100_ceiling_capacity_and_the_best_order(cases: Path, tmp_path: Path) -> None:
    """Three prompts of 5 blocks in turn. Beside the one that runs, 8 blocks leave room for 3.

    The best order keeps 3 blocks of the first until it comes again, then 3 of the third: 96 tokens hit.
    """
    case = Case.load(cases, "100")
    log = case.token_log(tmp_path / "log.jsonl")
    report = plan_sizing(log, SizingOptions(capacity_blocks=case.config["num_blocks"], classes=False))
    assert report.ceiling.hit_tokens == sum(case.expected["ceiling"]) == 192
    assert report.current is not None
    assert report.current.hit_tokens == sum(case.expected["blocks_8"]) == 0
    assert report.current.optimal_hit_tokens == 96
    assert report.current.gap == 96 / 432
    at_20 = plan_sizing(log, SizingOptions(capacity_blocks=20, classes=False))
    assert at_20.current is not None
    assert at_20.current.hit_tokens == sum(case.expected["blocks_20"])
    assert max(size.capacity_blocks for size in report.sizing) <= 20
