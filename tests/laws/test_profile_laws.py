"""The fold's laws: neutral element, associativity, and any partition of a log gives an equal report."""

from __future__ import annotations

import copy
from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtools.chat import load
from kvtools.profile import Keying, LogProfile, map_chunk
from kvtools.readers import Chunk
from kvtools.table import rejects_table, request_table
from kvtools.tokens import BytesTokenizer

_WORDS = st.sampled_from(["alpha ", "beta ", "gamma ", "αβ "])
_ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "prompt": st.one_of(st.none(), st.lists(_WORDS, min_size=1, max_size=12).map("".join)),
            "route": st.sampled_from([None, "r1", "r2"]),
            "namespace": st.sampled_from([None, "model=m"]),
            "arrival_us": st.one_of(st.none(), st.integers(0, 10**9)),
        }
    ),
    min_size=1,
    max_size=20,
)


def _map(rows: list[dict], first_line: int) -> LogProfile:
    columns = {name: [row[name] for row in rows] for name in rows[0]} if rows else {}
    columns["source"] = [f"log:{first_line + index}" for index in range(len(rows))]
    rejects = rejects_table([("log:0", "bad_json", "")]) if first_line % 2 else rejects_table([])
    chunk = Chunk(request_table(columns, len(rows)), rejects, len(rows) + first_line % 2)
    return map_chunk(chunk, Keying(load("plain"), BytesTokenizer(), 4).key(chunk.requests))


def _state(profile: LogProfile) -> tuple:
    requests = profile.requests()
    columns = {
        name: getattr(requests, name).tolist()
        for name in ("arrival_us", "prompt_tokens", "route", "namespace")
    }
    keys = [requests.keys.row(index).tolist() for index in range(len(requests.keys))]
    runs = {
        group: (run.first.tolist(), run.last.tolist(), run.total.units, run.total.pairs)
        for group, run in profile.text.runs.items()
    }
    counts = (profile.counts.records, profile.counts.without_prompt, +profile.counts.rejected)
    return (
        counts,
        columns,
        keys,
        runs,
        profile.route_names,
        profile.sample.level,
        profile.sample.variable_tokens(),
    )


@settings(max_examples=60, deadline=None)
@given(_ROWS, st.lists(st.integers(0, 20), max_size=4))
def test_any_partition_gives_an_equal_profile(rows: list[dict], cuts: list[int]) -> None:
    whole = _map(rows, 0)
    bounds = sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
    parts = [_map(rows[start:end], 2 * start) for start, end in zip(bounds, bounds[1:], strict=False)]
    # Line numbers of a part must be those of the whole log: they choose the sample.
    for part, start in zip(parts, bounds, strict=False):
        assert part.counts.records == len(rows[start : bounds[bounds.index(start) + 1]])
    merged = LogProfile()
    for part in parts:
        merged = merged.merge(part)
    assert _state(merged) == _state(whole)


@settings(max_examples=40, deadline=None)
@given(_ROWS, _ROWS, _ROWS)
def test_merge_is_associative_and_the_empty_profile_is_neutral(
    a: list[dict], b: list[dict], c: list[dict]
) -> None:
    one, two, three = (_map(rows, 1 + 100 * index) for index, rows in enumerate((a, b, c)))
    left = copy.deepcopy(one).merge(copy.deepcopy(two)).merge(copy.deepcopy(three))
    right = copy.deepcopy(one).merge(copy.deepcopy(two).merge(copy.deepcopy(three)))
    assert _state(left) == _state(right)
    assert _state(LogProfile().merge(copy.deepcopy(one))) == _state(one)
    assert _state(copy.deepcopy(one).merge(LogProfile())) == _state(one)
    assert left.counts.rejected == Counter(bad_json=3)


def test_a_profile_counts_what_it_could_not_use() -> None:
    profile = _map([{"prompt": None, "route": None, "namespace": None, "arrival_us": 5}], 0)
    assert (profile.counts.records, profile.counts.without_prompt, profile.prompts) == (1, 1, 0)
    assert profile.requests().keys.values.dtype == np.uint64
