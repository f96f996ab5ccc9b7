"""Lines that warm: whatever the template, a line's token ids begin with the prefix's, and it is as short as it can be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvtools.chat import load
from kvtools.flow import WarmupOptions, warmup
from kvtools.tokens import BytesTokenizer, load_tokenizer
from kvtools.warmup.lines import LineWriter, Member

SYSTEM = "You answer questions about plants. " * 20
CHAT: list[dict[str, Any]] = [
    {"role": "system", "content": SYSTEM},
    {"role": "user", "content": "Does rosemary survive frost? " * 10},
    {"role": "assistant", "content": "Light frost, yes. " * 10},
    {"role": "user", "content": "And lavender? " * 20},
]
TOOLS = [
    {
        "type": "function",
        "function": {"name": "find", "description": "d " * 100, "parameters": {"type": "object"}},
    }
]


@pytest.mark.parametrize("tools", [None, TOOLS], ids=["plain", "tools"])
@pytest.mark.parametrize("template", ["deepseek", "chatml"])
def test_every_depth_of_a_chat_is_warmed_and_cut(template: str, tools: list[dict[str, Any]] | None) -> None:
    writer = LineWriter(load(template), BytesTokenizer(), "batch", block_size=16)
    member = Member(messages=CHAT, tools=tools)
    text, ids = writer.prompt_of(member)
    assert text is not None
    for depth in range(1, len(ids) // 16 + 1, 5):
        line = writer.line(member, depth)
        assert line is not None
        rendered = load(template).render(line.body["messages"], line.body.get("tools"))
        assert rendered.encode()[: depth * 16] == text.encode()[: depth * 16]
        assert np.array_equal(line.token_ids, np.frombuffer(rendered.encode(), np.uint8))
        assert line.bytes_equal is not None
        assert line.bytes_equal >= depth * 16
    first = writer.line(member, 10)
    assert first is not None
    if tools is None:
        assert first.form == "cut"
        assert len(first.body["messages"]) == 1
        assert len(first.token_ids) < 16 * 10 + 64  # the prefix and what the template puts behind it


@pytest.mark.parametrize("write", ["prompts", "token-ids"])
def test_text_and_ids_hold_the_prefix_alone(write: Any) -> None:
    writer = LineWriter(load("deepseek"), load_tokenizer(), write, block_size=16)
    member = Member(messages=CHAT)
    _, ids = writer.prompt_of(member)
    line = writer.line(member, 5)
    assert line is not None
    assert line.token_ids[:80].tolist() == ids[:80].tolist()
    if write == "token-ids":
        assert line.body == {"prompt": ids[:80].tolist()}
    else:
        assert line.body["add_special_tokens"] is False  # the rendered prompt has its own BOS
        assert len(line.token_ids) <= 84


def test_a_prompt_shorter_than_the_prefix_is_no_line() -> None:
    writer = LineWriter(load("chatml"), BytesTokenizer(), "batch", block_size=16)
    assert writer.line(Member(messages=[{"role": "user", "content": "hi"}]), 50) is None


def test_pictures_are_sent_whole_or_not_at_all() -> None:
    member = Member(messages=CHAT, media=True)
    whole = LineWriter(load("chatml"), BytesTokenizer(), "batch", block_size=16).line(member, 2)
    assert whole is not None
    assert (whole.form, whole.body["messages"]) == ("member", CHAT)
    assert LineWriter(load("chatml"), BytesTokenizer(), "prompts", block_size=16).line(member, 2) is None


def test_a_line_carries_model_adapter_and_salt(tmp_path: Path) -> None:
    rows = [
        {"id": f"{n}", "model": "base", "lora": None, "cache_salt": f"tenant {n % 2}", "messages": [*CHAT[:1], {"role": "user", "content": f"q{n}"}]}
        for n in range(20)
    ]  # fmt: skip
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, rows)))
    out = tmp_path / "out.jsonl"
    report = warmup(tmp_path / "log.jsonl", WarmupOptions(target=out))
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert {record["body"]["cache_salt"] for record in records} == {"tenant 0", "tenant 1"}
    assert {record["body"]["model"] for record in records} == {"base"}
    assert [record["kvtools"]["tokens"] for record in records] == [
        item.tokens for item in report.warmup.items
    ]
    # The report names no salt: it may be a tenant's secret.
    assert "tenant" not in report.to_json()
