from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kvtools.readers import READERS
from kvtools.readers.vllm_log import READER, printed_hit_rate

if TYPE_CHECKING:
    from conftest import Reader

REST = "params: SamplingParams(n=1, max_tokens=5), prompt_token_ids: None, lora_request: None."
STATS = (
    "INFO 02-13 11:33:39 [loggers.py:257] Engine 000: Avg prompt throughput: 0.8 tokens/s, Running: 0 reqs, "
    "GPU KV cache usage: 0.0%, Prefix cache hit rate: 12.3%, External prefix cache hit rate: 4.0%"
)


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(READERS, READER.name, READER)


def line(rest: str, own_id: str = "r", clock: str = "08-01 12:00:00") -> str:
    return f"INFO {clock} [logger.py:39] Received request {own_id}: {rest}"


def test_074_a_log_without_prompts(paths: Reader, shared: Path) -> None:
    (case,) = (shared / "cases").glob("074-*")
    expected = json.loads((case / "expected.json").read_text())
    reading = paths(case / "input.log", input_format="vllm-log")
    assert (len(reading.rows), reading.rejects) == (expected["requests"], [])
    assert sum(prompt is not None for prompt in reading.column("prompt")) == expected["prompts"]
    rates = map(printed_hit_rate, (case / "input.log").read_text().split("\n"))
    assert [rate for rate in rates if rate is not None] == expected["hit_rate_samples"]


def test_075_a_prompt_is_a_python_literal(paths: Reader, shared: Path) -> None:
    (case,) = (shared / "cases").glob("075-*")
    expected = json.loads((case / "expected.json").read_text())
    reading = paths(case / "input.log", input_format="vllm-log")
    assert reading.column("prompt") == [expected["r1"], expected["r2"]]
    assert (reading.column("arrival_us"), reading.rejects) == ([0, 1_000_000], [])


@pytest.mark.parametrize(
    "prompt",
    [
        "x",
        "it's",
        'say "hi"',
        "both ' and \"",
        "\\",
        "\\'",
        "a\nb\tc\r",
        "\x00\x1b[0m\x85",
        "\u2028春游\U0001f600",
        "', params: x",
        "None",
    ],
)
def test_whatever_repr_writes_is_read_back(lines_as: Reader, prompt: str) -> None:
    reading = lines_as("vllm-log", line(f"prompt: {prompt!r}, {REST}"), line(f"prompt: {prompt!a}, {REST}"))
    assert reading.column("prompt") == [prompt, prompt]


def test_a_line_separator_as_it_is(lines_as: Reader) -> None:
    assert lines_as("vllm-log", line(f"prompt: 'a\u2028b', {REST}")).column("prompt") == ["a\u2028b"]


def test_what_a_line_says(lines_as: Reader) -> None:
    (row,) = lines_as(
        "vllm-log",
        "\x1b[1;36m(APIServer pid=7)\x1b[0;0m \x1b[32mINFO\x1b[0m 08-01 12:00:00 [entrypoints/logger.py:39] Received request "
        "cmpl-1: prompt: 'hi', params: SamplingParams(n=3, stop=[', prompt_token_ids: [9]'], prompt_logprobs=1), "
        "prompt_token_ids: [1, 2, 3], lora_request: LoRARequest(lora_name='sql', lora_int_id=1).",
    ).rows
    row.pop("source")
    assert row == {
        "request_id": "cmpl-1",
        "arrival_us": 0,
        "namespace": "adapter=sql",
        "prompt": "hi",
        "token_ids": [1, 2, 3],
        "prompt_tokens": 3,
        "samples": 3,
        "skip_lookup": 1,
    }


def test_a_prompt_at_the_level_debug_is_joined_with_its_request(lines_as: Reader) -> None:
    details = "DEBUG 08-01 12:00:00 [request_logger.py:49] Request {} details: prompt: {}, prompt_token_ids: {}, prompt_embeds shape: None."
    reading = lines_as(
        "vllm-log",
        details.format("a", "'A'", "[1, 2]"),
        details.format("b", "None", "[3]"),
        line("params: SamplingParams(n=1), lora_request: None.", "b"),
        line("params: SamplingParams(n=2), lora_request: None.", "a"),
        details.format("c", "'C'", "None"),
    )
    assert reading.column("request_id") == ["b", "a", "c"]  # the request of the last was never logged
    assert reading.column("prompt") == [None, "A", "C"]
    assert reading.column("token_ids") == [[3], [1, 2], None]
    assert reading.column("samples") == [None, 2, None]
    assert reading.records == 3


def test_other_lines_are_no_records(lines_as: Reader) -> None:
    reading = lines_as(
        "vllm-log",
        STATS,
        "INFO 08-01 12:00:00 [async_llm.py:382] Added request r.",
        'INFO:     127.0.0.1:57722 - "POST /v1/completions HTTP/1.1" 200 OK',
        "WARNING 08-01 12:00:00 [x.py:1] the user said: Received request r: prompt: 'x'",
        "Traceback (most recent call last):",
        b"\xff\xfe\x00",
        line("params: SamplingParams(n=1), lora_request: None."),
    )
    assert (len(reading.rows), reading.records) == (1, 1)


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        (line("prompt: 'cut o"), "bad_prompt"),
        (line("prompt: 'a\\d', " + REST), "bad_prompt"),
        (line("prompt: '\\ud800', " + REST), "bad_prompt"),
        (line("prompt: '\\U00110000', " + REST), "bad_prompt"),
        (line("prompt: '\x00', " + REST), "bad_prompt"),
        (line("prompt: __import__('os'), " + REST), "bad_prompt"),
        (line("prompt: 'x', prompt_token_ids: [1, 2"), "bad_token_ids"),
        (line("prompt: 'x', prompt_token_ids: [1, x]"), "bad_token_ids"),
        (line("prompt: 'x', prompt_token_ids: [2147483648]"), "bad_token_ids"),
        (line("par"), "cut_line"),
        # Behind the prompt stands the adapter, and what it computed is never shared with the plain model.
        (line("prompt: 'x', params: SamplingParams(n=1, temperature=0."), "cut_line"),
        (
            line("prompt: 'x', params: SamplingParams(n=1), lora_request: LoRARequest(lora_name='sql"),
            "cut_line",
        ),
        (line("params: SamplingParams(n=1), lora_req"), "cut_line"),
        ("INFO 08-01 12:00:00 [logger.py:39] Received request chatc", "cut_line"),
        (line("prompt: 'x', " + REST, clock="13-45 12:00:00"), "bad_time"),
        (line("prompt: 'x").encode() + b"\xff'", "bad_utf8"),
    ],
)
def test_rejects(lines_as: Reader, written: str | bytes, reason: str) -> None:
    reading = lines_as("vllm-log", written, line(f"prompt: 'y', {REST}"))
    assert (reading.reasons, reading.column("prompt"), reading.records) == ([reason], ["y"], 2)
    assert all(len(detail) < 100 for _, _, detail in reading.rejects)


@pytest.mark.parametrize(
    ("clocks", "seconds"),
    [
        (["08-01 12:00:00", "08-01 12:00:05", "08-02 12:00:00"], [0, 5, 86_400]),
        (["12-31 23:59:59", "01-01 00:00:01", "12-31 23:59:58"], [0, 2, -1]),
        (["02-28 00:00:00", "03-01 00:00:00"], [0, 86_400]),
        (["02-28 00:00:00", "02-29 00:00:00", "03-01 00:00:00"], [0, 86_400, 2 * 86_400]),
    ],
)
def test_times_without_a_year_count_from_the_first(
    lines_as: Reader, clocks: list[str], seconds: list[int]
) -> None:
    reading = lines_as("vllm-log", *(line(REST, clock=clock) for clock in clocks))
    assert reading.column("arrival_us") == [1_000_000 * second for second in seconds]


def test_a_full_time_in_front_of_the_line_is_the_arrival(lines_as: Reader) -> None:
    stamped = f"2026-07-15T08:00:00.5Z {line(REST)}"
    reading = lines_as("vllm-log", stamped, line(REST))
    assert reading.column("arrival_us") == [1_784_102_400_500_000, None]


@pytest.mark.parametrize(
    ("written", "rate"),
    [
        (STATS, 0.123),
        ("INFO 08-01 12:00:00 metrics.py:455] Prefix cache hit rate: GPU: 50.00%, CPU: 0.00%", 0.5),
        ("External prefix cache hit rate: 4.0%", None),
        ("Prefix cache hit rate: nan%", None),
        ("Avg prompt throughput: 0.8 tokens/s", None),
    ],
)
def test_the_printed_hit_rate(written: str, rate: float | None) -> None:
    assert printed_hit_rate(written) == (None if rate is None else pytest.approx(rate))


def test_sniffing() -> None:
    for head in (
        STATS,
        line(REST),
        "INFO:   uvicorn\n" + STATS,
        "INFO 08-01 12:00:00 logger.py:39] x",
        "\x1b[32mINFO\x1b[0m 08-01 12:00:00 \x1b[90m[x.py:1]\x1b[0m x",
    ):
        assert READER.sniff(head.encode())
    other: Any = [
        b"",
        b"{}",
        json.dumps({"prompt": STATS}).encode(),
        b"INFO:  uvicorn",
        b"[2025-07-18 15:32:52 TP0] Prefill batch.",
    ]
    for head in other:
        assert not READER.sniff(head)
