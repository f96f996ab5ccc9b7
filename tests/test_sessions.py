"""Blocks are written as letters: a prompt is a word, its first letter the first block. Worked out by hand."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvtools.blocks import block_keys
from kvtools.model import CacheSpec
from kvtools.profile import RequestColumns
from kvtools.sessions import (
    ALONE,
    CHILD,
    EXTENDS,
    NAMED,
    Sessions,
    find_sessions,
    repeats,
    split_reuse,
    tiers,
    turns_without_history,
)
from kvtools.table import Ragged, digest64, offsets_of

SPEC = CacheSpec(block_size=10)


def log(
    *words: str,
    tokens: list[int] | None = None,
    arrival_s: list[float | None] | None = None,
    namespaces: list[int] | None = None,
    samples: list[int] | None = None,
) -> RequestColumns:
    """Return requests of whole blocks (10 tokens) and one token more, unless told otherwise."""
    numbers: dict[str, int] = {}
    keys = [numbers.setdefault(word[:end], len(numbers)) for word in words for end in range(1, len(word) + 1)]
    count = len(words)
    lengths = np.array([len(word) for word in words], dtype=np.int64)
    seconds = arrival_s or [None] * count
    known = {
        "arrival_us": np.array([-1 if s is None else round(s * 1e6) for s in seconds], dtype=np.int64),
        "prompt_tokens": np.array(tokens, dtype=np.int64) if tokens else 10 * lengths + 1,
        "namespace": np.array(namespaces or [0] * count, dtype=np.uint64),
        "samples": np.array(samples or [1] * count, dtype=np.int64),
        "skip_lookup": np.zeros(count, dtype=np.bool_),
        "keys": Ragged(np.array(keys, dtype=np.uint64), offsets_of(lengths)),
    }
    # The other columns say nothing about conversations.
    silent = {field.name: np.zeros(count, dtype=np.int64) for field in fields(RequestColumns)}
    return RequestColumns(**(silent | known))


def ids(*names: str | None) -> np.ndarray[Any, Any]:
    return np.array([digest64(name) for name in names], dtype=np.uint64)


def found(requests: RequestColumns, **options: Any) -> list[int]:
    return find_sessions(requests, ids(*[None] * len(requests.prompt_tokens)), **options).number.tolist()


def test_ids_are_compared_for_equality() -> None:
    sessions = find_sessions(
        log("SA", "SB", "SAC", "SB"), ids("session-1", "session-12", "session-1", "session-2")
    )
    assert sessions.number.tolist() == [0, 1, 0, 2]
    assert sessions.turn.tolist() == [0, 0, 1, 0]
    assert sessions.previous.tolist() == [-1, -1, 0, -1]
    assert sessions.basis.tolist() == [NAMED] * 4
    assert (len(sessions), sessions.turns().tolist()) == (3, [2, 1, 1])


def test_without_ids_the_prompt_that_is_extended_decides() -> None:
    sessions = find_sessions(log("SA", "SB", "SACD", "SBC", "SACDE"), ids(*[None] * 5))
    assert sessions.number.tolist() == [0, 1, 0, 1, 0]
    assert sessions.turn.tolist() == [0, 0, 1, 1, 2]
    assert sessions.previous.tolist() == [-1, -1, 0, 1, 2]
    assert sessions.basis.tolist() == [ALONE, ALONE, EXTENDS, EXTENDS, EXTENDS]


def test_an_equal_prompt_is_not_extended_and_a_shorter_one_does_not_extend() -> None:
    assert found(log("SA", "SA", "S", "SB")) == [0, 1, 2, 3]


def test_of_equal_prompts_the_latest_is_continued() -> None:
    assert found(log("SA", "SA", "SAB")) == [0, 1, 1]


def test_the_longest_prompt_is_continued_even_if_a_shorter_one_came_later() -> None:
    # "SA" of somebody else comes between the second and the third turn.
    assert found(log("SA", "SAB", "SA", "SABC")) == [0, 0, 1, 0]


def test_what_several_conversations_begin_with_is_nobodys_turn() -> None:
    # "S" is the system prompt with a question too short to fill a block: A and B both go on from it.
    sessions = find_sessions(log("S", "SA", "SB", "SAC"), ids(*[None] * 4))
    assert sessions.number.tolist() == [0, 1, 2, 1]
    assert sessions.undecided == 2


def test_a_changed_last_message_goes_on_from_the_turn_before() -> None:
    # The second turn "ABC" is sent again as "ABD": both continue "A", whose answer is B.
    assert found(log("A", "ABC", "ABD")) == [0, 0, 0]


def test_prompts_without_a_full_block_belong_to_nobody() -> None:
    assert found(log("", "", "A")) == [0, 1, 2]


@pytest.mark.parametrize(("gap_s", "same"), [(3_600, True), (3_600.000001, False)])
def test_the_time_limit(gap_s: float, same: bool) -> None:
    assert found(log("A", "AB", arrival_s=[0, gap_s])) == [0, 0 if same else 1]
    assert found(log("A", "AB", arrival_s=[0, gap_s]), within_us=3_599_999_999) == [0, 1]


def test_a_request_is_not_continued_by_one_that_came_before_it() -> None:
    assert found(log("A", "AB", arrival_s=[5, 4])) == [0, 1]


@pytest.mark.parametrize(("between", "same"), [(999, True), (1_000, False)])
@pytest.mark.parametrize("first_s", [None, 0.0])
def test_without_a_clock_requests_are_counted(between: int, same: bool, first_s: float | None) -> None:
    others = ["X"] * between
    requests = log("A", *others, "AB", arrival_s=[first_s, *[None] * (between + 1)])
    assert (found(requests)[-1] == 0) is same


def test_namespaces_keep_conversations_apart_even_where_keys_do_not() -> None:
    assert found(log("A", "AB", "AB", namespaces=[1, 2, 1])) == [0, 1, 0]


def test_named_requests_are_not_continued_by_nameless_ones() -> None:
    sessions = find_sessions(log("A", "AB", "ABC"), ids("s", None, None))
    assert sessions.number.tolist() == [0, 1, 1]
    assert sessions.basis.tolist() == [NAMED, ALONE, EXTENDS]


def test_parents_come_before_prompts_and_after_ids() -> None:
    parents = np.array([-1, 0, 1, 0, 5, 4], dtype=np.int64)
    sessions = find_sessions(
        log("A", "X", "Y", "Z", "V", "W"), ids("s", None, None, "t", None, None), parents
    )
    # Request 3 has an id of its own; 4 names a parent that stands behind it, which is none.
    assert sessions.number.tolist() == [0, 0, 0, 1, 2, 2]
    assert sessions.basis.tolist() == [NAMED, CHILD, CHILD, NAMED, ALONE, CHILD]
    assert sessions.turn.tolist() == [0, 1, 2, 0, 0, 1]


def test_no_requests() -> None:
    sessions = find_sessions(log(), ids())
    assert (len(sessions), sessions.turns().tolist()) == (0, [])
    assert [tier.requests for tier in tiers(log(), np.empty(0, dtype=np.int64), sessions)] == [0, 0, 0]


def test_repeats_within_thirty_seconds() -> None:
    arrival = np.array([0, 30, 10, 60, 61, -1, 62], dtype=np.int64)
    arrival[arrival >= 0] *= 1_000_000
    arrival[4] += 1
    owner = ids("a", "a", "b", "a", "b", "a", None)
    # a: 0, 30 (30 s later), 60 (30 s later); b: 10, 61.000001; the sixth has no time, the seventh no owner.
    arrival[5] = -1
    assert repeats(arrival, owner).tolist() == [False, True, False, True, False, False, False]
    assert repeats(arrival, owner, within_us=29_999_999).sum() == 0


def test_repeats_go_by_arrival_and_equal_times_by_place() -> None:
    arrival = np.array([50, 10, 10], dtype=np.int64)
    assert repeats(arrival, ids("a", "a", "a")).tolist() == [True, False, True]


def test_tiers_follow_the_length_of_each_prompt() -> None:
    requests = log(
        "A", "AB", "ABC", "X", "XY", tokens=[2_000, 2_001, 6_001, 500, 6_000], samples=[1, 1, 1, 2, 1]
    )
    sessions = find_sessions(requests, ids("s", "s", "s", "t", "t"))
    hits = np.array([0, 1_990, 2_000, 490, 500], dtype=np.int64)
    short, middle, long = tiers(requests, hits, sessions)
    assert (short.above_tokens, short.up_to_tokens) == (0, 2_000)
    assert (short.requests, short.prompt_tokens, short.hit_tokens, short.computed_tokens) == (
        2,
        3_000,
        490,
        2_510,
    )
    assert (middle.above_tokens, middle.up_to_tokens) == (2_000, 6_000)
    assert (middle.requests, middle.prompt_tokens, middle.hit_tokens, middle.computed_tokens) == (
        2,
        8_001,
        2_490,
        5_511,
    )
    assert (long.above_tokens, long.up_to_tokens) == (6_000, None)
    assert (long.requests, long.prompt_tokens, long.hit_tokens, long.computed_tokens) == (
        1,
        6_001,
        2_000,
        4_001,
    )
    # The longest prompt of s is 6,001 tokens, that of t 6,000.
    assert [tier.sessions for tier in (short, middle, long)] == [0, 1, 1]


def split(
    requests: RequestColumns, names: list[str | None], hits: list[int], spec: CacheSpec = SPEC
) -> tuple[list[int], ...]:
    sessions = find_sessions(requests, ids(*names))
    parts = split_reuse(requests, sessions, np.array(hits, dtype=np.int64), spec)
    assert (parts.within + parts.across + parts.before).tolist() == hits
    return parts.within.tolist(), parts.across.tolist(), parts.before.tolist()


def test_a_hit_block_belongs_to_whoever_touched_it_last() -> None:
    requests = log("SA", "SB", "SAC", "SAC")
    # 1: S is a's. 2: S was touched by b since, A is a's own. 3: all of it was touched by a last, and c is another.
    assert split(requests, ["a", "b", "a", "c"], [0, 10, 20, 30]) == ([0, 0, 10, 0], [0, 10, 10, 30], [0] * 4)


def test_a_computed_block_is_touched_too() -> None:
    # b computed S anew (it had been evicted): the hit of a on S is then b's.
    assert split(log("S", "S", "S"), ["a", "b", "a"], [0, 0, 10]) == ([0] * 3, [0, 0, 10], [0] * 3)


def test_hits_on_what_nobody_here_left() -> None:
    assert split(log("SA"), ["a"], [20]) == ([0], [0], [20])


def test_each_further_answer_hits_its_own_prompt() -> None:
    # n = 3: the first lookup hits S (10 tokens), the other two all 20 tokens in full blocks.
    requests = log("SB", "SA", samples=[1, 3])
    assert split(requests, ["b", "a"], [0, 50]) == ([0, 40], [0, 10], [0, 0])


def test_by_trace_rules_the_last_block_has_its_own_tokens() -> None:
    requests = log("SA", "SAB", "SA", tokens=[14, 25, 14])
    spec = CacheSpec(block_size=10, rules="trace")
    # A has 4 tokens in the third request: all its 14 are hit.
    assert split(requests, ["a", "b", "a"], [0, 20, 14], spec) == ([0, 0, 0], [0, 20, 14], [0] * 3)


def test_turns_that_lack_what_was_said_before() -> None:
    requests = log("AB", "CD", "CDE", "X", "", "Y")
    sessions = find_sessions(requests, ids("s", "s", "s", "t", "t", "t"))
    # The second turn of s shares nothing with its first; a turn without a block says nothing.
    assert turns_without_history(requests, sessions).tolist() == [False, True, False, False, False, False]


def _segments(path: Path) -> tuple[list[str], list[str | None], RequestColumns]:
    """Read a case whose prompts are runs of tokens that go by names."""
    records = [json.loads(line) for line in path.read_bytes().splitlines()]
    words: dict[tuple[str, int], int] = {}
    prompts = [
        [
            words.setdefault((name, i), len(words))
            for name, length in record["segments"]
            for i in range(length)
        ]
        for record in records
    ]
    lengths = np.array([len(prompt) for prompt in prompts], dtype=np.int64)
    tokens = Ragged(np.array(list(chain.from_iterable(prompts)), dtype=np.int32), offsets_of(lengths))
    empty = log(*[""] * len(records), tokens=lengths.tolist())
    keys = block_keys(tokens, [None] * len(records), 16)
    return [r["id"] for r in records], [r.get("session") for r in records], replace(empty, keys=keys)


def _members(names: list[str], sessions: Sessions) -> list[list[str]]:
    return [[names[i] for i in np.flatnonzero(sessions.number == s)] for s in range(len(sessions))]


def test_case_092(shared: Path) -> None:
    case = shared / "cases" / "092-session-id-prefix-match"
    names, explicit, requests = _segments(case / "input.jsonl")
    expected = list(json.loads((case / "expected.json").read_text())["sessions"].values())
    assert _members(names, find_sessions(requests, ids(*explicit))) == expected
    assert _members(names, find_sessions(requests, ids(*[None] * 3))) == expected


def test_case_060_without_its_ids(shared: Path) -> None:
    names, explicit, requests = _segments(
        shared / "cases" / "060-sample-sessions-not-requests" / "input.jsonl"
    )
    for given in (explicit, [None] * 6):
        assert _members(names, find_sessions(requests, ids(*given))) == [
            ["a-t1", "a-t2", "a-t3"],
            ["b-t1", "b-t2", "b-t3"],
        ]
    sessions = find_sessions(requests, ids(*explicit))
    parts = split_reuse(requests, sessions, np.array([0, 32, 64, 64, 96, 96]), CacheSpec(block_size=16))
    # Two system blocks are the other conversation's in each request but the first.
    assert parts.across.tolist() == [0, 32, 32, 32, 32, 32]
    assert parts.within.tolist() == [0, 0, 32, 32, 64, 64]


def test_case_061_says_that_the_history_is_missing(shared: Path) -> None:
    _, explicit, requests = _segments(shared / "cases" / "061-turns-replayed-without-history" / "input.jsonl")
    sessions = find_sessions(requests, ids(*explicit))
    assert turns_without_history(requests, sessions).tolist() == [False, True, True]
