"""Requests without a prompt: what such a log says, and what it says it cannot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvtools.errors import InputError
from kvtools.flow import AnalyzeOptions, analyze
from kvtools.report.model import Report
from kvtools.report.numbers import seconds
from kvtools.report.text import render_text


def _report(tmp_path: Path, *lines: dict, **options: object) -> Report:
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join(map(json.dumps, lines)))
    return analyze(
        log, AnalyzeOptions(tokenizer="bytes", block_size=4, **({"input_format": "chat-jsonl"} | options))
    )


def _usage(prompt: int | None, output: int | None = None, cached: int | None = None) -> dict:
    return {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def _supported(report: Report) -> set[str]:
    return {answer.name for answer in report.answers if answer.supported}


LENGTHS = (
    {"id": "a", "ts": 10, "usage": _usage(100, 10)},
    {"id": "b", "ts": 11, "usage": _usage(300, 30)},
    {"id": "c", "ts": 14, "usage": _usage(200)},
)


def test_lengths_and_arrivals_by_hand(tmp_path: Path) -> None:
    report = _report(tmp_path, *LENGTHS)
    traffic = report.traffic
    assert (traffic.requests, traffic.arrivals) == (3, 3)
    assert (traffic.period.first_us, traffic.period.last_us) == (10_000_000, 14_000_000)
    assert traffic.rate_per_s == 2 / 4  # two gaps, 1 s and 3 s
    gaps = traffic.interarrival_s
    assert (gaps.mean, gaps.p50, gaps.max) == (2, 2, 3)
    assert gaps.p95 == pytest.approx(1 + 0.95 * 2)
    lengths = traffic.prompt_tokens
    assert (lengths.requests, lengths.total, lengths.mean, lengths.p50, lengths.max) == (
        3,
        600,
        200,
        200,
        300,
    )
    assert lengths.std == pytest.approx((20_000 / 3) ** 0.5)
    assert (traffic.output_tokens.requests, traffic.output_tokens.total) == (2, 40)
    assert traffic.reported is None
    assert report.coverage.without_prompt == 3
    assert _supported(report) == {"arrivals", "prompt_lengths", "output_lengths"}
    why = {answer.name: answer.why for answer in report.answers}
    assert why["hit_rate"] == "no request has a prompt, token ids or block ids"
    assert why["output_lengths"] == "2 of 3 requests"
    assert Report.from_json(report.to_json()) == report


def test_the_page_says_first_what_cannot_be_answered(tmp_path: Path) -> None:
    page = render_text(_report(tmp_path, *LENGTHS), again="kvtools analyze x").split("\n")
    assert page[0] == "This log has no prompts: hit rates cannot be replayed from it; it has arrivals,"
    assert page[1] == "prompt lengths and output lengths."
    assert page[2] == "  3 requests · 600 prompt tokens · 4 s long"
    assert "Prompts        200 ± 82 tokens (p50 200, p95 290, max 300)" in page
    assert "Outputs        20 ± 10 tokens (p50 20, p95 29, max 30) · 2 of 3 requests" in page
    assert all(len(line) <= 80 for line in page)
    assert page[-2] == "Next: kvtools analyze x --format json"
    assert "  hit rate as reported: no request has both cached and prompt tokens reported" in page
    assert any("store_prompts_in_spend_logs" in line for line in page)


def test_the_servers_own_rate_is_joined_per_request(tmp_path: Path) -> None:
    # Only a has both sides; of b the prompt tokens are missing, of c the hits.
    lines = (
        {"id": "a", "usage": _usage(100, cached=64)},
        {"id": "b", "usage": _usage(None, cached=64)},
        {"id": "c", "usage": _usage(100)},
    )
    report = _report(tmp_path, *lines)
    reported = report.traffic.reported
    assert (reported.requests, reported.left_out_requests) == (1, 2)
    assert (reported.cached_tokens, reported.prompt_tokens, reported.hit_rate) == (64, 100, 0.64)
    page = render_text(report)
    assert page.startswith(
        "This log has no prompts: hit rates cannot be replayed from it; the server\nreported 64.0 % hit."
    )
    assert "as the server reported them, not replayed" in page
    assert "2 requests left out" in page


def test_a_mixed_log_reports_both(tmp_path: Path) -> None:
    lines = (
        {"id": "a", "ts": 1, "prompt": "abcdefghij", "usage": _usage(10)},
        {"id": "b", "ts": 2, "prompt": "abcdefghij", "usage": _usage(11)},
        {"id": "c", "ts": 3, "usage": _usage(500)},
    )
    report = _report(tmp_path, *lines)
    # Of the two prompts the second hits its two full blocks of four.
    assert (report.requests, report.cache.hit_tokens, report.cache.queried_tokens) == (2, 8, 20)
    assert (report.period.last_us, report.traffic.period.last_us) == (2_000_000, 3_000_000)
    # Lengths as the log has them: 10 + 11 + 500.
    assert (report.traffic.requests, report.traffic.prompt_tokens.total) == (3, 521)
    assert next(a for a in report.answers if a.name == "hit_rate").why == "2 of 3 requests"
    page = render_text(report)
    assert "  in all, with and without prompt: 3 requests · 521 prompt tokens\n" in page
    # 10, 11, 500: mean 173.7, deviations 163.7, 162.7, 326.3.
    assert "All, as logged 174 ± 231 tokens (p50 11, p95 451, max 500)\n" in page


def test_a_length_that_is_not_logged_is_the_tokenizers(tmp_path: Path) -> None:
    report = _report(tmp_path, {"prompt": "abcdefghij"}, {"prompt": "xy", "usage": _usage(7)})
    assert report.traffic.prompt_tokens.total == 17


def test_calls_that_no_engine_saw_are_no_traffic(tmp_path: Path) -> None:
    lost = {"ts": 1, "status": "connection_error", "usage": _usage(100)}
    report = _report(tmp_path, lost, *LENGTHS)
    assert (report.traffic.requests, report.coverage.not_sent, report.coverage.without_prompt) == (3, 1, 3)


def test_records_that_say_nothing_remain_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no request with a prompt"):
        _report(tmp_path, {"id": "a"}, {"id": "b", "prompt": ""})


def test_072_lengths_of_rows_without_prompt_count_as_traffic(shared: Path) -> None:
    (case,) = (shared / "cases").glob("072-*")
    expected = json.loads((case / "expected.json").read_text())
    report = analyze(case / "input.jsonl")
    assert (report.requests, report.coverage.without_prompt) == (expected["usable"], expected["no_prompt"])
    assert report.traffic.prompt_tokens.total == expected["prompt_tokens"] == 910


def test_074_a_server_log_without_prompts(shared: Path) -> None:
    (case,) = (shared / "cases").glob("074-*")
    report = analyze(case / "input.log")
    assert (report.traffic.requests, report.requests, report.cache) == (1, 0, None)
    assert render_text(report).startswith("This log has no prompts: ")


@pytest.mark.parametrize(
    ("name", "requests", "prompt", "output"),
    # Sums and counts by awk over the columns.
    [("code", 8_819, 18_059_974, 245_896), ("conv", 19_366, 22_361_870, 4_088_665)],
)
def test_the_azure_traces(shared: Path, name: str, requests: int, prompt: int, output: int) -> None:
    report = analyze(shared / f"data/azure_llm_2023/AzureLLMInferenceTrace_{name}.csv")
    traffic = report.traffic
    assert (traffic.requests, traffic.arrivals) == (requests, requests)
    assert (traffic.prompt_tokens.total, traffic.output_tokens.total) == (prompt, output)
    assert _supported(report) == {"arrivals", "prompt_lengths", "output_lengths"}


def test_seconds_for_people() -> None:
    assert [seconds(0.0206), seconds(4.52), seconds(1_300)] == ["0.021 s", "4.5 s", "1,300 s"]
