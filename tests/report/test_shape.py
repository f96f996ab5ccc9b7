"""What a page draws of a log, against values worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtools.model import CacheSpec, ReplayResult
from kvtools.profile import RequestColumns
from kvtools.report.shape import MOST_WINDOWS, Bin, PrefixNode, histograms, over_time, prefix_tree
from kvtools.table import Ragged

MINUTE_US = 60_000_000


def _requests(arrival_us: list[int], blocks: list[list[int]], route: list[int]) -> RequestColumns:
    count = len(arrival_us)
    zeros = np.zeros(count, dtype=np.int64)
    keys = Ragged(
        np.array([block for prompt in blocks for block in prompt], dtype=np.uint64),
        np.cumsum([0, *map(len, blocks)]).astype(np.int64),
    )
    return RequestColumns(
        arrival_us=np.array(arrival_us, dtype=np.int64),
        prompt_tokens=zeros + 100,
        output_tokens=zeros,
        latency_us=zeros,
        route=np.array(route, dtype=np.uint64),
        namespace=zeros.astype(np.uint64),
        cached_tokens=zeros,
        observed_tokens=zeros,
        observed_id=[""] * count,
        samples=zeros + 1,
        skip_lookup=zeros.astype(np.bool_),
        session=zeros.astype(np.uint64),
        keys=keys,
    )


def _result(queried: list[int], hits: list[int]) -> ReplayResult:
    return ReplayResult(
        "simulator",
        CacheSpec(16),
        "cold",
        np.array(queried, dtype=np.int64),
        np.array(hits, dtype=np.int64),
        np.zeros(len(hits), dtype=np.bool_),
        0,
    )


def test_windows_begin_at_full_minutes_of_the_logs_zone() -> None:
    # 30 s after a full minute, 40 s later (the next minute), and 95 minutes after the first: 96 windows of a minute.
    arrivals = [30_000_000, 70_000_000, 95 * MINUTE_US + 30_000_000]
    windows = over_time(_requests(arrivals, [[], [], []], [0, 0, 0]), _result([100, 50, 10], [0, 40, 5]), 330)
    assert len(windows) == MOST_WINDOWS
    assert {window.width_us for window in windows} == {MINUTE_US}
    assert [window.from_us for window in windows[:2]] == [0, MINUTE_US]
    assert [(w.requests, w.queried_tokens, w.hit_tokens, w.hit_rate) for w in windows[:3]] == [
        (1, 100, 0, 0.0),
        (1, 50, 40, 0.8),
        (0, 0, 0, None),
    ]
    assert windows[-1].hit_rate == 0.5


def test_a_day_in_a_zone_with_half_hours_begins_at_its_midnight() -> None:
    # Windows of a day over 60 days; the zone is 5:30 ahead, so midnight there is 18:30 UTC of the day before.
    day = 86_400_000_000
    arrivals = [n * day for n in range(60)]
    windows = over_time(_requests(arrivals, [[]] * 60, [0] * 60), _result([1] * 60, [0] * 60), 330)
    assert windows[0].width_us == day
    assert windows[0].from_us == -330 * MINUTE_US
    assert [window.requests for window in windows] == [1] * 60


def test_without_a_clock_windows_are_equal_parts_of_the_log() -> None:
    windows = over_time(_requests([-1] * 100, [[]] * 100, [0] * 100), _result([2] * 100, [1] * 100), 0)
    assert [(w.from_us, w.width_us, w.requests, w.hit_tokens) for w in windows] == [(None, None, 2, 2)] * 50


@given(st.lists(st.integers(0, 4 * 10**15), min_size=1, max_size=30))
def test_windows_hold_every_request_whatever_the_span(arrivals: list[int]) -> None:
    arrivals.sort()
    count = len(arrivals)
    windows = over_time(_requests(arrivals, [[]] * count, [0] * count), _result([3] * count, [2] * count), 60)
    assert len(windows) <= MOST_WINDOWS
    assert sum(window.requests for window in windows) == count
    assert sum(window.hit_tokens for window in windows) == 2 * count


def test_histograms_by_hand() -> None:
    # Four bins a doubling: 16 and 17 lie in [16, 19.03), 32 in [32, 38.05); -1 is not known.
    found = histograms(np.array([16, 17, 32, -1]), np.array([0, 0, 500, 1_000_500, 3_000_500, -1]))
    assert [(bin_.requests) for bin_ in found.prompt_tokens] == [2, 0, 0, 0, 1]
    assert found.prompt_tokens[0].at_least == 16
    assert found.prompt_tokens[0].below == pytest.approx(19.027, abs=0.001)
    # Gaps 0, 0.0005, 1 and 2 s: the first two are below a millisecond; 10^(1/5) = 1.585, 10^(2/5) = 2.512.
    assert found.interarrival_s[0] == Bin(at_least=0.0, below=0.001, requests=2)
    assert [bin_.requests for bin_ in found.interarrival_s[1:]] == [1, 1]
    assert found.interarrival_s[2].at_least == pytest.approx(1.585, abs=0.001)


def test_nothing_known_is_no_bin() -> None:
    found = histograms(np.array([-1]), np.array([-1]))
    assert found.prompt_tokens == found.interarrival_s == []


def test_the_tree_of_four_prompts_by_hand() -> None:
    # Blocks 0 1 are shared by the first three, then 2 by two of them; the fourth stands alone and is left out.
    blocks = [[0, 1, 2], [0, 1, 3], [0, 1, 2, 4], [5]]
    requests = _requests([0, 1, 2, 3], blocks, [7, 7, 8, 8])
    ids = np.array([block for prompt in blocks for block in prompt], dtype=np.int32)
    tree = prefix_tree(requests, ids, _result([100] * 4, [0, 32, 48, 0]), {7: "chat", 8: "batch"})
    assert tree == [
        PrefixNode(
            parent=None, first_token=0, tokens=32, requests=3, prompt_tokens=96, hit_tokens=64,
            below_prompt_tokens=160, route=None,
        ),
        PrefixNode(
            parent=0, first_token=32, tokens=16, requests=2, prompt_tokens=32, hit_tokens=16,
            below_prompt_tokens=48, route=None,
        ),
    ]  # fmt: skip


def test_a_run_that_one_route_alone_carries_has_its_name() -> None:
    requests = _requests([0, 1], [[0, 1], [0, 1]], [7, 7])
    [node] = prefix_tree(
        requests, np.array([0, 1, 0, 1], dtype=np.int32), _result([40, 40], [0, 32]), {7: "chat"}
    )
    assert (node.route, node.tokens, node.hit_tokens) == ("chat", 32, 32)


def test_the_largest_nodes_are_kept_with_those_above_them() -> None:
    # 200 heads of one block shared by two, behind one block that all share.
    blocks = [[0, 1 + n // 2] for n in range(400)]
    ids = np.array([block for prompt in blocks for block in prompt], dtype=np.int32)
    tree = prefix_tree(_requests([0] * 400, blocks, [0] * 400), ids, _result([33] * 400, [0] * 400), {})
    assert len(tree) == 150
    assert tree[0].requests == 400
    assert {node.parent for node in tree[1:]} == {0}
    assert tree[0].below_prompt_tokens == 400 * 2 * 16
