"""Reports in Chinese: every phrase has its translation, no number changes, and JSON and the log's own text stay."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

from kvtools.errors import UsageError
from kvtools.report.numbers import counted, percent, period
from kvtools.report.words import say, spoken, told, told_line

ROOT = Path(__file__).resolve().parents[2]
CATALOGUE = ROOT / "templates/report/words.zh.json"
HOLE = re.compile(r"\{(\w+)\}")


def _pairs() -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = json.loads(CATALOGUE.read_text(), object_pairs_hook=list)
    return pairs


def _texts(node: ast.expr) -> list[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    return (
        [text for each in (node.body, node.orelse) for text in _texts(each)]
        if isinstance(node, ast.IfExp)
        else []
    )


def _phrases(path: Path) -> set[str]:
    """Return what a module says: the texts of ``say``, ``phrase`` and ``t``, and the plurals of ``counted``."""
    source = path.read_text()
    found: set[str] = set()
    if "kvtools.report.words" not in source:
        return found
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or not node.args:
            continue
        if node.func.id in {"say", "phrase", "t"}:
            found.update(_texts(node.args[0]))
        elif node.func.id == "counted":
            several = (
                _texts(node.args[2]) if len(node.args) > 2 else [f"{text}s" for text in _texts(node.args[1])]
            )
            found.update(f"{{count}} {text}" for text in several)
    return found


MODULES = sorted(path for path in (ROOT / "kvtools/report").rglob("*.py") if _phrases(path))
PAGES = sorted((ROOT / "templates/report").glob("*.j2"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_phrase_of_a_module_is_translated(path: Path) -> None:
    assert not _phrases(path) - dict(_pairs()).keys()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_phrase_of_a_page_is_translated(path: Path) -> None:
    assert not set(re.findall(r'\bt\("([^"]*)"\)', path.read_text())) - dict(_pairs()).keys()


def test_the_catalogue_names_each_phrase_once() -> None:
    keys = [key for key, _ in _pairs()]
    assert len(keys) == len(set(keys))


def test_translations_have_the_holes_of_their_phrases() -> None:
    assert [key for key, text in _pairs() if set(HOLE.findall(key)) != set(HOLE.findall(text))] == []


def test_what_is_spoken_ends_with_its_block() -> None:
    with spoken("zh"):
        assert say("hit rate") == "命中率"
    assert say("hit rate") == "hit rate"
    with pytest.raises(UsageError, match="--lang fr"), spoken("fr"):
        pass


def test_counts_and_times() -> None:
    with spoken("zh"):
        assert counted(1, "request") == "1 个请求"
        assert counted(5000, "block") == "5,000 个块"
        assert percent(None) == "不详"
        # 1752537600 s after 1970 began is midnight of 15 July 2025 in UTC.
        assert period(1_752_537_600_000_000, 1_752_541_260_000_000) == "2025 年 7 月 15 日 00:00 - 01:01 UTC"
    assert counted(1, "request") == "1 request"


@pytest.mark.parametrize(
    ("sentence", "chinese"),
    [
        ("Analyze a longer log.", "请分析更长的日志。"),
        ("move user id, order id to the end of the system message", "把 用户 ID、订单号 移到系统消息末尾"),
        (
            "12.5 % hit rate in 200 blocks: too small for this traffic; 40.0 % without a limit. 1 block were evicted.",
            "命中率 12.5 %（200 个块）：对这些流量太小；不限大小时为 40.0 %。1 个块被逐出。",
        ),
        ("a text of the log", "a text of the log"),
        ("tea at 5", "tea at 5"),
        ("", ""),
    ],
    ids=["exact", "listed", "holes", "foreign", "short", "empty"],
)
def test_finished_sentences_are_recognised(sentence: str, chinese: str) -> None:
    assert told(sentence) == sentence
    with spoken("zh"):
        assert told(sentence) == chinese


def test_a_line_keeps_its_indent_and_its_other_parts() -> None:
    with spoken("zh"):
        assert told_line("   read 12 records · log.jsonl") == "   读取 12 条记录 · log.jsonl"


def test_a_megabyte_of_a_log_is_not_looked_through() -> None:
    text = "move " + "a to " * 200_000
    with spoken("zh"):
        assert told(text) == text
