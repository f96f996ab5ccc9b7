"""Whole screens in Chinese: the figures of the English ones, within 80 columns, with no English left."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from rich.cells import cell_len

from kvtools.flow import AnalyzeOptions, ExplainOptions, ReplayOptions, analyze, explain, replay
from kvtools.report.comparison import compare_reports, render_comparison
from kvtools.report.explain_text import render_explanation
from kvtools.report.model import Report
from kvtools.report.replay_text import render_replay
from kvtools.report.text import render_text

ROOT = Path(__file__).resolve().parents[2]
LOG = ROOT / "data/shop-assistant.jsonl"
GOLDEN = Path(__file__).with_name("shop_assistant.zh.txt")
KEPT = {
    "token", "Jaccard", "DeepSeek", "V", "deepseek", "vllm", "vLLM", "LRU", "ID", "id", "pt", "M", "k", "p", "s", "m",
    "order", "status", "after", "sales", "product", "advice", "simulator", "shop", "assistant", "jsonl", "data", "req",
}  # fmt: skip
"""Names that Chinese engineers write as they are, units, and names of the log."""


@pytest.fixture(scope="module")
def report() -> Report:
    return analyze(LOG)


def _numbers(page: str) -> Counter[str]:
    """Return the numbers of a page; a month by its number, as Chinese has it."""
    return Counter(re.findall(r"\d[\d,.]*\d|\d", page.replace("Jul", "7")))


def _english(page: str) -> set[str]:
    return set(re.findall(r"[A-Za-z]+", page)) - KEPT


def test_the_shop_assistants_screen(report: Report) -> None:
    again, fix = "kvtools analyze logs shop.jsonl", "kvtools normalize shop.jsonl -o shop.norm.jsonl"
    chinese = render_text(report, again=again, fix=fix, lang="zh")
    assert chinese == GOLDEN.read_text()
    assert _numbers(chinese) == _numbers(render_text(report, again=again, fix=fix))


def test_every_page_of_it_keeps_to_80_columns(report: Report) -> None:
    priced = msgspec.structs.replace(
        report, cost_basis="Money per day: tokens / time covered (3.0 h), at 0.27 per million prompt tokens."
    )
    for page in (render_text(report, lang="zh"), render_text(priced, lang="zh", everything=True)):
        assert max(map(cell_len, page.splitlines())) <= 80
    assert "每天金额：token / 覆盖时间（3.0 h），每百万提示词 token 0.27。" in render_text(priced, lang="zh")


def test_nothing_english_is_left(report: Report) -> None:
    assert _english(render_text(report, lang="zh")) == {"B", "A", "C"}
    assert _english(render_comparison(compare_reports(report, report), "zh")) == set()


def test_replay_in_chinese(tmp_path: Path) -> None:
    few = tmp_path / "shop.jsonl"
    few.write_bytes(b"".join(LOG.read_bytes().splitlines(keepends=True)[:50]))
    ran = replay(few, ReplayOptions(capacity_blocks=20))
    chinese = render_replay(ran, "zh")
    assert _numbers(chinese) == _numbers(render_replay(ran))
    assert _english(chinese) == set()


def test_explain_in_chinese(tmp_path: Path) -> None:
    few = tmp_path / "shop.jsonl"
    few.write_bytes(b"".join(LOG.read_bytes().splitlines(keepends=True)[:50]))
    found = explain("req-0000042", few, ExplainOptions())
    chinese = render_explanation(found, lang="zh")
    assert _numbers(chinese) == _numbers(render_explanation(found))
    told = "\n".join(line for line in chinese.splitlines() if "▌" not in line and ".jsonl" not in line)
    assert _english(told) == set()


def test_json_is_never_translated(report: Report) -> None:
    before = report.to_json()
    render_text(report, lang="zh")
    assert report.to_json() == before


def test_a_log_without_prompts_in_chinese(tmp_path: Path) -> None:
    log = tmp_path / "usage.csv"
    head = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    rows = [f"{second},ChatGPT,{100 * second},7,{100 * second + 7},API log\n" for second in range(1, 9)]
    log.write_text(head + "".join(rows))
    bare = analyze(log, AnalyzeOptions(findings=False))
    chinese, english = render_text(bare, lang="zh"), render_text(bare)
    assert chinese.startswith("此日志没有提示词，无法回放出命中率；")
    assert _numbers(chinese) == _numbers(english)
    assert max(map(cell_len, chinese.splitlines())) <= 80
    assert _english(chinese) <= {
        "LiteLLM",
        "store",
        "prompts",
        "in",
        "spend",
        "logs",
        "enable",
        "log",
        "requests",
        "DEBUG",
    }
