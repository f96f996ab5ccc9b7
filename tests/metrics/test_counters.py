"""What counters grew by, whatever happened in between: values worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from metrics_pages import at, page

from kvtools.errors import InputError
from kvtools.monitor.counters import Counted, counted
from kvtools.monitor.exposition import pages
from kvtools.monitor.windows import Window, dips, hits_stopped, step_of, window, windows


def read(text: str) -> Counted:
    return counted((one, ()) for one in pages(text))


def total(text: str) -> Window:
    return window(read(text).increases)


def sums(text: str) -> tuple[int, int]:
    found = total(text)
    return found.queried, found.hit


@pytest.fixture
def case(shared: Path) -> Any:
    def load(number: str) -> tuple[list[dict[str, Any]], Any]:
        (folder,) = (shared / "cases").glob(f"{number}-*")
        rows = [json.loads(line) for line in (folder / "input.jsonl").read_text().splitlines()]
        return rows, json.loads((folder / "expected.json").read_text())

    return load


def test_a_rate_is_a_difference_and_no_average_since_the_start() -> None:
    assert sums(at(0, page(1000, 900)) + at(10, page(1200, 950))) == (200, 50)


def test_a_window_shows_a_collapse_that_the_lifetime_average_hides(case: Any) -> None:
    rows, expected = case("104")
    found = read("".join(at(row["t"], page(row["queries"], row["hits"])) for row in rows))
    over_time = windows(found.increases, found.first_s, step_of(found))
    assert [one.hit_rate for one in over_time] == [0.9] * 5 + [expected["window"]]
    assert rows[-1]["hits"] / rows[-1]["queries"] == expected["lifetime"]
    stopped = hits_stopped(over_time)
    assert stopped is not None
    assert (stopped.after_s, stopped.queried) == (expected["freeze_after"], 5000)


def test_identical_prompts_have_a_steady_rate_behind_the_first(case: Any) -> None:
    # Case 102: 36 tokens a request, of which 32 hit from the second on; a scrape after each.
    _, expected = case("102")
    text = "".join(at(10 * k, page(36 * k, 32 * max(k - 1, 0))) for k in range(5))
    found = read(text)
    over_time = windows(found.increases, 0, 10)
    assert [round(one.hit_rate or 0, 3) for one in over_time] == [0, *[expected["steady"]] * 3]
    last = found.engines[0].scrapes
    running = [round(one.count("hits") / one.count("queries"), 3) for one in last[1:]]
    assert running == expected["running"]


def test_pods_are_summed_before_dividing_and_usage_never_is(case: Any) -> None:
    rows, expected = case("106")
    pods = [f'engine="0",pod="{row["pod"]}"' for row in rows]
    text = at(0, *(page(0, 0, labels=pod) for pod in pods)) + at(
        60, *(page(row["queries"], row["hits"], labels=pod) for row, pod in zip(rows, pods, strict=True))
    )
    assert total(text).hit_rate == expected["rate"]


def test_external_hits_are_those_beyond_the_engines_own(case: Any) -> None:
    (row,), expected = case("109")
    local, loaded = row["local_cached"], row["external_loaded"]
    assert local + loaded == expected["total"]
    before = at(0, page(0, 0, external_prefix_cache_hits_total=0))
    after = at(1, page(row["prompt_tokens"], local, external_prefix_cache_hits_total=loaded))
    found = total(before + after)
    assert (found.hit_rate, found.total_hit_rate) == (0.5, expected["rate"])
    # What the external cache was found to hold in all overlaps with the engine's own: more than the prompt.
    doubled = at(1, page(32, local, external_prefix_cache_hits_total=row["external_lookup_hit"]))
    with pytest.raises(InputError, match=r"16 hits and 24 external ones of 32 queried: more than all"):
        total(before + doubled)


def test_swapped_counters_are_an_error_and_never_clipped(shared: Path) -> None:
    # Case 101: hits 80, queries 100; divided the wrong way round that is 1.25.
    (folder,) = (shared / "cases").glob("101-*")
    expected = json.loads((folder / "expected.json").read_text())
    assert total(at(0, page(0, 0)) + at(1, page(100, 80))).hit_rate == expected["Q2"]
    with pytest.raises(InputError, match="not swapped"):
        total(at(0, page(0, 0)) + at(1, page(80, 100)))


def test_tokens_by_source_add_nothing_to_the_hits() -> None:
    def sources(device: int, host: int) -> str:
        name = "vllm:prompt_tokens_cached_by_source_total"
        return "".join(
            f'{name}{{engine="0",model_name="m",source="{source}"}} {value}\n'
            for source, value in (("device", device), ("host", host), ("p2p", 0))
        )

    text = at(0, page(100, 10), sources(10, 5)) + at(1, page(200, 50), sources(50, 25))
    (one,) = read(text).increases
    assert (one.queried, one.hit, one.external_hit) == (
        100,
        40,
        20,
    )  # no external counter: what is not device
    assert one.by_source == {"device": 40, "host": 20, "p2p": 0}
    with_counter = at(0, page(100, 10, external_prefix_cache_hits_total=5), sources(10, 5)) + at(
        1, page(200, 50, external_prefix_cache_hits_total=25), sources(50, 25)
    )
    (one,) = read(with_counter).increases
    assert one.external_hit == 20


@pytest.mark.parametrize(
    ("pages_of", "expected"),
    [
        pytest.param([(100, 50), (250, 110), (40, 10), (60, 15)], (150 + 40 + 20, 60 + 10 + 5), id="fell"),
        pytest.param([(100, 50), (120, 40)], (120, 40), id="hits-alone-fell"),
        pytest.param([(100, 50), ("NaN", 60), (300, 90)], (200, 40), id="nan"),
        pytest.param([(100, 50), (None, 60), (300, 90)], (200, 40), id="queries-missing"),
        pytest.param([(100, 50), ("+Inf", 60), (300, 90)], (200, 40), id="infinite"),
        pytest.param([("1e+02", "5.0e+01"), ("3.0e+06", "1.5e+06")], (2_999_900, 1_499_950), id="scientific"),
    ],
)
def test_resets_and_values_that_are_none(pages_of: list[tuple[Any, Any]], expected: tuple[int, int]) -> None:
    assert sums("".join(at(10 * n, page(*values)) for n, values in enumerate(pages_of))) == expected


def test_a_restart_that_overtook_the_old_value_shows_by_when_the_counter_began() -> None:
    def made(second: int, queries: int, hits: int, began: float) -> str:
        return at(second, page(queries, hits, prefix_cache_queries_created=began))

    found = read(made(1000, 100, 50, 900.5) + made(1010, 400, 80, 1005.25))
    (one,) = found.increases
    assert (one.queried, one.hit, one.began_anew) == (400, 80, True)
    assert found.engines[0].resets_s == [1010]


def test_an_engine_that_was_upgraded_began_anew_under_the_new_name() -> None:
    text = at(0, page(100, 50, prefix="vllm:gpu_prefix_cache")) + at(10, page(150, 60))
    assert sums(text) == (150, 60)


@pytest.mark.parametrize(
    "spelling",
    [
        {"prefix": "vllm:gpu_prefix_cache"},
        {"prefix": "vllm:prefix_cache", "suffix": ""},
        {"prefix": "vllm_prefix_cache"},
        {"prefix": "vllm:gpu_prefix_cache", "suffix": ""},
    ],
    ids=str,
)
def test_names_of_all_versions(spelling: dict[str, str]) -> None:
    assert sums(at(0, page(10, 5, **spelling)) + at(1, page(30, 10, **spelling))) == (20, 5)


def test_a_page_with_old_and_new_names_counts_once() -> None:
    def both(queries: int, hits: int) -> str:
        return page(queries, hits, prefix="vllm:gpu_prefix_cache") + page(queries, hits)

    assert sums(at(0, both(10, 5)) + at(1, both(30, 10))) == (20, 5)


def test_blocks_and_tokens_are_not_summed() -> None:
    old = {"prefix": "vllm:gpu_prefix_cache", "unit": "queried blocks"}
    found = read(at(0, page(10, 5, **old)) + at(1, page(30, 10, **old)))
    assert found.unit == "blocks"
    with pytest.raises(InputError, match="cannot be summed; analyze them apart"):
        read(at(0, page(10, 5, **old)) + at(1, page(300, 100)))


def test_two_engines_and_two_models_on_a_page_are_kept_apart() -> None:
    names = ['engine="0",model_name="m"', 'engine="1",model_name="m"', 'engine="0",model_name="n"']
    text = at(0, *(page(0, 0, labels=name) for name in names))
    # The second restarts: its 10 would be a step back for one sum of all.
    text += at(1, *(page(100 * n, 10 * n, labels=name) for n, name in enumerate(names, 1)))
    text += at(
        2, page(150, 15, labels=names[0]), page(10, 1, labels=names[1]), page(300, 30, labels=names[2])
    )
    found = read(text)
    assert [len(engine.increases) for engine in found.engines] == [2, 2, 2]
    assert sums(text) == (100 + 200 + 300 + 50 + 10 + 0, 10 + 20 + 30 + 5 + 1 + 0)


def test_an_engine_that_comes_later_counts_from_when_it_began_or_not_at_all() -> None:
    first = at(1000, page(100, 50))

    def late(**began: Any) -> str:
        return at(1010, page(100, 50), page(70, 7, labels='engine="1",model_name="m"', **began))

    found = read(first + late())
    assert (sums(first + late()), found.engines[1].left_out) == ((0, 0), 70)
    assert sums(first + late(prefix_cache_queries_created=1004.0)) == (70, 7)
    assert sums(first + late(prefix_cache_queries_created=400.0)) == (0, 0)


def test_missing_scrapes_lose_nothing_and_are_counted() -> None:
    times = [0, 10, 20, 30, 60, 70]  # those at 40 and 50 are missing
    found = read("".join(at(second, page(2 * second, second)) for second in times))
    over_time = windows(found.increases, 0, 10)
    assert [(one.from_s, one.to_s, one.queried) for one in over_time] == [
        (0, 10, 20), (10, 20, 20), (20, 30, 20), (30, 60, 60), (60, 70, 20)
    ]  # fmt: skip
    assert found.engines[0].missing_scrapes == 2


def test_a_scrape_between_the_two_counters_is_no_rate_above_one() -> None:
    # The lookup of 100 tokens is counted before the scrape at 10, its hit after it.
    found = read(at(0, page(0, 0)) + at(10, page(100, 0)) + at(20, page(100, 90)))
    over_time = windows(found.increases, 0, 10)
    assert [one.hit_rate for one in over_time] == [0, None]
    assert total(at(0, page(0, 0)) + at(10, page(100, 0)) + at(20, page(100, 90))).hit_rate == 0.9


def test_hits_that_stop_need_more_than_one_long_new_prompt() -> None:
    def stopped(*steps: tuple[int, int]) -> Any:
        return hits_stopped([Window(n, n + 1, *step, 0, 0, 0) for n, step in enumerate(steps)])

    assert stopped((1000, 500), (999, 0)) is None  # too little to tell
    assert stopped((1000, 500), (400, 0), (600, 0)).queried == 1000
    assert stopped((1000, 500), (2000, 0), (1000, 500), (4000, 0)) is None  # as before
    assert stopped((1000, 500), (2000, 0), (1000, 500), (4001, 0)).after_s == 3
    assert stopped((5000, 0), (5000, 0)) is None  # it never hit anything: no stop


def test_a_dip_is_a_window_under_half_of_the_usual_rate_between_others() -> None:
    def found(*rates: float) -> list[float]:
        made = [Window(n, n + 1, 100, round(100 * rate), 0, 0, 0) for n, rate in enumerate(rates)]
        return [one.from_s for one in dips(made)]

    assert found(0.8, 0.8, 0.3, 0.8, 0.8) == [2]
    assert found(0.0, 0.8, 0.8, 0.8, 0.8, 0.0) == []  # a cold start, and an end that may be another matter
    assert found(0.8, 0.3, 0.8, 0.8) == []  # too few windows


@given(
    steps=st.lists(
        st.tuples(st.integers(0, 500), st.integers(0, 100), st.booleans()), min_size=1, max_size=12
    ),
    step_s=st.sampled_from([7.0, 10.0, 25.0, 1000.0]),
)
def test_windows_of_any_length_hold_every_increase_once(
    steps: list[tuple[int, int, bool]], step_s: float
) -> None:
    queries, hits, text = 0, 0, at(0, page(0, 0))
    expected = [0, 0]
    for n, (queried, percent, restarted) in enumerate(steps, 1):
        hit = queried * percent // 100
        # A restart shows where what is counted since is less than what was there before.
        if restarted and queried < queries and hit <= hits:
            queries, hits = 0, 0
        queries, hits = queries + queried, hits + hit
        expected = [expected[0] + queried, expected[1] + hit]
        text += at(10 * n, page(queries, hits))
    over_time = windows(read(text).increases, 0, step_s)
    assert [sum(one.queried for one in over_time), sum(one.hit for one in over_time)] == expected
    # The first increase of a window may begin before it.
    assert all(one.to_s - one.from_s < step_s + 10 for one in over_time)
