"""``kvtools diff``: two requests and two logs whose figures are worked out by hand, one byte a token."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conftest import Ended, Run

BYTES = ("--tokenizer", "bytes")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command runs in an empty folder of its own."""
    monkeypatch.chdir(tmp_path)


def _log(path: str, *records: dict[str, Any]) -> str:
    Path(path).write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def _request(name: str, ts: int, prompt: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "ts": 1_790_000_000 + ts, "prompt": prompt, **more}


def _figures(ended: Ended) -> dict[str, Any]:
    assert ended.code == 0, ended.err
    figures: dict[str, Any] = json.loads(ended.out)
    return figures


def _diff(kvtools: Run, *args: str) -> dict[str, Any]:
    return _figures(kvtools("diff", *args, *BYTES, "--format", "json"))


def test_two_requests(kvtools: Run) -> None:
    tail = " and a long tail that is the same."  # 34 characters
    _log("log", _request("a", 1, "h" * 40 + "1111" + tail), _request("b", 2, "h" * 40 + "22" + tail))
    report = _diff(kvtools, "a", "b", "log", "--show-text", "--input-format", "chat-jsonl")
    assert (report["outcome"], report["same_namespace"]) == ("parted", True)
    assert (report["shared_tokens"], report["shared_blocks"], report["first_different_block"]) == (40, 2, 2)
    assert report["identical_tokens_behind"] == 34
    assert (report["parting"]["this"]["value"], report["parting"]["that"]["value"]) == ("1111", "22")
    assert (report["a"]["hit_tokens"], report["b"]["hit_tokens"]) == (0, 32)


@pytest.mark.parametrize(
    ("one", "other", "outcome", "text"),
    [
        ("x" * 20, "x" * 20, "equal", "a and b are equal: 20 tokens."),
        ("x" * 20, "x" * 30, "a_begins_b", "b begins with all of a: 20 tokens."),
        ("x" * 30, "x" * 20, "b_begins_a", "a begins with all of b: 20 tokens."),
    ],
)
def test_two_requests_that_do_not_part(kvtools: Run, one: str, other: str, outcome: str, text: str) -> None:
    _log("log", _request("a", 1, one), _request("b", 2, other))
    report = _diff(kvtools, "a", "b", "log")
    assert (report["outcome"], report["parting"], report["first_different_block"]) == (outcome, None, None)
    assert kvtools("diff", "a", "b", "log", *BYTES).out.startswith(text)


def test_two_requests_that_can_never_share(kvtools: Run) -> None:
    _log("log", _request("a", 1, "x" * 20, model="m"), _request("b", 2, "x" * 20, model="n"))
    report = _diff(kvtools, "a", "b", "log")
    assert (report["outcome"], report["same_namespace"], report["shared_blocks"]) == ("equal", False, 0)
    text = kvtools("diff", "a", "b", "log", *BYTES).out
    assert "They never share a block: model, adapter or salt differ." in text


def test_prompts_stay_masked(kvtools: Run) -> None:
    _log("log", _request("a", 1, "for Anna"), _request("b", 2, "for Bert"))
    out = kvtools("diff", "a", "b", "log", *BYTES).out
    assert "▌xxxx▐" in out
    assert "Anna" not in out
    assert "Bert" in kvtools("diff", "a", "b", "log", *BYTES, "--show-text").out


HEAD = "s" * 48


def _two_logs() -> None:
    # A: 4 requests of 60 tokens with one head of 48; B: the head of one request is changed in its second block.
    _log("a", *(_request(f"r{at}", at, HEAD + str(at) * 12) for at in range(4)))
    changed = "s" * 20 + "X" + "s" * 27 + "2" * 12
    rows = [_request(f"r{at}", at, changed if at == 2 else HEAD + str(at) * 12) for at in range(4)]
    _log("b", *rows[1:], _request("new", 9, HEAD + "9" * 12))


def test_two_logs(kvtools: Run) -> None:
    _two_logs()
    report = _diff(kvtools, "a", "b")
    # A: three of four hit 48. B: r1 is first, r2 hits one block of 16, r3 and new hit 48.
    assert (report["a"]["hit_tokens"], report["a"]["queried_tokens"]) == (144, 240)
    assert (report["b"]["hit_tokens"], report["b"]["queried_tokens"]) == (112, 240)
    assert report["hit_rate_change"] == pytest.approx(112 / 240 - 144 / 240)
    assert (report["a"]["common_head_tokens"], report["b"]["common_head_tokens"]) == (48, 20)
    assert report["shared_head_tokens"] == 20
    assert (report["matched_by"], report["matched_requests"]) == ("id", 3)
    assert (report["only_a_requests"], report["only_b_requests"]) == (1, 1)
    assert (report["more_requests"], report["less_requests"], report["equal_prompts"]) == (0, 2, 2)
    assert report["first_different_blocks"] == [{"block": 1, "requests": 1}]
    changes = [
        (c["id"], c["a_hit_tokens"], c["b_hit_tokens"], c["first_different_block"]) for c in report["changes"]
    ]
    assert changes == [("r1", 48, 0, None), ("r2", 48, 16, 1)]


def test_the_screen_of_two_logs(kvtools: Run) -> None:
    _two_logs()
    out = kvtools("diff", "a", "b", *BYTES).out
    assert out.startswith("Hit rate 60.0 % → 46.7 % (-13.3 points), each log alone from an empty cache.\n")
    for line in (
        "3 requests in both (by id): 0 hit more in B, 2 less, 1 the same.",
        "  r2  -32 tokens: 48 of 60 → 16 of 60 · differs from block 1",
        "Next: kvtools diff a:3 b:2 a b",
    ):
        assert line in out.splitlines()
    followed = _diff(kvtools, "a:3", "b:2", "a", "b")
    assert followed["parting"]["character"] == 20


def test_traces_without_ids_are_matched_by_place(kvtools: Run) -> None:
    def line(at: int, *ids: int) -> dict[str, Any]:
        return {
            "timestamp": at,
            "input_length": 16 * len(ids),
            "output_length": 1,
            "hash_ids": ids,
            "block_size": 16,
        }

    _log("a", line(0, 1, 2), line(1, 1, 2, 3))
    _log("b", line(0, 1, 2), line(1, 1, 7, 8))
    report = _figures(kvtools("diff", "a", "b", "--format", "json"))
    assert (report["matched_by"], report["matched_requests"]) == ("place", 2)
    assert (report["a"]["common_head_tokens"], report["b"]["common_head_tokens"]) == (32, 16)
    assert (report["a"]["hit_tokens"], report["b"]["hit_tokens"]) == (32, 16)
    assert (report["shared_head_tokens"], report["less_requests"]) == (16, 1)
    assert report["first_different_blocks"] == [{"block": 1, "requests": 1}]
    assert "Block ids are compared as logged" in kvtools("diff", "a", "b").out


def test_text_and_block_ids_cannot_be_compared_block_by_block(kvtools: Run) -> None:
    _log("a", _request("one", 0, "x" * 32))
    _log("b", {"id": "one", "timestamp": 0, "input_length": 32, "output_length": 1, "hash_ids": [1]})
    report = _diff(kvtools, "a", "b")
    assert (report["comparable_blocks"], report["shared_head_tokens"], report["equal_prompts"]) == (
        False,
        None,
        None,
    )
    assert report["matched_requests"] == 1
    assert "Blocks cannot be compared" in kvtools("diff", "a", "b", *BYTES).out


def test_wrong_use(kvtools: Run) -> None:
    _log("a", _request("one", 0, "x" * 32))
    for wrong in (["one"], ["one", "a"], ["-", "-"], ["a", "a", "--rejects", "list"]):
        ended = kvtools("diff", *wrong)
        assert ended.code == 2, wrong
        assert ended.err.count("\n") == 1
    assert "for two requests add the log" in kvtools("diff", "one", "a").err
    assert kvtools("diff", "a", "nowhere").code == 3
    assert kvtools("diff", "one", "two", "a").code == 3
