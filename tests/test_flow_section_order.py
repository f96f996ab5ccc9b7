"""The order of sections in ``analyze``: chats judged by replay, a RAGPulse trace by whole components."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from kvtools.errors import UsageError
from kvtools.flow import AnalyzeOptions, Watcher, analyze
from kvtools.report.text import render_text

if TYPE_CHECKING:
    from pathlib import Path

    from kvtools.report.section_order import SectionOrder

RULES = " ".join(f"Rule {n} is to answer kindly and in full." for n in range(12))


def chat(number: int, *, swapped: bool) -> str:
    """Who is served comes first and varies, the rules follow in a message of their own; swapped: behind them."""
    who = {"role": "system", "content": f"You serve customer {number * 7919}."}
    rules = {"role": "developer", "content": RULES}
    leading = [rules, who] if swapped else [who, rules]
    return json.dumps({"messages": [*leading, {"role": "user", "content": f"question {number}"}]}) + "\n"


def plain(number: int) -> str:
    messages = [{"role": "system", "content": RULES}, {"role": "user", "content": f"question {number}"}]
    return json.dumps({"messages": messages}) + "\n"


def written(path: Path, *, swapped: bool) -> Path:
    rows = [chat(n, swapped=swapped) if n % 3 else plain(n) for n in range(60)]
    path.write_text("".join(rows))
    return path


def order_of(report_of: Path, **options: object) -> SectionOrder:
    found = analyze(report_of, AnalyzeOptions(**options)).section_order
    assert found is not None
    return found


def test_a_system_message_that_varies_goes_behind_one_that_does_not(tmp_path: Path) -> None:
    """The oracle is the same log written in the better order."""
    log, better = (written(tmp_path / f"{name}.jsonl", swapped=name == "b") for name in "ab")
    now, truth = (analyze(path, AnalyzeOptions(findings=False)).cache for path in (log, better))
    assert now is not None
    assert truth is not None
    found = order_of(log)
    assert found.current == ["tools", "system message 1", "system message 2", "earlier turns", "question"]
    assert found.best == found.advised
    assert found.best == ["tools", "system message 2", "system message 1", "earlier turns", "question"]
    assert (found.hit_rate_current, found.hit_rate_best) == (now.hit_rate, truth.hit_rate)
    assert found.moves == ["move system message 1 behind system message 2"]
    assert (found.counted_by, found.requests, found.sampled, found.orders_tried) == ("replay", 40, 40, 2)


def test_the_page_says_it_in_a_line(tmp_path: Path) -> None:
    page = " ".join(render_text(analyze(written(tmp_path / "a.jsonl", swapped=False))).split())
    assert "Section order move system message 1 behind system message 2: " in page
    kept = render_text(analyze(written(tmp_path / "b.jsonl", swapped=True)))
    assert "Section order" not in kept


def test_the_best_order_can_be_the_one_that_is_there(tmp_path: Path) -> None:
    found = order_of(written(tmp_path / "b.jsonl", swapped=True))
    assert found.best == found.current
    assert found.moves == []
    assert found.hit_rate_best == found.hit_rate_current


def test_kept_order(tmp_path: Path) -> None:
    log = written(tmp_path / "a.jsonl", swapped=False)
    found = order_of(log, keep_order=(("system message 1", "system message 2"),))
    assert found.best == found.current
    assert found.keep_order == [["system message 1", "system message 2"]]
    with pytest.raises(UsageError, match="no section 'rules' to keep in order: name some of tools, system"):
        analyze(log, AnalyzeOptions(keep_order=(("rules", "question"),)))
    with pytest.raises(UsageError, match="--keep-order"):
        AnalyzeOptions(keep_order=(("a", "b"),), findings=False)


def test_chats_with_one_system_message_have_no_order_to_choose(tmp_path: Path) -> None:
    log, told = tmp_path / "log.jsonl", []
    log.write_text("".join(plain(n) for n in range(4)))
    report = analyze(log, AnalyzeOptions(keep_order=(("a", "b"),)), Watcher(warn=told.append))
    assert report.section_order is None
    assert told == ["--keep-order has no effect: this log has no sections whose order can be chosen."]
    assert {a.name: a.supported for a in report.answers if a.name in {"findings", "section_order"}} == {
        "findings": True,
        "section_order": False,
    }


def test_the_order_of_the_log_does_not_matter(tmp_path: Path) -> None:
    """Arrival times decide: the same lines backwards are the same log."""
    rows = [json.dumps({**json.loads(chat(n, swapped=False)), "ts": n}) + "\n" for n in range(20)]
    forwards, backwards = tmp_path / "forwards.jsonl", tmp_path / "backwards.jsonl"
    forwards.write_text("".join(rows))
    backwards.write_text("".join(reversed(rows)))
    assert order_of(forwards) == order_of(backwards)


def test_the_ragpulse_week(shared: Path) -> None:
    """Published: 0.3153 as it is, 0.3699 with system part 3 behind the passages, 0.3707 at best."""
    report = analyze(shared / "data/ragpulse/0_trace.jsonl")
    found = report.section_order
    assert found is not None
    assert (round(found.hit_rate_current or 0, 4), round(found.hit_rate_best or 0, 4)) == (0.3153, 0.3707)
    assert round(found.hit_rate_advised or 0, 4) == 0.3699
    assert found.best[:3] == ["system part 1", "system part 2", "passages"]
    assert found.moves == ["move system part 3 behind passages, history, web search and user input"]
    assert (found.counted_by, found.requests) == ("components", 7_106)
    assert "move system part 3 behind passages" in render_text(report)


def test_a_trace_without_its_lengths_has_no_sections(tmp_path: Path) -> None:
    trace = tmp_path / "0_trace.jsonl"
    ids = {"sys_prompt": [0], "passages_ids": [], "history": [], "web_search": [], "user_input": [3]}
    line = {"timestamp": "1", "input_length": 9, "output_length": 2, "hash_ids": ids, "session_id": "s"}
    trace.write_text(json.dumps(line) + "\n")
    report = analyze(trace)
    assert report.section_order is None
    why = {answer.name: answer.why for answer in report.answers}
    assert why["findings"] == "no request has a prompt, token ids or block ids"
    assert "lengths" in why["section_order"]
    # A file of lengths that is broken is told, and the rest of the report stands.
    (tmp_path / "1_sys_prompt.jsonl").write_text('{"sys_prompt_id": 0, "token_length": -1}\n')
    told: list[str] = []
    assert analyze(trace, None, Watcher(warn=told.append)).section_order is None
    assert len(told) == 1
    assert "1_sys_prompt.jsonl:1: no sys_prompt_id" in told[0]
