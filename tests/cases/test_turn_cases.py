"""Cases of ``shared/cases`` in which a later turn does not extend the earlier one: the cause, and both figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from shared_case import Case

from kvtools.chat import load
from kvtools.diagnosis.deployment import (
    InstanceCounts,
    cross_instance,
    injected_clock,
    namespace_uses,
    salt_kind,
    skipped_reads,
)
from kvtools.diagnosis.turns import Turn, parted, rebuilt


@pytest.fixture(scope="module")
def cases(shared: Path) -> Path:
    return shared / "cases"


def _turns(case: Case) -> list[Turn]:
    return [
        Turn(
            request.get("messages"),
            request.get("rendered", request.get("prompt")),
            request.get("output"),
            request.get("prompt_token_ids"),
            request.get("output_token_ids"),
            request.get("tools"),
            request.get("cache_salt"),
        )
        for request in case.requests
    ]


def _tokens(turn: Turn) -> list[int]:
    """The prompt as the case's README says: given ids, or one token for each byte of the text."""
    if turn.token_ids is not None:
        return list(turn.token_ids)
    if turn.prompt is None:
        return list(load("chatml").render(turn.messages or [], turn.tools).encode())
    return list(turn.prompt.encode())


def _hits(turns: Sequence[Turn], block_size: int = 16, *, outputs: bool = False) -> list[int]:
    """Hit tokens of the turns, one after another in an unlimited cache.

    With ``outputs`` an answer stays in the cache but for its last token: it does no lookup, and leaves exactly what
    a request that skips the lookup, of prompt and answer, would leave.
    """
    requests: list[dict[str, object]] = []
    for turn in turns:
        requests.append({"prompt_token_ids": _tokens(turn)})
        answer = list(turn.output_ids or []) or list((turn.output or "").encode())
        if outputs and answer:
            requests.append({"prompt_token_ids": _tokens(turn) + answer[:-1], "prompt_logprobs": 1})
    hits = Case({}, requests, {}).hits(block_size)
    return [hit for hit, request in zip(hits, requests, strict=True) if "prompt_logprobs" not in request]


def _chain(turns: Sequence[Turn], kind: str) -> list[Turn]:
    """The turns as they would be without the breaks, each against the one before it as that would be."""
    chain = [turns[0]]
    for turn in turns[1:]:
        found = parted(chain[-1], turn)
        assert found is not None
        assert found.kind == kind
        fixed = rebuilt(chain[-1], turn, found)
        assert fixed is not None
        assert parted(chain[-1], fixed) is None
        chain.append(fixed)
    return chain


def test_005_the_same_arguments_with_their_keys_in_another_order(cases: Path) -> None:
    case = Case.load(cases, "005")
    turns = _turns(case)
    assert _hits(turns)[1] == case.expected["r2_hits"] == 224
    chain = _chain(turns, "json_key_order")
    assert _hits(chain)[1] == case.expected["r2_hits_after_fix"] == 416
    assert len(_tokens(chain[1])) == case.expected["r2_prompt"] == 501
    found = parted(*turns)
    assert found is not None
    assert (found.place, found.position) == ("message 2 (assistant)", len('CALL get_weather {"'))


def test_010_a_sliding_window(cases: Path) -> None:
    case = Case.load(cases, "010")
    turns = _turns(case)
    assert _hits(turns) == case.expected["hits"] == [0, 160, 160]
    assert [len(_tokens(turn)) for turn in turns] == [372, 374, 351]
    chain = _chain(turns, case.expected["pattern"])
    assert _hits(chain) == case.expected["hits_untrimmed"] == [0, 368, 496]
    assert [len(_tokens(turn)) for turn in chain] == [372, 506, 615]


def test_013_reasoning_is_left_out_of_the_history(cases: Path) -> None:
    case = Case.load(cases, "013")
    turns = _turns(case)
    found = parted(*turns)
    assert found is not None
    assert (found.kind, found.place, found.position) == ("reasoning_stripped", "prompt", 219)
    assert _hits(turns, outputs=True)[1] == case.expected["t2_hits"] == 208
    assert len(_tokens(turns[1])) == case.expected["t2_prompt"] == 303
    chain = _chain(turns, case.expected["cause"])
    assert _hits(chain, outputs=True)[1] == case.expected["t2_hits_if_kept"] == 288
    assert len(_tokens(chain[1])) == 349


def test_014_a_template_that_is_not_append_only(cases: Path) -> None:
    case = Case.load(cases, "014")
    turns = _turns(case)
    found = parted(*turns)
    assert found is not None
    assert (found.kind, found.position) == (case.expected["cause"], case.expected["lcp"])
    assert _hits(turns)[1] == case.expected["t2_hits"] == 208
    assert len(_tokens(turns[1])) == case.expected["t2_prompt"] == 304
    # The template alone shows it, where the answer is not logged.
    silent = [replace(turn, output=None) for turn in turns]
    assert parted(*silent) == found
    # Kept, the 19 characters of the empty thought stand in the history: 235 tokens before the answer, 14 blocks.
    assert _hits(_chain(turns, "template_not_append_only")) == [0, 224]


def test_015_the_answer_is_encoded_again(cases: Path) -> None:
    case = Case.load(cases, "015")
    turns = _turns(case)
    found = parted(*turns)
    assert found is not None
    assert (found.kind, found.place, found.position) == ("retokenised_history", "tokens", 14)
    assert _hits(turns, 4, outputs=True)[1] == case.expected["t2_hits"] == 12
    assert len(_tokens(turns[1])) == case.expected["t2_prompt"] == 25
    chain = _chain(turns, "retokenised_history")
    assert _hits(chain, 4, outputs=True)[1] == case.expected["t2_hits_if_ids_kept"] == 16
    assert len(_tokens(chain[1])) == 26


def test_022_a_salt_for_each_request(cases: Path) -> None:
    case = Case.load(cases, "022")
    salts = [request["cache_salt"] for request in case.requests]
    (use,) = namespace_uses(salts, ["S"] * 4)
    assert (use.distinct, use.requests, use.used_once) == (case.expected["distinct_salts"], 4, 2)
    # A tenant's salt is among them: reported, not a fault of all.
    assert salt_kind(use) == "salt_per_tenant"
    (random,) = namespace_uses(salts[:3], ["S"] * 3)
    assert salt_kind(random) == "salt_per_request"


def test_023_requests_that_read_nothing(cases: Path) -> None:
    case = Case.load(cases, "023")
    skips = [request["prompt_logprobs"] is not None for request in case.requests]
    found = skipped_reads(skips, [len(prompt) for prompt in case.prompts()])
    assert (found.skipping, found.requests) == (1, 3)
    assert found.queried_tokens == case.expected["queries"] == 200
    hits = sum(case.hits())
    assert hits / found.queried_tokens == pytest.approx(0.48)
    assert hits / found.tokens == pytest.approx(0.32)


def test_026_instances_that_share_nothing(cases: Path) -> None:
    case = Case.load(cases, "026")
    shared = case.hits()
    assert shared == case.expected["potential"]
    alone = Case({}, [{**r, "cache_salt": r["instance"]} for r in case.requests], {}).hits()
    rows = [
        InstanceCounts(r["instance"], r["local_cached"], r["external_cached"], own, potential)
        for r, own, potential in zip(case.requests, alone, shared, strict=True)
    ]
    found = cross_instance(rows)
    assert (found.verdict, found.evidence, found.lost_tokens) == (case.expected["verdict"], (1,), 96)


def test_027_a_date_that_the_server_writes(cases: Path) -> None:
    case = Case.load(cases, "027")
    turns = _turns(case)
    found = parted(*turns)
    assert found is not None
    assert (found.kind, found.place, found.position) == (case.expected["field"], "prompt", 92)
    clock = injected_clock(turns[0].prompt or "", turns[1].prompt or "", ["Hello"])
    assert clock is not None
    assert (clock.position, clock.earlier, clock.later) == (
        case.expected["divergence"],
        "2026-11-28",
        "2026-11-29",
    )
    assert _hits(turns)[1] == case.expected["r2_hits"] == 80
    chain = _chain(turns, "server_injected_date")
    assert (_hits(chain)[1], len(_tokens(chain[1]))) == (320, 336)


def test_028_old_tool_outputs_are_cut(cases: Path) -> None:
    case = Case.load(cases, "028")
    turns = _turns(case)
    assert _hits(turns) == case.expected["hits"] == [0, 240, 352]
    assert [len(_tokens(turn)) for turn in turns] == case.expected["prompt"]
    chain = _chain(turns, "truncated_tool_output")
    assert _hits(chain) == case.expected["hits_no_trunc"] == [0, 352, 560]
    assert [len(_tokens(turn)) for turn in chain] == case.expected["prompt_no_trunc"] == [375, 571, 767]


def test_029_examples_in_another_order(cases: Path) -> None:
    case = Case.load(cases, "029")
    turns = _turns(case)
    assert _hits(turns) == case.expected["hits"] == [0, 16, 16, 32]
    first, chain = turns[0], [turns[0]]
    for turn in turns[1:]:
        found = parted(first, turn)
        assert found is not None
        assert found.kind == "reordered_passages"
        fixed = rebuilt(first, turn, found)
        assert fixed is not None
        chain.append(fixed)
    assert _hits(chain) == case.expected["hits_after_fix"] == [0, 48, 48, 48]
    assert [len(_tokens(turn)) for turn in chain] == [62] * 4


def test_037_the_same_text_in_two_unicode_forms(cases: Path) -> None:
    case = Case.load(cases, "037")
    turns = _turns(case)
    found = parted(*turns)
    assert found is not None
    assert found.kind == "unicode_form"
    composed, decomposed = sorted(turns, key=lambda turn: len(turn.prompt or ""))
    found = parted(composed, decomposed)
    assert found is not None
    assert "6 code points in one, 14 in the other" in found.detail
    assert len((composed.prompt or "")[: found.position].encode()) == case.expected["lcp"] == 8
    assert _hits([composed, decomposed])[1] == case.expected["hits"] == 0
    fixed = rebuilt(composed, decomposed, found)
    assert fixed is not None
    assert (_hits([composed, fixed])[1], len(_tokens(fixed))) == (case.expected["hits_nfc"], 56)


def test_064_two_bos(cases: Path) -> None:
    case = Case.load(cases, "064")
    turns = _turns(case)
    found = parted(*turns)
    assert found is not None
    assert (found.kind, found.position) == (case.expected["finding"], 1)
    assert _hits(_chain(turns, "double_bos")) == [0, 48]
