from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from kvtools.chat import load
from kvtools.errors import InputError
from kvtools.flow.intake import IntakeOptions, Watcher, take_in
from kvtools.model import CacheSpec, SchedulerSpec
from kvtools.replay.engine import Run
from kvtools.replay.journal import Journal
from kvtools.replay.log import LogBuilder, ReplayLog
from kvtools.replay.simulator import SimulatorEngine
from kvtools.replay.workload import workload


def _log(path: Path, rows: list[dict], **keep: bool) -> ReplayLog:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def build(intake) -> ReplayLog:
        builder = LogBuilder(intake.tokenizer, **keep)
        for chunk, keyed, dropped in intake.chunks():
            builder.add(chunk, keyed, dropped)
        return builder.built()

    return take_in(
        path, IntakeOptions(tokenizer="bytes", block_size=4, chat_template="plain"), Watcher(), build
    )


ROWS = [
    {"id": "a", "prompt": "abcdefgh", "output_tokens": 6, "session_id": "s"},
    {"id": "b", "prompt": "abcdefgh", "output_tokens": 1, "session_id": "t"},
    {"id": "c", "prompt": "abcdZ", "session_id": "s"},
]


def test_one_token_leaves_the_prompts_full_blocks(tmp_path: Path) -> None:
    work = workload(_log(tmp_path / "log", ROWS), CacheSpec(4))
    assert work.output_tokens.tolist() == [1, 1, 1]
    assert work.offsets.tolist() == [0, 2, 4, 5]
    assert work.block_ids.tolist() == [0, 1, 0, 1, 0]


def test_recorded_lengths_get_blocks_that_nobody_else_has(tmp_path: Path) -> None:
    work = workload(_log(tmp_path / "log", ROWS), CacheSpec(4, outputs="lengths"))
    assert work.output_tokens.tolist() == [6, 1, 1]  # unknown counts as 1
    # a: 8 + 6 - 1 = 13 tokens have KV, 3 full blocks: two of the prompt and one of its own.
    assert work.offsets.tolist() == [0, 3, 5, 6]
    assert work.block_ids.tolist() == [0, 1, 2, 0, 1, 0]


def test_recorded_answers_are_hit_by_the_next_turn(tmp_path: Path) -> None:
    template = load("plain")
    first = [{"role": "user", "content": "hi there"}]
    answer = " good morning to you"  # the template prints a space behind "assistant:"
    second = [*first, {"role": "assistant", "content": answer.strip()}, {"role": "user", "content": "?"}]
    rows = [{"id": "1", "messages": first, "response": answer}, {"id": "2", "messages": second}]
    log = _log(tmp_path / "log", rows, keep_tokens=True, keep_answers=True)
    hits = {}
    for outputs in ("one", "text"):
        run = Run(CacheSpec(4, outputs=outputs), SchedulerSpec(), Journal())
        hits[outputs] = SimulatorEngine().replay(log, run).hit_tokens.tolist()
    prompt, history = len(template.render(first).encode()), len((template.render(first) + answer).encode())
    # "one": the whole blocks of the first prompt that the second begins with; "text": those of prompt and answer.
    assert hits == {"one": [0, prompt // 4 * 4], "text": [0, history // 4 * 4]}


def test_what_the_log_lacks_is_said(tmp_path: Path) -> None:
    log = _log(tmp_path / "log", [{"prompt": "abcd"}])
    with pytest.raises(InputError, match="holds no output lengths"):
        workload(log, CacheSpec(4, outputs="lengths"))
    with pytest.raises(InputError, match="holds no recorded answers"):
        workload(log, CacheSpec(4, outputs="text"))


def test_whole_sessions_are_taken(tmp_path: Path) -> None:
    rows = [
        {"id": "a1", "session_id": "a"}, {"id": "b1", "session_id": "b"}, {"id": "x"},
        {"id": "a2", "session_id": "a"}, {"id": "c1", "session_id": "c"}, {"id": "b2", "session_id": "b"},
    ]  # fmt: skip
    log = _log(tmp_path / "log", [row | {"prompt": "abcd"} for row in rows])
    assert log.first_sessions(1).request_id == ["a1", "a2"]
    assert log.first_sessions(2).request_id == ["a1", "b1", "a2", "b2"]
    assert log.first_sessions(3).request_id == [
        "a1",
        "b1",
        "x",
        "a2",
        "b2",
    ]  # without a session: one of its own
    assert log.first_sessions(9).request_id == log.request_id


def test_a_taken_log_keeps_its_columns_together(tmp_path: Path) -> None:
    log = _log(tmp_path / "log", ROWS, keep_tokens=True, keep_bodies=True)
    turned = log.take(np.array([2, 0]))
    assert turned.request_id == ["c", "a"]
    assert turned.prompt_tokens.tolist() == [5, 8]
    assert bytes(turned.tokens.row(0).tolist()) == b"abcdZ"
    assert json.loads(turned.bodies[1]) == {"prompt": "abcdefgh"}
    assert turned.answer_tokens is None
