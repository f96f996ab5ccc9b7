"""First sights: equal to trying all, whatever the parts; and how far off a sample is."""

from __future__ import annotations

import copy
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtools.similarity.seen import SeenText
from kvtools.table import Ragged, offsets_of

_ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "tokens": st.one_of(
                st.none(), st.lists(st.integers(0, 2), max_size=14)
            ),  # few values: runs that repeat
            "namespace": st.integers(0, 1),
            "arrival": st.integers(0, 6),
        }
    ),
    max_size=14,
)


def _folded(rows: list[dict[str, Any]], level: int = 0) -> SeenText:
    """Add runs of rows with tokens, and of rows without; gather from ``level`` on."""
    seen = SeenText(level=level)
    for row in rows:
        arrival = np.array([row["arrival"]])
        if row["tokens"] is None:
            seen.add_without_text(arrival)
            continue
        tokens = Ragged(np.array(row["tokens"], dtype=np.int32), offsets_of(np.array([len(row["tokens"])])))
        seen.add(tokens, np.array([row["namespace"]], dtype=np.uint64), arrival)
    return seen


def _at_once(rows: list[dict[str, Any]]) -> SeenText:
    lengths = np.array([len(row["tokens"]) for row in rows], dtype=np.int64)
    tokens = Ragged(np.array([t for row in rows for t in row["tokens"]], dtype=np.int32), offsets_of(lengths))
    seen = SeenText()
    namespaces = np.array([row["namespace"] for row in rows], dtype=np.uint64)
    seen.add(tokens, namespaces, np.array([row["arrival"] for row in rows], dtype=np.int64))
    return seen


def _state(seen: SeenText) -> tuple[Any, ...]:
    firsts = tuple(
        getattr(entries, column.name).tolist()
        for entries in (seen.by_log, seen.by_arrival)
        for column in fields(entries)
    )
    return firsts, seen.level, seen.requests, seen.in_order, seen.has_text(None).tolist()


def _naive(rows: list[dict[str, Any]], hits: list[int], order: list[int]) -> int:
    """Count the tokens behind the hits at which a shingle begins that no earlier request of the namespace has."""
    known: set[tuple[Any, ...]] = set()
    cold = 0
    for row, hit in zip((rows[index] for index in order), hits, strict=True):
        tokens = row["tokens"] or []
        shingles = [(row["namespace"], *tokens[at : at + 5]) for at in range(len(tokens) - 4)]
        cold += sum(shingle not in known for shingle in shingles[hit:])
        known |= set(shingles)
    return cold


def _hits(rows: list[dict[str, Any]], order: list[int], block: int) -> list[int]:
    """Whole blocks of the longest prefix that an earlier request of the namespace has, at most n-1 tokens."""
    hits = []
    for number, index in enumerate(order):
        mine = rows[index]["tokens"] or []
        best = 0
        for other in order[:number]:
            theirs = rows[other]["tokens"] or []
            if rows[other]["namespace"] == rows[index]["namespace"]:
                shared = next(
                    (k for k, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b),
                    min(len(mine), len(theirs)),
                )
                best = max(best, min(shared, max(len(mine) - 1, 0)) // block * block)
        hits.append(best)
    return hits


@settings(max_examples=150, deadline=None)
@given(_ROWS, st.booleans(), st.integers(1, 4))
def test_first_sights_are_those_found_by_trying_all(
    rows: list[dict[str, Any]], by_arrival: bool, block: int
) -> None:
    seen = _folded(rows)
    order = sorted(range(len(rows)), key=lambda index: rows[index]["arrival"] if by_arrival else 0)
    hits = _hits(rows, order, block)
    found = seen.cold_starts(
        np.array(order, dtype=np.int64) if by_arrival else None,
        np.array(hits, dtype=np.int64),
        np.ones(len(rows), dtype=np.bool_),
    )
    assert found == _naive(rows, hits, order)
    assert seen.has_text(None).tolist() == [row["tokens"] is not None for row in rows]


@settings(max_examples=60, deadline=None)
@given(_ROWS, st.lists(st.integers(0, 14), max_size=3), st.sampled_from([2, 1 << 20]))
def test_any_partition_gives_an_equal_state(rows: list[dict[str, Any]], cuts: list[int], budget: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kvtools.similarity.seen.BUDGET_SHINGLES", budget)
        bounds = sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
        parts = [_folded(rows[start:stop]) for start, stop in zip(bounds, bounds[1:], strict=False)]
        merged = SeenText()
        for part in parts:
            merged.merge(copy.deepcopy(part))
        last = copy.deepcopy(parts[-1]) if parts else SeenText()
        for part in reversed(parts[:-1]):  # associative: from the right as well
            left = copy.deepcopy(part)
            left.merge(last)
            last = left
        last.merge(SeenText())
        whole = _folded(rows)
        assert _state(merged) == _state(last) == _state(whole)
        spared = SeenText()  # later parts leave out what the whole will not keep
        for start, stop in zip(bounds, bounds[1:], strict=False):
            spared.merge(_folded(rows[start:stop], spared.level))
        assert _state(spared) == _state(whole)
        assert len(whole.by_log.key) <= budget
        if all(row["tokens"] is not None for row in rows):
            assert _state(_at_once(rows)) == _state(whole)


def test_stretches_give_what_one_table_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(5)
    rows = [
        {"tokens": generator.integers(0, 4, 30).tolist(), "namespace": n % 2, "arrival": -n}
        for n in range(40)
    ]
    whole = _at_once(rows)
    monkeypatch.setattr("kvtools.similarity.seen._STRETCH_TOKENS", 70)
    assert _state(_at_once(rows)) == _state(whole)
    assert not whole.in_order


def test_by_hand() -> None:
    # Request 1 has 1..8 (4 shingles), request 2 has 9 1..8: only 9 1 2 3 4 is new. Request 3 is 2 again.
    rows = [[1, 2, 3, 4, 5, 6, 7, 8], [9, 1, 2, 3, 4, 5, 6, 7, 8], [9, 1, 2, 3, 4, 5, 6, 7, 8]]
    table = [{"tokens": tokens, "namespace": 7, "arrival": 0} for tokens in rows]
    none, everyone = np.zeros(3, dtype=np.int64), np.ones(3, dtype=np.bool_)
    assert _at_once(table).cold_starts(None, none, everyone) == 5
    # In the order 3, 2, 1 the first one has all five.
    assert (
        _at_once([table[2], table[1], table[0]]).cold_starts(None, none, np.array([True, False, False])) == 5
    )
    # Another namespace has seen nothing.
    apart = _at_once([table[0], {**table[1], "namespace": 8}])
    assert apart.cold_starts(None, none[:2], everyone[:2]) == 9
    # A request that is not counted still shows its text to others.
    assert _at_once(table).cold_starts(None, none, np.array([False, True, True])) == 1


def test_every_sixteenth_shingle_is_within_two_percent(monkeypatch: pytest.MonkeyPatch) -> None:
    """2,000 prompts of a shared text of 300 tokens behind an id and 100 own tokens: 200,000 first sights and more."""
    generator = np.random.default_rng(11)
    shared = generator.integers(0, 50_000, 300).tolist()
    rows = [
        {
            "tokens": [n, *shared, *generator.integers(0, 50_000, 100).tolist()],
            "namespace": 0,
            "arrival": n,
        }
        for n in range(2_000)
    ]
    exact = _naive(rows, [0] * len(rows), list(range(len(rows))))
    none, everyone = np.zeros(len(rows), dtype=np.int64), np.ones(len(rows), dtype=np.bool_)
    assert _at_once(rows).cold_starts(None, none, everyone) == exact
    monkeypatch.setattr("kvtools.similarity.seen.BUDGET_SHINGLES", 14_000)
    sampled = _at_once(rows)
    assert sampled.level == 4
    # 12,700 shingles are kept: a standard error of 0.9 %.
    assert sampled.cold_starts(None, none, everyone) == pytest.approx(exact, rel=0.02)
