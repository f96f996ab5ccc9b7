"""Public bug reports about what a log holds besides text, and whose figures it carries."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from shared_case import Case

from kvtools.chat import ChatTemplate, load, malformed_arguments
from kvtools.flow import AnalyzeOptions, analyze
from kvtools.model import CacheSpec, ReplayResult
from kvtools.profile import Keying
from kvtools.readers.bodies import given_media
from kvtools.replay.compare import UNKNOWN, Observed, compare
from kvtools.report.compare import compare_figures
from kvtools.report.text import render_text
from kvtools.table import request_table
from kvtools.tokens import BytesTokenizer


@pytest.fixture(scope="module")
def cases(shared: Path) -> Path:
    return shared / "cases"


def _text_first(request: dict) -> dict:
    pre, image, text = request["segments"]
    (medium,) = request["mm"]
    place = pre[1] + text[1]
    return request | {"segments": [pre, text, image], "mm": [medium | {"offset": place}]}


def test_020_a_picture_in_front_of_a_shared_text(cases: Path) -> None:
    case = Case.load(cases, "020")
    assert case.hits() == case.expected["hits_image_first"] == [0, 0, 224]
    turned = Case(case.config, [_text_first(request) for request in case.requests], {})
    assert turned.hits() == case.expected["hits_text_first"] == [0, 192, 224]
    blind = Case(case.config, [request | {"mm": []} for request in case.requests], {})
    assert blind.hits() == [0, 224, 224]  # what equal placeholders would suggest


def test_020_through_the_request_table(cases: Path) -> None:
    case = Case.load(cases, "020")
    columns = {
        "token_ids": case.prompts(),
        "media": [given_media(request["mm"]) for request in case.requests],
        "source": ["log:1", "log:2", "log:3"],
    }
    keyed = Keying(load("plain"), BytesTokenizer(), 16).key(request_table(columns, 3))
    first, second, third = (keyed.keys.row(row).tolist() for row in range(3))
    assert first[:14] == third[:14]  # 224 tokens
    assert first[0] != second[0]


def test_020_pictures_in_chat_messages(cases: Path, tmp_path: Path) -> None:
    case = Case.load(cases, "020")
    text = {"type": "text", "text": "LAYOUT " * 30}
    log = tmp_path / "log.jsonl"

    def hits(order: int) -> list[int]:
        lines = []
        for request in case.requests:
            picture = {"type": "image_url", "image_url": {"url": request["mm"][0]["hash"]}}
            content = [picture, text][::order]
            lines.append(
                json.dumps(
                    {
                        "id": request["id"],
                        "ts": request["ts"],
                        "messages": [{"role": "user", "content": content}],
                    }
                )
            )
        log.write_text("\n".join(lines))
        # A template that is handed the parts as they come: one that wants text has all pictures in front.
        parts = tmp_path / "parts.j2"
        parts.write_text(
            "{% for m in messages %}{% for p in m.content %}{{ p.text if p.type == 'text' else '<image>' }}"
            "{% endfor %}{% endfor %}"
        )
        report = analyze(log, AnalyzeOptions(tokenizer="bytes", chat_template=str(parts)))
        assert report.coverage.with_media == 3
        assert "3 requests with pictures or sounds" in render_text(report)
        return [report.cache.hit_tokens]

    # 210 + 7 tokens. The third request repeats the first: 13 blocks. The second shares 13 blocks of text or none.
    assert hits(1) == [208]
    assert hits(-1) == [208 + 208]


def test_024_turns_over_engines(cases: Path) -> None:
    case = Case.load(cases, "024")
    assert case.hits() == case.expected["hits_1"] == [0, 64, 112, 160]  # the ceiling of any routing
    assert [len(prompt) for prompt in case.prompts()] == [80, 128, 176, 224]
    by_label: dict[int, list[dict]] = {}
    round_robin: dict[int, list[dict]] = {}
    for number, request in enumerate(case.requests):
        by_label.setdefault(request["engine"], []).append(request)
        round_robin.setdefault(number % case.config["engines"], []).append(request)
    for split in (by_label, round_robin):
        hits = [hit for requests in split.values() for hit in Case(case.config, requests, {}).hits()]
        assert hits == case.expected["hits_4_rr"] == [0, 0, 0, 0]  # the floor
    # The difference is routing. Over two engines the third turn finds the 64 tokens of S, the fourth S and the 48
    # of the history that the second brought.
    two = [Case(case.config, case.requests[start::2], {}).hits() for start in (0, 1)]
    assert two == [[0, 64], [0, 112]]


CALL = ChatTemplate(
    "call",
    "{% for m in messages %}{% for tc in m.tool_calls %}"
    "CALL {{ tc.function.name }} {{ tc.function.arguments | tojson }}{% endfor %}{% endfor %}",
)


def test_065_arguments_reach_a_template_parsed(cases: Path) -> None:
    (folder,) = cases.glob("065-*")
    lines = [json.loads(line) for line in (folder / "input.jsonl").read_text().splitlines()]
    expected = json.loads((folder / "expected.json").read_text())
    texts = {line["id"]: CALL.render(line["messages"]) for line in lines}
    assert texts["r1"] == expected["r1"]
    assert texts["r2"] == expected["r2"]
    # The case keeps bad JSON as text; vLLM 0.32 makes an empty object of it (chat_utils._postprocess_messages).
    assert texts["r3"] == "CALL get {}"
    assert [line["id"] for line in lines if malformed_arguments(line["messages"])] == ["r3"]
    assert expected["r3"] == "finding:bad_arguments"
    report = analyze(folder / "input.jsonl", AnalyzeOptions(tokenizer="bytes", chat_template="chatml"))
    assert (report.requests, report.coverage.bad_arguments) == (3, 1)


def test_105_both_sides_of_a_rate_are_about_the_same_requests(cases: Path) -> None:
    (folder,) = cases.glob("105-*")
    lines = [json.loads(line) for line in (folder / "input.jsonl").read_text().splitlines()]
    expected = json.loads((folder / "expected.json").read_text())
    usage = [line["usage"] or {} for line in lines]
    tokens = np.array([one.get("prompt_tokens", UNKNOWN) for one in usage])
    hits = np.array([line["predicted"] for line in lines])
    predicted = ReplayResult(
        "simulator", CacheSpec(16), "cold", np.full(2, 64), hits, np.zeros(2, dtype=np.bool_), 0
    )
    # Of the request that failed nothing is known; of the other the server reported all of it cached.
    seen = Observed(np.where(tokens == UNKNOWN, UNKNOWN, 64), tokens, 16)
    figures = compare_figures(compare(predicted, seen), ("simulator", "the server"), ["a", "b"])
    assert figures.predicted_hit_rate == figures.observed_hit_rate == expected["rate"] == 1.0
    assert len(lines) - figures.equal_requests - figures.different_requests == expected["excluded"] == 1


def test_105_on_the_page(tmp_path: Path) -> None:
    # 64 bytes, three blocks of 16 can hit (at most n-1 tokens). The first call failed and reported nothing.
    usage = {"prompt_tokens": 64, "prompt_tokens_details": {"cached_tokens": 48}}
    lines = [
        {"id": "a", "ts": 0, "prompt": "p" * 64, "usage": None, "status": 502},
        {"id": "b", "ts": 1, "prompt": "p" * 64, "usage": usage, "status": 200},
    ]
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join(map(json.dumps, lines)))
    report = analyze(log, AnalyzeOptions(tokenizer="bytes"))
    reported = report.traffic.reported
    assert (reported.requests, reported.left_out_requests, reported.hit_rate) == (1, 1, 0.75)
    assert report.observed.predicted_hit_rate == report.observed.observed_hit_rate == 0.75
    page = render_text(report)
    assert "Predicted 75.00 %, the server counted 75.00 %: equal in 1 of 1 requests." in page
    assert "1 request left out: one side has no figure" in page


def _spend(line: dict, **fields: object) -> dict:
    """Put a line of the case into a row of LiteLLM's: it names the provider of each call."""
    return {
        "request_id": line["id"],
        "call_type": "acompletion",
        "startTime": "2026-07-27T10:00:00Z",
        "custom_llm_provider": line["provider"],
        "metadata": {"usage_object": line["usage"]},
        "messages": {},
        **fields,
    }


def _analyzed(tmp_path: Path, *lines: dict) -> tuple:
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join(map(json.dumps, lines)))
    report = analyze(log, AnalyzeOptions(tokenizer="bytes", input_format="litellm"))
    return report, report.traffic.reported


def test_111_a_hosted_service_counts_in_steps_of_its_own(cases: Path, tmp_path: Path) -> None:
    (folder,) = cases.glob("111-*")
    lines = [json.loads(line) for line in (folder / "input.jsonl").read_text().splitlines()]
    expected = json.loads((folder / "expected.json").read_text())
    verdicts = {}
    for line in lines:
        _, reported = _analyzed(tmp_path, _spend(line))
        assert (reported.requests, reported.hosted_requests) == (1, 1)
        verdicts[line["id"]] = "off_grid" if reported.off_grid_requests else "ok"
    assert verdicts == expected == {"r1": "ok", "r2": "off_grid"}
    report, reported = _analyzed(tmp_path, *map(_spend, lines))
    assert (reported.cached_tokens, reported.prompt_tokens) == (2024, 2362)  # observations, both kept
    assert "1 request off that service's steps" in " ".join(render_text(report).split())


@pytest.mark.parametrize(("cached", "odd"), [(0, 0), (896, 1), (1024, 0), (1152, 0), (1168, 1)])
def test_111_the_grid(tmp_path: Path, cached: int, odd: int) -> None:
    usage = {"prompt_tokens": 1181, "prompt_tokens_details": {"cached_tokens": cached}}
    _, reported = _analyzed(tmp_path, _spend({"id": "r", "provider": "azure", "usage": usage}))
    assert reported.off_grid_requests == odd


def test_111_what_a_hosted_service_reports_is_not_held_against_vllms_rules(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 1181, "prompt_tokens_details": {"cached_tokens": 1024}}
    line = {"id": "r", "provider": "openai", "usage": usage}
    prompt = [{"role": "user", "content": "x" * 1181}]
    report, reported = _analyzed(tmp_path, *(_spend(line | {"id": f"r{n}"}, messages=prompt) for n in (1, 2)))
    assert report.observed is None
    assert reported.hit_rate == 2048 / 2362
    assert "its cache is not vLLM's" in render_text(report)
    # LiteLLM says openai of every server that speaks its API: by the address, this one is no hosted service.
    own = _spend(line, messages=prompt, api_base="http://vllm:8000/v1")
    report, reported = _analyzed(tmp_path, own)
    assert (reported.hosted_requests, reported.off_grid_requests) == (0, 0)
    assert report.observed.observed_hit_tokens == 1024
