"""What a log tells of its calls beside their prompts: failed, sent again, streamed, cut, with media."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvtools.flow import AnalyzeOptions, ReplayOptions, analyze, replay
from kvtools.profile.calls import failed
from kvtools.report.model import Coverage, Report
from kvtools.report.text import render_text


def _report(tmp_path: Path, *lines: dict, input_format: str = "chat-jsonl", **options: object) -> Report:
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join(map(json.dumps, lines)))
    return analyze(log, AnalyzeOptions(tokenizer="bytes", input_format=input_format, **options))


def _coverage(tmp_path: Path, *lines: dict, **options: object) -> Coverage:
    return _report(tmp_path, *lines, **options).coverage


def test_what_the_log_does_not_say_is_null(tmp_path: Path) -> None:
    coverage = _coverage(tmp_path, {"prompt": "x"})
    assert (coverage.failed, coverage.retries, coverage.streamed) == (None, None, None)
    assert (coverage.truncated_prompts, coverage.with_media, coverage.bad_arguments) == (0, 0, 0)


@pytest.mark.parametrize(
    "status", ["502", "400", "error", "FAILURE", "Timeout", "ReadTimeout", "cancelled", "aborted"]
)
def test_statuses_of_failed_calls(status: str) -> None:
    assert failed(status)


@pytest.mark.parametrize(
    "status", [None, "200", "0", "1", "ok", "success", "completed", "stop", "4294967295", "cache_hit"]
)
def test_statuses_of_calls_that_did_not_fail(status: str | None) -> None:
    assert not failed(status)


def test_a_retry_follows_a_failed_call_with_the_same_prompt_soon(tmp_path: Path) -> None:
    lines = [
        {"ts": 0, "prompt": "p", "model": "m", "status": 503},
        {"ts": 5, "prompt": "p", "model": "m", "status": 503},  # a retry, which fails too
        {"ts": 6, "prompt": "q", "model": "m", "status": 200},  # another prompt
        {"ts": 7, "prompt": "p", "model": "other", "status": 200},  # another namespace
        {"ts": 9, "prompt": "p", "model": "m", "status": 200},  # the retry of the retry
        {"ts": 10, "prompt": "p", "model": "m", "status": 200},  # the call before it did not fail
    ]
    coverage = _coverage(tmp_path, *lines)
    assert (coverage.failed, coverage.retries) == (2, 2)
    # Kept: all of them are lookups.
    report = _report(tmp_path, *lines)
    assert report.requests == 6
    assert "2 failed, 2 retries: counted as lookups" in render_text(report)


@pytest.mark.parametrize(
    ("gap_s", "latency_s", "retries"), [(120, None, 1), (121, None, 0), (150, 60, 1), (181, 60, 0)]
)
def test_how_soon_a_retry_comes(tmp_path: Path, gap_s: int, latency_s: int | None, retries: int) -> None:
    lines = [
        {"ts": 1, "prompt": "p", "status": "timeout", "latency_s": latency_s},
        {"ts": 1 + gap_s, "prompt": "p", "status": "ok"},
    ]
    assert _coverage(tmp_path, *lines).retries == retries


def test_retries_are_the_same_however_the_log_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [{"ts": n, "prompt": "p" if n % 3 else "q", "status": 500 if n % 2 else 200} for n in range(40)]
    whole = _coverage(tmp_path, *lines)
    monkeypatch.setattr("kvtools.readers.base.CHUNK_BYTES", 100)
    assert _coverage(tmp_path, *lines) == whole
    assert whole.retries > 0


def test_a_call_that_was_never_sent_is_tried_again_too(tmp_path: Path) -> None:
    lines = [
        {"ts": 1, "prompt": "p", "status": "connection_error"},
        {"ts": 2, "prompt": "p", "status": "ok"},
    ]
    coverage = _coverage(tmp_path, *lines)
    assert (coverage.not_sent, coverage.failed, coverage.retries) == (1, 0, 1)


def _spend(number: int, **fields: object) -> dict:
    return {
        "request_id": f"r{number}",
        "call_type": "acompletion",
        "startTime": f"2026-07-27T10:00:{number:02d}Z",
        "messages": [{"role": "user", "content": f"{number}" * 40}],
        "status": "success",
        **fields,
    }


def test_streamed_and_marked_retries_of_a_gateway(tmp_path: Path) -> None:
    lines = [
        _spend(1, proxy_server_request={"stream": True}),
        _spend(2, proxy_server_request={"stream": False}),
        _spend(3, metadata={"attempted_retries": 2}),
        _spend(4, metadata={"attempted_retries": 0}),
    ]
    coverage = _coverage(tmp_path, *lines, input_format="litellm")
    assert (coverage.streamed, coverage.retries, coverage.failed) == (1, 1, 0)


def test_replay_states_the_same_coverage(tmp_path: Path) -> None:
    lines = [{"ts": n, "prompt": "p", "status": 500} for n in range(3)]
    coverage = _coverage(tmp_path, *lines)
    assert coverage.retries == 2
    assert replay(tmp_path / "log.jsonl", ReplayOptions(tokenizer="bytes")).coverage == coverage


def _usage(prompt_tokens: int) -> dict:
    return {"prompt_tokens": prompt_tokens}


def _chat(*contents: str, role: str = "user") -> dict:
    return {"messages": [{"role": role, "content": content} for content in contents]}


@pytest.mark.parametrize(
    ("line", "cut"),
    [
        # Sign 1: a mark at the end of a text.
        ({"prompt": "a long text...(truncated)"}, 1),
        ({"prompt": "a long text… [Truncated]\n"}, 1),
        (_chat("instructions ...<truncated>", "question"), 1),
        (_chat("a... (litellm_truncated 9000 chars) ...b"), 1),
        (_chat("why does it say ...(truncated) here?"), 0),  # in the middle: somebody's own words
        (_chat("why was it truncated"), 0),
        (_chat("result ...(truncated)", role="tool"), 0),  # agents shorten results, and send them so
        # The server counted what we count: the mark was part of what was sent.
        ({"prompt": "a long text...(truncated)", "usage": _usage(25)}, 0),
        ({"prompt": "a long text...(truncated)", "usage": _usage(900)}, 1),
        # Sign 2: more tokens than bytes and 1,024 more. JSON around messages counts as bytes.
        ({"prompt": "x" * 100, "usage": _usage(1_124)}, 0),
        ({"prompt": "x" * 100, "usage": _usage(1_125)}, 1),
        ({"prompt": "春" * 100, "usage": _usage(1_324)}, 0),  # three bytes each
        ({"prompt": "春" * 100, "usage": _usage(1_325)}, 1),
        (_chat("x" * 100) | {"usage": _usage(1_100)}, 0),
        (_chat("x" * 100) | {"usage": _usage(1_300)}, 1),
        (
            {
                "messages": [
                    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x/1"}}]}
                ],
                "usage": _usage(5_000),
            },
            0,
        ),
    ],
)
def test_signs_of_a_cut_prompt(tmp_path: Path, line: dict, cut: int) -> None:
    assert _coverage(tmp_path, line).truncated_prompts == cut


def _server_line(number: int, prompt: str, ids: list[int] | None = None) -> str:
    given = f"prompt_token_ids: {ids}, " if ids is not None else ""
    return (
        f"INFO 08-01 12:00:{number:02d} [logger.py:39] Received request r{number}: prompt: {prompt!r}, "
        f"params: SamplingParams(n=1), {given}lora_request: None."
    )


def _server_log(tmp_path: Path, *lines: str) -> Report:
    (tmp_path / "vllm.log").write_text("\n".join(lines))
    return analyze(tmp_path / "vllm.log", AnalyzeOptions(tokenizer="bytes"))


def test_prompts_that_a_server_cut_at_one_length(tmp_path: Path) -> None:
    # --max-log-len 50: whole prompts of other lengths, and nine that stop after 50 characters wherever that is.
    text = "It was the best of times, it was the worst of times, it was the age of wisdom, it was"
    whole = [_server_line(n, text[: 20 + n]) for n in range(9)]
    cut = [_server_line(10 + n, text[n : n + 50]) for n in range(9)]
    report = _server_log(tmp_path, *whole, *cut)
    assert report.coverage.truncated_prompts == 9
    assert report.requests == 18  # kept
    assert "CUT by the logger: 9 prompts; hits and lengths are those of what is left" in render_text(report)
    # Seven could be chance; and a template ends all prompts alike, whatever their length.
    assert _server_log(tmp_path, *whole, *cut[:7]).coverage.truncated_prompts == 0
    ended = [_server_line(n, f"{n:02d} {'x' * 20}<|im_start|>assistant\n") for n in range(20)]
    assert _server_log(tmp_path, *ended).coverage.truncated_prompts == 0


def test_as_many_ids_as_characters_give_a_cut_away(tmp_path: Path) -> None:
    # --max-log-len 40: of the first the ids are whole (12 for 40 characters), of the others both were cut.
    first = _server_line(0, "a" * 40, list(range(12)))
    cut = [_server_line(n, f"{n}" * 40, list(range(40))) for n in (1, 2)]
    assert _server_log(tmp_path, first, *cut).coverage.truncated_prompts == 2
    assert _server_log(tmp_path, first, cut[0]).coverage.truncated_prompts == 0
    # With a tokenizer of bytes every prompt has as many: no sign of anything.
    plain = _server_line(3, "b" * 20, list(range(20)))
    assert _server_log(tmp_path, first, *cut, plain).coverage.truncated_prompts == 0


def test_a_cut_is_the_same_however_the_log_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "It was the best of times, it was the worst of times, it was the age of wisdom, it was the age"
    lines = [{"prompt": text[n : n + 50]} for n in range(12)] + [{"prompt": text[:30]}] * 5
    assert _coverage(tmp_path, *lines).truncated_prompts == 12
    monkeypatch.setattr("kvtools.readers.base.CHUNK_BYTES", 60)
    assert _coverage(tmp_path, *lines).truncated_prompts == 12
    assert _coverage(tmp_path, *lines[::-1]).truncated_prompts == 12


def test_arguments_that_are_no_object_are_counted(tmp_path: Path) -> None:
    calls = [{"function": {"name": "get", "arguments": text}} for text in ("{oops", "[1]")]
    lines = (
        {"messages": [{"role": "assistant", "content": "", "tool_calls": calls}]},
        {
            "messages": [
                {
                    "role": "assistant",
                    "content": "",
                    "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}],
                }
            ]
        },
    )
    report = _report(tmp_path, *lines, chat_template="chatml")
    assert report.coverage.bad_arguments == 1
    assert "1 request with tool-call arguments that are no JSON object" in render_text(report)
