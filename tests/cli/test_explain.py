"""``kvtools explain``: what it says of requests whose places and figures are worked out by hand, one byte a token."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from kvtools.flow import ExplainOptions, explain

if TYPE_CHECKING:
    from conftest import Ended, Run

HEAD = "You are a helper. User "  # 23 characters
TAIL = " asks: where is my parcel now? Please answer with care."
BYTES = ("--tokenizer", "bytes")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command runs in an empty folder of its own."""
    monkeypatch.chdir(tmp_path)


def _log(*records: dict[str, Any]) -> str:
    Path("log.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return "log.jsonl"


def _user(number: int, name: str, ts: int) -> dict[str, Any]:
    return {"id": name, "ts": 1_790_000_000 + ts, "prompt": f"{HEAD}[ID:{number}]{TAIL}"}


def _figures(ended: Ended) -> dict[str, Any]:
    assert ended.code == 0, ended.err
    figures: dict[str, Any] = json.loads(ended.out)
    return figures


def _explain(kvtools: Run, name: str, *args: str) -> dict[str, Any]:
    return _figures(kvtools("explain", name, "log.jsonl", *BYTES, "--format", "json", *args))


def test_the_place_the_values_and_what_it_cost(kvtools: Run) -> None:
    _log(_user(20817, "one", 0), _user(18392, "two", 12))
    length = len(HEAD) + 10 + len(TAIL)
    report = _explain(kvtools, "two", "--show-text")
    assert report["outcome"] == "parted"
    assert report["nearest"]["id"] == "one"
    assert report["earlier_us"] == 12_000_000
    parting = report["parting"]
    # Both hold "User [ID:" and then another digit: 27 bytes are equal, one full block of 16.
    assert (parting["token"], parting["character"], parting["block"]) == (27, 27, 1)
    assert (parting["this"]["value"], parting["that"]["value"]) == ("18392", "20817")
    assert parting["this"]["before"] == (HEAD + "[ID:")[-24:]
    assert (report["shared_tokens"], report["shared_blocks"]) == (27, 1)
    assert (report["hit_tokens"], report["queried_tokens"]) == (16, length)
    assert report["identical_tokens_behind"] == len("]" + TAIL)


def test_the_screen(kvtools: Run) -> None:
    _log(_user(20817, "one", 0), _user(18392, "two", 12))
    lines = kvtools("explain", "two", "log.jsonl", *BYTES, "--show-text").out.splitlines()
    assert lines[0] == "Parted from one (12 s earlier) at token 27 of 88, character 27 of the prompt."
    assert lines[1].startswith("   …r. User [ID:▌18392▐] asks")
    assert lines[1].endswith("   this request")
    assert lines[2].endswith("   that one")
    assert lines[3] == "Field: user id."
    assert lines[4] == "Behind it 56 identical tokens were computed again."
    assert lines[5] == "16 of 88 tokens hit in an unlimited cache (only full blocks of 16 tokens)."
    assert all(len(line) <= 85 for line in lines)


def test_no_text_of_a_prompt_is_shown_unless_asked_for(kvtools: Run) -> None:
    _log(_user(20817, "one", 0), _user(18392, "two", 12))
    for form in ("text", "json"):
        out = kvtools("explain", "two", "log.jsonl", *BYTES, "--format", form).out
        for piece in ("18392", "20817", "User", "asks"):
            assert piece not in out
    assert "▌00000▐] xxxx: xxxxx" in kvtools("explain", "two", "log.jsonl", *BYTES).out
    assert kvtools("explain", "two", "log.jsonl").out.splitlines()[-1] == (
        "Next: kvtools explain two log.jsonl --show-text"
    )


def test_the_latest_of_those_that_share_most_in_the_order_of_arrival(kvtools: Run) -> None:
    _log(
        _user(18399, "late", 9),  # arrives after the request in question
        _user(18392, "asked", 5),
        _user(18000, "second", 2),
        _user(18111, "first", 1),
        _user(20000, "far", 4),
    )
    report = _explain(kvtools, "asked")
    # "18" is shared with two earlier ones: 29 tokens.
    assert (report["nearest"]["id"], report["shared_tokens"]) == ("second", 29)
    assert (report["place"], report["requests"], report["settings"]["order"]) == (4, 5, "arrival")


def test_which_message_and_which_character_of_it(kvtools: Run) -> None:
    def chat(name: str, user: str) -> dict[str, Any]:
        system = {"role": "system", "content": "Be brief."}
        return {"id": name, "ts": 1, "messages": [system, {"role": "user", "content": user}]}

    _log(chat("one", "Order 77 please"), chat("two", "Order 91 please"))
    report = _explain(kvtools, "two", "--chat-template", "chatml", "--show-text")
    parting = report["parting"]
    head = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nOrder "
    assert (parting["token"], parting["character"]) == (len(head), len(head))
    assert (parting["this"]["section"], parting["this"]["section_character"]) == ("messages[1]", 6)
    assert (parting["this"]["value"], parting["that"]["value"]) == ("91", "77")
    text = kvtools("explain", "two", "log.jsonl", *BYTES, "--chat-template", "chatml").out
    assert "In messages[1], character 6." in text


@pytest.mark.parametrize(
    ("prompt", "outcome", "shared", "hit"),
    [
        ("a" * 40 + "b" * 8, "continues", 40, 32),
        ("a" * 40, "contained", 40, 32),  # equal: 2 full blocks, and at least one token is computed
        ("a" * 32, "contained", 32, 16),  # the second block would leave no token to compute
    ],
)
def test_nothing_parted(kvtools: Run, prompt: str, outcome: str, shared: int, hit: int) -> None:
    _log({"id": "one", "ts": 1, "prompt": "a" * 40}, {"id": "two", "ts": 2, "prompt": prompt})
    report = _explain(kvtools, "two")
    assert (report["outcome"], report["shared_tokens"], report["hit_tokens"]) == (outcome, shared, hit)
    assert report["parting"] is None
    assert kvtools("explain", "two", "log.jsonl", *BYTES).out.startswith("Nothing parted: ")


def test_the_first_of_its_kind(kvtools: Run) -> None:
    _log(
        {"id": "one", "ts": 1, "model": "m", "prompt": "a" * 40},
        {"id": "two", "ts": 2, "model": "n", "prompt": "a" * 40},
    )
    for name, beginning in (
        ("one", "First request of the log"),
        ("two", "First of its kind: none of the 1 request"),
    ):
        report = _explain(kvtools, name)
        assert (report["outcome"], report["nearest"], report["hit_tokens"]) == ("first", None, 0)
        assert kvtools("explain", name, "log.jsonl", *BYTES).out.startswith(beginning)


def test_what_a_small_cache_had_evicted(kvtools: Run) -> None:
    _log(
        {"id": "one", "ts": 1, "prompt": "a" * 40},
        {"id": "other", "ts": 2, "prompt": "b" * 64},
        {"id": "again", "ts": 3, "prompt": "a" * 40},
    )
    # The 4 blocks of the prompt between take all 4 of the cache.
    report = _explain(kvtools, "again", "--capacity-blocks", "4")
    assert (report["hit_tokens"], report["ceiling_hit_tokens"]) == (0, 32)
    text = kvtools("explain", "again", "log.jsonl", *BYTES, "--capacity-blocks", "4").out
    assert "32 tokens more would hit in an unlimited cache: evicted before." in text


def test_an_unknown_id_names_near_ones(kvtools: Run) -> None:
    _log(_user(1, "req-0041", 0), _user(2, "req-0042", 1))
    ended = kvtools("explain", "req-042", "log.jsonl", *BYTES)
    assert (ended.code, ended.out) == (3, "")
    assert "no request req-042" in ended.err
    assert "req-0042" in ended.err
    assert ended.err.count("\n") == 1


def test_a_log_without_ids_takes_places(kvtools: Run) -> None:
    _log(*({"ts": ts, "prompt": "a" * 40} for ts in (1, 2)))
    ended = kvtools("explain", "nobody", "log.jsonl", *BYTES)
    assert ended.code == 3
    assert "no request ids; name a request by its place, such as log.jsonl:1." in ended.err
    assert _explain(kvtools, "log.jsonl:2")["nearest"]["source"] == "log.jsonl:1"


def test_an_id_that_several_requests_have(kvtools: Run) -> None:
    _log(_user(1, "twice", 0), _user(2, "twice", 1))
    ended = kvtools("explain", "twice", "log.jsonl", *BYTES)
    assert ended.code == 3
    assert "names 2 requests (log.jsonl:1, log.jsonl:2); name one of these places." in ended.err
    assert _explain(kvtools, "log.jsonl:2")["shared_tokens"] == 27


def test_a_log_through_a_pipe(kvtools: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    data = Path(_log(_user(20817, "one", 0), _user(18392, "two", 12))).read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    report = _figures(kvtools("explain", "two", "-", *BYTES, "--format", "json"))
    assert (report["nearest"]["source"], report["shared_tokens"]) == ("<stdin>:1", 27)


def test_block_ids_are_enough(kvtools: Run) -> None:
    _log(
        {"id": "one", "timestamp": 0, "input_length": 1100, "output_length": 1, "hash_ids": [1, 2, 3]},
        {"id": "two", "timestamp": 5000, "input_length": 1100, "output_length": 1, "hash_ids": [1, 9, 8]},
        {"id": "three", "timestamp": 9000, "input_length": 600, "output_length": 1, "hash_ids": [1, 2]},
    )
    report = _explain(kvtools, "two")
    assert (report["nearest"]["id"], report["shared_tokens"], report["hit_tokens"]) == ("one", 512, 512)
    assert (report["parting"]["token"], report["parting"]["block"]) == (None, 1)
    assert report["identical_tokens_behind"] is None
    first = kvtools("explain", "two", "log.jsonl").out.splitlines()[0]
    assert first == "Parted from one (5 s earlier) in block 1 (tokens 512-1,023 of 1,100)."
    assert _explain(kvtools, "three")["outcome"] == "contained"


def test_token_ids_have_no_characters(kvtools: Run) -> None:
    rows = ([1] * 20 + [2] * 20, [1] * 20 + [3] + [2] * 19)
    _log(*({"id": str(at), "prompt_token_ids": row} for at, row in enumerate(rows)))
    report = _explain(kvtools, "1")
    assert (report["parting"]["token"], report["parting"]["character"]) == (20, None)
    assert report["parting"]["this"]["value"] is None
    assert report["identical_tokens_behind"] == 19


def test_the_nearest_is_the_best_of_all_earlier_ones_on_random_logs(tmp_path: Path) -> None:
    random = Random(5)
    prompts = ["".join(random.choices("ab", k=random.randint(1, 9))) for _ in range(40)]
    path = tmp_path / "log.jsonl"
    records = [{"id": str(at), "prompt": prompt} for at, prompt in enumerate(prompts)]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    for at in range(1, len(prompts), 3):
        report = explain(str(at), path, ExplainOptions(tokenizer="bytes", block_size=2))
        shared = [
            next(
                (k for k, (a, b) in enumerate(zip(prompts[at], other, strict=False)) if a != b),
                min(len(prompts[at]), len(other)),
            )
            for other in prompts[:at]
        ]
        best = max(range(at), key=lambda other: (shared[other], other))
        assert report.nearest is not None
        assert (report.nearest.id, report.shared_tokens) == (str(best), shared[best])


def test_values_cannot_act_on_the_terminal(kvtools: Run) -> None:
    _log({"id": "one", "ts": 1, "prompt": "a\x1b[31m\n"}, {"id": "two", "ts": 2, "prompt": "b\x1b[31m\n"})
    out = kvtools("explain", "two", "log.jsonl", *BYTES, "--show-text").out
    assert "\x1b" not in out
    assert "▌b▐\\x1b[31m\\n" in out


def test_wrong_use(kvtools: Run) -> None:
    _log(_user(1, "one", 0))
    for wrong in (["explain", "one"], ["explain", "one", "log.jsonl", "--block-size", "0"]):
        assert kvtools(*wrong).code == 2
    assert kvtools("explain", "one", "nowhere.jsonl").code == 3


def test_equal_tokens_with_another_picture(kvtools: Run) -> None:
    tokens = [1] * 18 + [7] * 4 + [1] * 42
    _log(
        *(
            {"id": name, "prompt_token_ids": tokens, "mm": [{"hash": name, "offset": 18, "length": 4}]}
            for name in ("one", "two")
        )
    )
    report = _explain(kvtools, "two")
    # The first block is shared; the second holds the picture, so its key and all behind it differ.
    assert (report["outcome"], report["shared_tokens"], report["hit_tokens"]) == ("parted", 16, 16)
    assert (report["parting"]["media"], report["parting"]["block"]) == (True, 1)
    assert report["identical_tokens_behind"] is None
    first = kvtools("explain", "two", "log.jsonl", *BYTES).out.splitlines()[0]
    assert first == "Parted from one at token 16 of 64, in a block whose picture or sound differs."
