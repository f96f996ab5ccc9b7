"""Public cases 058, 059, 089 and 090 as a warm-up set sees them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvtools.blocks import block_keys
from kvtools.cache import Interner, Prompts
from kvtools.flow import WarmupOptions, warmup
from kvtools.model import CacheSpec
from kvtools.table import Ragged, offsets_of
from kvtools.warmup.judge import judge, survivors
from kvtools.warmup.replaying import Sent, naive_set, replayed
from kvtools.warmup.tree import History


def _case(shared: Path, number: str) -> tuple[list[dict[str, Any]], dict[str, Any], dict[str, Any]]:
    (folder,) = (shared / "cases").glob(f"{number}-*")
    rows = [json.loads(line) for line in (folder / "input.jsonl").read_text().splitlines()]
    return (
        rows,
        json.loads((folder / "expected.json").read_text()),
        json.loads((folder / "config.json").read_text()),
    )


def _history(rows: list[dict[str, Any]]) -> History:
    names: dict[str, int] = {}
    prompts = [
        [
            10_000 * names.setdefault(name, len(names)) + place
            for name, length in row["segments"]
            for place in range(length)
        ]
        for row in rows
    ]
    lengths = np.array([len(prompt) for prompt in prompts], dtype=np.int64)
    tokens = Ragged(np.array([t for p in prompts for t in p], dtype=np.int32), offsets_of(lengths))
    keys = block_keys(tokens, [None] * len(rows), 16)
    nobody = np.zeros(len(rows), dtype=np.bool_)
    known = Prompts(lengths, Interner().intern(keys.values), keys.offsets, nobody)
    lookups = known.lookups(CacheSpec(16))
    return History(known.ids, known.offsets, lookups, lengths, keys.values[keys.offsets[1:] - 1], nobody)


def test_058_warm_up_requests_are_not_measured(shared: Path) -> None:
    rows, expected, _ = _case(shared, "058")
    assert [row.get("phase") for row in rows] == ["warmup", "profile", "profile"]
    log = _history(rows)
    judged = judge(log, (1, 3), naive_set(log, [0]), [], CacheSpec(16))
    assert judged.warm.hits.tolist() == expected["warmed"] == [512, 512]
    assert judged.cold.hits.tolist() == expected["cold"] == [0, 512]
    assert judged.saved(judged.warm) == 512
    assert judged.warm.spent_tokens == 520  # what the warm-up cost stands apart
    assert judged.rate(judged.warm) == 1024 / 1040


def test_059_each_start_is_a_start_of_its_own(shared: Path) -> None:
    rows, expected, _ = _case(shared, "059")
    log = _history(rows)
    assert [replayed(log, (first, first + 2), [], CacheSpec(16))[1].tolist() for first in (0, 2)] == [
        expected["with_reset"][:2],
        expected["with_reset"][2:],
    ]
    # Run 1 sent as a warm-up is what makes run 2 warm.
    _, hits = replayed(log, (2, 4), naive_set(log, [1, 0]), CacheSpec(16))
    assert hits.tolist() == expected["hits"][2:] == [192, 192]


def test_090_a_set_that_is_larger_than_the_cache_names_who_is_gone(shared: Path) -> None:
    rows, expected, config = _case(shared, "090")
    log = _history(rows)
    spec = CacheSpec(16, config["num_blocks"])
    sent = [Sent(48, log.blocks(request)) for request in range(5)]
    alive = survivors(sent, [3] * 5, spec.capacity_blocks)
    assert [48 * one for one in alive] == expected["hits"] == [0, 0, 48, 48, 48]
    # The next request of each prefix, asked for alone behind the whole set, hits just that.
    asked = [_next_hit(log, request, sent, spec) for request in range(5)]
    assert asked == expected["hits"]


def _next_hit(log: History, request: int, sent: list[Sent], spec: CacheSpec) -> int:
    probe = Sent(int(log.tokens[request]) + 1, log.blocks(request))
    hits, _ = replayed(log, (0, 0), [*sent, probe], spec)
    return int(hits[-1])


def test_090_a_set_is_made_that_fits(shared: Path, tmp_path: Path) -> None:
    rows, _, config = _case(shared, "090")
    # The five prefixes come again and again, each with something of its own behind it.
    log, names = tmp_path / "log.jsonl", [row["segments"][0][0] for row in rows]
    lines = []
    for turn in range(40):
        place = turn % 5
        ids = [100 * names.index(names[place]) + k for k in range(48)] + [
            5_000 + 50 * turn + k for k in range(4)
        ]
        lines.append(json.dumps({"id": f"r{turn}", "ts": turn, "prompt_token_ids": ids}))
    log.write_text("\n".join(lines))
    report = warmup(log, WarmupOptions(capacity_blocks=config["num_blocks"], write="token-ids"))
    assert report.warmup.items
    assert all(item.survives for item in report.warmup.items)
    assert report.warmup.budget.used_blocks <= 9
    assert sum(item.tokens for item in report.warmup.items) <= 9 * 16
    assert report.warmup.left_out_count > 0  # named: all five do not fit
    assert "no room" in report.warmup.left_out[0].reason


@pytest.mark.parametrize("write", ["batch", "prompts", "token-ids"])
def test_089_what_is_written_shares_every_byte_up_to_the_block(
    shared: Path, tmp_path: Path, write: Any
) -> None:
    rows, expected, config = _case(shared, "089")
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps({**row, "id": f"{n}"}) + "\n" for n, row in enumerate(rows * 5)))
    # Only the shared prefix recurs within a budget of nine blocks.
    report = warmup(
        log,
        WarmupOptions(
            tokenizer=config["tokenizer"], chat_template=config["template"], write=write, budget_blocks=9,
            budget_queries=1, target=tmp_path / "out.jsonl", holdout=0.2,
        ),
    )  # fmt: skip
    (item,) = report.warmup.items
    assert item.tokens == expected["hits_ok"] == 144
    assert item.verified == 4
    body = json.loads((tmp_path / "out.jsonl").read_text())["body"]
    assert body["max_tokens"] == 1
    if write == "token-ids":
        assert len(body["prompt"]) == 144
    if write == "prompts":
        assert len(body["prompt"].encode()) == 144
    if write == "batch":
        assert item.form in {"cut", "messages"}
        system = rows[0]["messages"][0]["content"]
        assert system.startswith(body["messages"][0]["content"])
