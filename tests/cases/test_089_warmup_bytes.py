"""Case 089: a warm-up request warms what it shares byte for byte, in full blocks; counted by the simulator."""

from __future__ import annotations

import json
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import pytest
from shared_case import Case

from kvtools.chat import load
from kvtools.flow import ReplayOptions, replay

if TYPE_CHECKING:
    from pathlib import Path


def hits_behind(warmup: dict[str, Any], request: dict[str, Any], case: Case, path: Path) -> int:
    """Return the hit tokens of a request that follows a warm-up in an empty cache; the warm-up itself hits nothing."""
    path.write_text("".join(json.dumps({"id": n, **row}) + "\n" for n, row in enumerate((warmup, request))))
    options = ReplayOptions(
        tokenizer=case.config["tokenizer"],
        chat_template=case.config["template"],
        block_size=case.config["block_size"],
        capacity_blocks=case.config["num_blocks"],
    )
    (found,) = replay(path, options).replays
    assert found.requests == 2
    return found.hit_tokens


@pytest.mark.parametrize("first", [0, 1], ids=["r1", "r2"])
def test_089_what_is_cut_from_real_prompts_warms_all_of_the_prefix(
    shared: Path, tmp_path: Path, first: int
) -> None:
    case = Case.load(shared / "cases", "089")
    template = load("chatml")
    prompts = [template.render(request["messages"], None) for request in case.requests]
    both = takewhile(lambda pair: pair[0] == pair[1], zip(*prompts, strict=False))
    shared_text = "".join(one for one, _ in both)
    assert len(shared_text.encode()) == case.expected["common"] == 159
    request = {"messages": case.requests[first]["messages"]}
    for length in (159, 144):  # the shared prefix, and what of it fills blocks
        hits = hits_behind({"prompt": shared_text[:length]}, request, case, tmp_path / "log.jsonl")
        assert hits == case.expected["hits_ok"] == 144


@pytest.mark.parametrize("first", [0, 1], ids=["r1", "r2"])
def test_089_what_is_written_by_hand_warms_up_to_its_first_other_byte(
    shared: Path, tmp_path: Path, first: int
) -> None:
    case = Case.load(shared / "cases", "089")
    system, user = case.requests[first]["messages"]
    by_hand = {"messages": [{**system, "content": system["content"].rstrip()}, user]}
    hits = hits_behind(by_hand, {"messages": [system, user]}, case, tmp_path / "log.jsonl")
    assert hits == case.expected["hits_bad"] == 128
