"""What reaches vLLM behind the middleware: the priority, and everything else as it came."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from asgi import Client

from kvtools.errors import InputError, UsageError
from kvtools.vllm_plugin.middleware import PriorityMiddleware
from kvtools.vllm_plugin.settings import PrioritySettings, read_settings

ASKED = {"model": "m", "prompt": "Does rosemary survive frost?", "max_tokens": 4}
RULES = """\
kvtools_rules: 1
default: hot
rules:
- {name: over-8192-tokens, when: [{feature: prompt_tokens, op: '>', value: 8}], label: cold, disk_cache: true}
- {name: header, when: [{feature: request_type, op: in, value: [hot]}], label: hot}
- {name: header, when: [{feature: request_type, op: in, value: [cold, report]}], label: cold}
- {name: routes, when: [{feature: route, op: in, value: [nightly]}], label: cold}
- {name: model-1, when: [{feature: recent_interval_s, op: '>', value: 60}], label: cold}
"""


@pytest.fixture
def rules(tmp_path: Path) -> str:
    path = tmp_path / "rules.yaml"
    path.write_text(RULES)
    return str(path)


@pytest.mark.parametrize(
    ("headers", "priority"),
    [
        ({}, None),
        ({"X-Request-Type": "hot"}, "0"),
        ({"X-Request-Type": "cold"}, "3"),
        ({"X-Request-Type": "report"}, None),  # a name for rules; there are none
        ({"X-Priority": "5"}, "0"),
        ({"X-Priority": "4"}, "1"),
        ({"X-Priority": "1"}, "4"),
        ({"X-Priority": "2", "X-Request-Type": "hot"}, "3"),  # the number goes before the word
        ({"X-Vllm-Priority": "-7", "X-Priority": "1"}, "-7"),  # vLLM's own goes before both
        ({"X-PRIORITY": " 5 "}, "0"),
    ],
)
def test_headers_become_vllms_priority(headers: dict[str, str], priority: str | None) -> None:
    reached = Client().send(ASKED, headers)
    assert reached.priority == priority
    assert json.loads(reached.body) == ASKED
    assert (reached.status, reached.answer) == (200, b"ok")


@pytest.mark.parametrize(
    ("headers", "sentence"),
    [
        ({"X-Priority": "6"}, "X-Priority is 1 to 5, where 5 is the most urgent, not '6'."),
        ({"X-Priority": "0"}, "X-Priority is 1 to 5, where 5 is the most urgent, not '0'."),
        ({"X-Priority": ""}, "X-Priority is 1 to 5, where 5 is the most urgent, not ''."),
        ({"X-Priority": "²"}, "X-Priority is 1 to 5, where 5 is the most urgent, not '²'."),
        ({"X-Priority": "5, 5"}, "X-Priority is 1 to 5, where 5 is the most urgent, not '5, 5'."),
        (
            {"X-Vllm-Priority": "soon"},
            "X-Vllm-Priority is a whole number, the smallest the most urgent, not 'soon'.",
        ),
        (
            {"X-Vllm-Priority": "9223372036854775808"},
            "X-Vllm-Priority is a whole number, the smallest the most urgent, not '9223372036854775808'.",
        ),
        (
            [("X-Priority", "5"), ("X-Priority", "1")],
            "x-priority is given twice, with different values: send it once.",
        ),
    ],
)
def test_a_value_out_of_range_is_answered_with_one_sentence(headers: Any, sentence: str) -> None:
    reached = Client().send(ASKED, headers)
    assert reached.refusal == sentence


def test_the_answer_is_one_of_vllms_errors() -> None:
    answer = json.loads(Client().send(ASKED, {"X-Priority": "9"}).answer)
    assert answer["error"] | {"message": ""} == {
        "message": "",
        "type": "BadRequestError",
        "param": None,
        "code": 400,
    }


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
def test_both_paths_are_looked_at_under_a_root_path_too(path: str) -> None:
    cold = {"X-Request-Type": "cold"}
    assert Client().send(ASKED, cold, path=path).priority == "3"
    assert Client().send(ASKED, cold, path=f"/llm{path}", root_path="/llm").priority == "3"


@pytest.mark.parametrize(
    "other",
    [
        {"path": "/v1/embeddings"},
        {"path": "/v1/completions/render"},
        {"path": "/health", "method": "GET"},
        {"method": "OPTIONS"},
        {"type": "websocket"},
        {"type": "lifespan"},
    ],
    ids=str,
)
def test_all_else_is_untouched(other: dict[str, Any], rules: str) -> None:
    client = Client(rules=rules)
    reached = client.send(ASKED, {"X-Priority": "99"}, **other)
    assert reached.scope is not None
    assert reached.scope["headers"] == [(b"x-priority", b"99")]
    assert reached.taken_before == 0


def test_without_rules_no_byte_of_the_body_is_read() -> None:
    pieces = [b'{"prompt": ', b'"a"', b"}"]
    reached = Client().send(pieces=pieces, headers={"X-Request-Type": "cold"})
    assert reached.taken_before == 0
    assert reached.pieces == pieces


def test_a_body_in_pieces_reaches_the_rules_whole_and_vllm_as_it_came(rules: str) -> None:
    pieces = [b'{"prompt": [1, 2, 3, ', b"4, 5, 6, 7, 8, ", b"", b'9], "stream": true}']
    reached = Client(rules=rules).send(pieces=pieces)
    assert reached.priority == "4"  # nine tokens: cold, long enough for a disk cache
    assert reached.pieces == pieces


@pytest.mark.parametrize(
    ("body", "headers", "priority"),
    [
        ({"prompt": [1] * 8}, {}, "0"),
        ({"prompt": [1] * 9}, {}, "4"),
        ({"prompt": [1] * 9}, {"X-Request-Type": "hot"}, "4"),  # the order of the file
        ({"prompt": [[1] * 3, [1] * 9]}, {}, "4"),  # several prompts: the longest
        ({"prompt": "a b c"}, {"X-Request-Type": "cold"}, "3"),
        ({"prompt": "a b c"}, {"X-Request-Type": "report"}, "3"),
        ({"prompt": "a b c"}, {"X-Route": "nightly"}, "3"),
        ({"prompt": "a b c"}, {"X-Route": "Nightly"}, "0"),
        ({"prompt": "a b c"}, {"X-Tokens": "9"}, "4"),
        ({"prompt": [1] * 9}, {"X-Tokens": "8"}, "0"),  # the header says it, so it is not counted
        ({"prompt": [1] * 9}, {"X-Priority": "5"}, "0"),  # a header goes before the rules
        ({"prompt": [1] * 9, "priority": 1}, {}, None),  # so does the body's own
        ({"prompt": [1] * 9, "priority": 1}, {"X-Priority": "3"}, "2"),  # as in vLLM: header, then body
        ({"prompt": "word " * 100}, {}, "0"),  # tokens of text are not known
        ({"messages": [{"role": "user", "content": "word " * 100}]}, {}, "0"),
    ],
)
def test_rules_decide_what_nothing_else_has(
    body: dict[str, Any], headers: dict[str, str], priority: str | None, rules: str
) -> None:
    client = Client(rules=rules, route_header="X-Route", tokens_header="X-Tokens")
    reached = client.send(body, headers)
    assert reached.priority == priority
    assert json.loads(reached.body) == body


def test_a_tokens_header_that_is_no_number_is_refused(rules: str) -> None:
    reached = Client(rules=rules, tokens_header="X-Tokens").send(ASKED, {"X-Tokens": "many"})
    assert reached.refusal == "X-Tokens is a number of tokens, not 'many'."


@pytest.mark.parametrize(
    ("body", "priority"),
    [
        ({"prompt": "a" * 34}, "0"),  # 34 bytes / 4 = 8.5, rounded to 8: not above it
        ({"prompt": "a" * 35}, "4"),
        ({"prompt": ["a", "\u00e9" * 18]}, "4"),  # 36 bytes of UTF-8
        ({"messages": [{"role": "system", "content": "a" * 20}, {"role": "user", "content": "a" * 15}]}, "4"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "a" * 35}, "?"]}]}, "4"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "a" * 99}]}]}, "0"),
        ({"messages": ["?", None, {"content": 5}]}, "0"),
    ],
)
def test_tokens_of_text_are_estimated_only_where_that_is_asked_for(
    body: dict[str, Any], priority: str, rules: str
) -> None:
    assert Client(rules=rules, bytes_per_token=4).send(body).priority == priority


@pytest.mark.parametrize(
    "raw", [b"", b"no JSON", b"[1]", b'{"prompt": "\xff"}', b"[" * 100_000, b'{"prompt": [1,'], ids=repr
)
def test_what_is_no_json_object_is_passed_on_for_vllm_to_refuse(raw: bytes, rules: str) -> None:
    reached = Client(rules=rules).send(raw, {"X-Request-Type": "cold"})
    assert reached.priority == "3"  # what the headers say holds all the same
    assert reached.body == raw


def test_a_large_body_is_passed_on_unread(rules: str) -> None:
    raw = json.dumps({"prompt": [1] * 1_000}).encode()
    client = Client(rules=rules, max_body_bytes=100)
    declared = client.send(raw, {"Content-Length": str(len(raw)), "X-Request-Type": "cold"})
    assert (declared.priority, declared.taken_before, declared.body) == ("3", 0, raw)
    # Nothing declared: it stops taking pieces when they are more than it keeps.
    pieces = [raw[start : start + 60] for start in range(0, len(raw), 60)]
    streamed = client.send(pieces=pieces)
    assert (streamed.priority, streamed.taken_before, streamed.pieces) == ("0", 2, pieces)


def test_a_body_of_just_the_size_is_read(rules: str) -> None:
    raw = json.dumps({"prompt": [1] * 9}).encode()
    assert Client(rules=rules, max_body_bytes=len(raw)).send(raw).priority == "4"
    assert Client(rules=rules, max_body_bytes=len(raw) - 1).send(raw).priority == "0"


def test_a_client_that_leaves_is_seen_to_leave(rules: str) -> None:
    reached = Client(rules=rules).send(pieces=[b'{"prompt":'], disconnects=True)
    assert reached.pieces == [b'{"prompt":']
    assert reached.ended_by == "http.disconnect"


def test_untrusted_requests_say_nothing_of_themselves(rules: str) -> None:
    client = Client(rules=rules, trust_requests=False)
    headers = {"X-Vllm-Priority": "-9", "X-Priority": "99", "X-Request-Type": "hot"}
    reached = client.send({"prompt": [1] * 9, "priority": -9}, headers)
    assert reached.scope is not None
    assert reached.scope["headers"] == [(b"x-vllm-priority", b"4")]  # vLLM puts it before the body's
    assert client.send({"prompt": "a", "priority": -9}).priority == "0"
    assert Client(trust_requests=False).send({"prompt": "a", "priority": -9}).priority == "0"


def test_rules_on_a_routes_rhythm_know_its_last_arrivals(rules: str) -> None:
    client = Client(rules=rules, route_header="X-Route")
    found = []
    for now_s, route in [
        (0, "chat"),
        (90, "chat"),
        (91, "other"),
        (100, "chat"),
        (190, "chat"),
        (191, "chat"),
    ]:
        client.now_s = float(now_s)
        # The header decides for the fourth arrival, which counts all the same.
        headers = {"X-Route": route} | ({"X-Priority": "5"} if now_s == 100 else {})
        found.append(client.send(ASKED, headers).priority)
    # Mean gaps of chat: none, 90, -, (50), 63.3, 47.75 s; above 60 s is cold.
    assert found == ["0", "3", "0", "0", "3", "0"]


def test_the_path_may_be_the_route(tmp_path: Path) -> None:
    by_path = tmp_path / "path.yaml"
    by_path.write_text(RULES.replace("nightly", "/v1/chat/completions"))
    client = Client(rules=str(by_path), route_header="path")
    assert client.send(ASKED, path="/v1/chat/completions").priority == "3"
    assert client.send(ASKED, path="/v1/completions").priority == "0"


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch, rules: str) -> None:
    monkeypatch.setenv("KVTOOLS_RULES", rules)
    monkeypatch.setenv("KVTOOLS_TRUST_REQUESTS", "0")
    monkeypatch.setenv("KVTOOLS_BYTES_PER_TOKEN", "4.5")
    monkeypatch.setenv("KVTOOLS_ROUTE_HEADER", "")
    assert read_settings(PrioritySettings) == PrioritySettings(
        rules=rules, trust_requests=False, bytes_per_token=4.5
    )
    monkeypatch.setenv("KVTOOLS_MAX_BODY_BYTES", "plenty")
    with pytest.raises(UsageError, match=r"^the environment: .*max_body_bytes.*; it takes rules, .*\.$"):
        read_settings(PrioritySettings)


def test_a_missing_file_of_rules_stops_the_server_when_it_starts(tmp_path: Path) -> None:
    async def application(*_: Any) -> None: ...

    with pytest.raises(InputError, match="rules"):
        PriorityMiddleware(application, PrioritySettings(rules=str(tmp_path / "rules.yaml")))


def test_what_rules_ask_for_in_vain_is_named_when_the_server_starts(
    tmp_path: Path, rules: str, caplog: pytest.LogCaptureFixture
) -> None:
    Client(rules=rules, route_header="X-Route")
    assert caplog.messages == []
    Client(rules=rules, trust_requests=False)
    assert caplog.messages == [f"{rules}: tests on request_type, route never hold here"]
    caplog.clear()
    turns = tmp_path / "turns.yaml"
    turns.write_text(RULES + "- {name: later, when: [{feature: turn, op: '>', value: 3}], label: hot}\n")
    Client(rules=str(turns), route_header="path")
    assert caplog.messages == [f"{turns}: tests on turn never hold here"]
