from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvtools.errors import InputError
from kvtools.flow import AnalyzeOptions, analyze
from kvtools.report.build import curve_sizes
from kvtools.report.model import Report
from kvtools.report.numbers import bars, blocks, percent, period, short
from kvtools.report.text import render_text

# Prompts in the bytes tokenizer, block 4. A: "abcdefghij" (10), B: "abcdefghXY" (10), C: "abcdefghij" (10), D: "zzz" (3).
# Hits by hand: A 0, B 8 (two blocks), C 8 (two full blocks; the third holds 2 tokens), D 0: 16 of 33.
LINES = [
    {"id": "a", "ts": 1, "tenant": "t", "prompt": "abcdefghij"},
    {"id": "b", "ts": 2, "tenant": "t", "prompt": "abcdefghXY"},
    {"id": "c", "ts": 3, "tenant": "u", "prompt": "abcdefghij"},
    {"id": "d", "ts": 4, "tenant": "u", "prompt": "zzz"},
]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(map(json.dumps, LINES)) + "\n{broken\n")
    return path


def _analyze(log: Path, **options: object) -> Report:
    return analyze(log, AnalyzeOptions(tokenizer="bytes", block_size=4, **options))


def test_figures_by_hand(log: Path) -> None:
    report = _analyze(log)
    assert (report.cache.hit_tokens, report.cache.queried_tokens) == (16, 33)
    assert report.coverage.read == 5
    assert report.coverage.rejected_by_reason == {"bad_json": 1}
    assert (report.prompt_tokens.total, report.prompt_tokens.max, report.prompt_tokens.p50) == (33, 10, 10)
    assert report.prompt_tokens.mean == 8.25
    assert round(report.prompt_tokens.std**2, 6) == round((3 * 1.75**2 + 5.25**2) / 4, 6)
    # Shingles: A, C 6 each; B 6, of which 4 with A; D none. Pairs: 4/8, 4/8, 0/6.
    assert report.similarity.jaccard_consecutive == pytest.approx(1 / 3)
    # Full blocks 2, 2, 2, 0: pairs 2/2, 2/2, 0/2.
    assert report.similarity.prefix_jaccard_consecutive == pytest.approx(2 / 3)
    assert [(r.route, r.cache.hit_tokens, r.cache.queried_tokens) for r in report.routes] == [
        ("t", 8, 20),
        ("u", 8, 13),
    ]
    # Route t: both prompts' shingles occur in half of its two requests at least. Route u: D has 3 tokens and no shingle.
    assert report.variable_share == pytest.approx(3 / 33)


def test_replay_runs_by_arrival_but_equal_times_keep_the_order_of_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join(json.dumps(line) for line in (LINES[3], LINES[2], LINES[0])))
    report = _analyze(log, measure_from=0.34)  # of three requests by time, the first only fills the cache
    assert report.settings.order == "arrival"
    # a (1 s) fills; c (3 s) hits 8; d (4 s) hits 0.
    assert (report.cache.hit_tokens, report.cache.queried_tokens) == (8, 13)


def test_a_cache_too_small_says_so(log: Path) -> None:
    report = _analyze(log, capacity_blocks=1)
    # A, B and C need 3 blocks, so an engine of 1 block refuses them; D does one lookup of 3 tokens.
    assert report.cache.refused_requests == 3
    assert (report.cache.hit_tokens, report.cache.queried_tokens) == (0, 3)
    assert render_text(report).startswith(
        "3 of 4 requests do not fit into 1 block and are refused; 0.0 % of the others'\nprompt tokens hit."
    )
    # Ceiling and curve are about all requests, refused or not: their rates do not depend on the size asked for.
    assert report.ceiling.hit_rate == 16 / 33
    assert [point.hit_rate for point in report.curve] == [point.hit_rate for point in _analyze(log).curve]


def test_a_cache_into_which_nothing_fits_says_so(log: Path) -> None:
    report = analyze(log, AnalyzeOptions(tokenizer="bytes", block_size=1, capacity_blocks=2))
    assert report.cache.hit_rate is None
    assert render_text(report).startswith("No request fits into 2 blocks: nothing would run.")


def test_what_the_server_reported_is_compared(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    cached = {"a": 0, "b": 8, "c": 0}  # predicted: 0, 8, 8; of d nothing is reported
    lines = [line | ({"cached_tokens": cached[line["id"]]} if line["id"] in cached else {}) for line in LINES]
    log.write_text("\n".join(map(json.dumps, lines)))
    observed = _analyze(log).observed
    assert (observed.equal_requests, observed.different_requests) == (2, 1)
    assert (observed.predicted_hit_tokens, observed.observed_hit_tokens) == (16, 8)
    assert (observed.predicted_hit_rate, observed.observed_hit_rate) == (16 / 30, 8 / 30)
    (difference,) = observed.differences
    assert (difference.id, difference.predicted_hit_tokens, difference.observed_hit_tokens) == ("c", 8, 0)
    assert difference.reason.startswith("the engine found nothing")
    page = render_text(_analyze(log))
    assert "Predicted 53.33 %, the server counted 26.67 %: equal in 2 of 3 requests." in page


def test_conversations_are_told_apart_from_shared_heads(tmp_path: Path) -> None:
    # Block 4. s1 asks twice and resends itself; s2 begins with the same 4 characters. Hits by hand:
    # s1/1 "headAAAA" 0; s2/1 "headBBBB" 4 (across); s1/2 "headAAAAnext" 8, both blocks left by s1 or touched by s2:
    # "head" was touched last by s2 (across), "AAAA" by s1 (within).
    log = tmp_path / "log.jsonl"
    turns = [("s1", "headAAAA", 0), ("s2", "headBBBB", 10), ("s1", "headAAAAnext", 20)]
    lines = [{"session_id": name, "prompt": prompt, "ts": ts} for name, prompt, ts in turns]
    log.write_text("\n".join(map(json.dumps, lines)))
    figures = _analyze(log).sessions
    assert (figures.count, figures.requests, figures.by_id) == (1, 2, 3)
    assert (figures.within_hit_tokens, figures.across_hit_tokens) == (4, 8)
    assert figures.repeats_within_30_s == 1
    assert [(tier.requests, tier.prompt_tokens, tier.computed_tokens) for tier in figures.tiers] == [
        (3, 28, 16),
        (0, 0, 0),
        (0, 0, 0),
    ]
    assert "Conversations  1 of 2 requests · 1 again within 30 s" in render_text(_analyze(log))


def test_demand_over_capacity_is_named(tmp_path: Path) -> None:
    # 5 requests from 0, 1, 2, 3, 4 s to 10 s, 100 prompt and 4 output tokens: 7 blocks of 16 each. From 4 s on, 35 of 30.
    log = tmp_path / "log.jsonl"
    lines = [{"ts": n, "latency_s": 10 - n, "prompt": f"{n}" * 100, "output_tokens": 4} for n in range(5)]
    log.write_text("\n".join(map(json.dumps, lines)))
    report = analyze(log, AnalyzeOptions(tokenizer="bytes", capacity_blocks=30))
    assert (report.demand.peak_blocks, report.demand.over_capacity_us, report.demand.stretches) == (
        35,
        6_000_000,
        1,
    )
    assert "up to 35 blocks were needed of 30, too many for" in render_text(report)
    assert analyze(log, AnalyzeOptions(tokenizer="bytes", capacity_blocks=35)).demand.stretches == 0
    assert analyze(log, AnalyzeOptions(tokenizer="bytes")).demand is None


def test_a_report_survives_json(log: Path) -> None:
    report = _analyze(log)
    assert Report.from_json(report.to_json()) == report
    with pytest.raises(InputError, match="schema version 2"):
        Report.from_json(report.to_json().replace('"schema_version": 1', '"schema_version": 2'))
    with pytest.raises(InputError, match="not a kvtools report"):
        Report.from_json("[]")


def test_the_page_answers_first_and_fits_its_width(log: Path) -> None:
    again = "kvtools analyze logs " + "a-long-path/" * 9
    page = render_text(_analyze(log), again=again).split("\n")
    assert page[0] == "48.5 % of prompt tokens hit the prefix cache (unlimited, cold start)."
    assert all(len(line) <= 80 for line in page[:-2])
    # 2 blocks of "abcdefgh" hold 90 % of the hits; the command stands whole, however long.
    assert page[-2] == f"Next: {again} --capacity-blocks 2"
    assert not any("abcdefgh" in line for line in page)  # no prompt text


def test_a_zero_explains_itself(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text('{"prompt": "abcdefgh"}\n{"prompt": "xbcdefgh"}\n')
    page = render_text(_analyze(log))
    assert page.startswith("0.0 % hit rate: no two prompts share their first block of 4 tokens;")


def test_numbers_for_people() -> None:
    assert percent(0.28349) == "28.3 %"
    assert percent(None) == "n/a"
    assert (short(5_000), short(1_090_000), short(2_300_000_000)) == ("5,000", "1.09 M", "2.30 G")
    assert (blocks(64), blocks(2048), blocks(3 << 20), blocks(1500)) == ("64", "2k", "3M", "1,500")
    assert bars([0.0, 0.5, 1.0]) == " ▄█"
    assert curve_sizes(100) == [16, 32, 64, 128]
    assert period(1_784_073_600_000_000, 1_784_077_920_000_000) == "15 Jul 2026 00:00 - 01:12 UTC"
    assert period(1_784_073_600_000_000, 1_784_077_920_000_000, 480) == "15 Jul 2026 08:00 - 09:12 +0800"
    assert period(0, 90_000_000) == "90 s long"
