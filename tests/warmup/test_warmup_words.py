"""The page of a warm-up set in Chinese: every figure of the English one, and no English left."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from kvtools.flow import WarmupOptions, warmup
from kvtools.report.warmup import WarmupReport
from kvtools.report.warmup_text import render_warmup
from kvtools.report.words import spoken, told

KEPT = {"token", "s", "DeepSeek", "V", "top", "K", "id", "warmup", "kvtools", "send", "url", "http", "HOST", "PORT",
        "verify", "out", "jsonl"}  # fmt: skip
"""Names, units and the command."""


def _english(page: str) -> set[str]:
    return set(re.findall(r"[A-Za-z]+", page)) - KEPT


def _numbers(page: str) -> Counter[str]:
    return Counter(re.findall(r"\d[\d,.]*\d|\d", page))


@pytest.fixture(scope="module")
def report(data: Path) -> WarmupReport:
    return warmup(data / "shop-assistant.jsonl", WarmupOptions(budget_queries=20, capacity_blocks=100))


def test_the_page_in_chinese(report: WarmupReport) -> None:
    assert report.warmup.left_out
    chinese = render_warmup(report, "out.jsonl", "zh")
    assert _english(chinese) == set()
    assert _numbers(chinese) == _numbers(render_warmup(report, "out.jsonl"))


@pytest.mark.parametrize("by", ["expected saving", "time of day", "frequency", "nothing"])
def test_how_a_set_was_chosen(report: WarmupReport, by: str) -> None:
    ways = [msgspec.structs.replace(way, by=by) for way in report.warmup.ways]
    made = msgspec.structs.replace(report.warmup, chosen_by=by, ways=ways)
    page = render_warmup(msgspec.structs.replace(report, warmup=made), lang="zh")
    assert _english(page) == set()


START = "20 requests save 1,440 of 36,464 prompt tokens (86.6 % → 90.6 %) for 1,440 spent on warming"
ENDS = [
    ", judged on the requests it was built from: optimistic.",
    "; the most frequent prompts, which did best at restarts within the first part.",
    "; the naive top-K saves 1,440.",
    "; the naive top-K saves 1,440, more than the set.",
]
OTHERS = [
    "No warm-up: at restarts within the log every set did worse than a cold start.",
    "No warm-up: no prefix that comes again fits the budget and the cache, or can be written.",
    (
        "No warm-up: no block was asked for twice in the part of the log that the set is built from, "
        "so there is nothing that is worth sending."
    ),
    "the cache has no room for it: it would push out what is worth more",
    "its line does not fit the budget or the cache",
    "it renders otherwise than a member of its group",
]


@pytest.mark.parametrize("sentence", [*(START + end for end in ENDS), *OTHERS], ids=range(len(ENDS + OTHERS)))
def test_every_conclusion_and_reason_has_its_words(sentence: str) -> None:
    with spoken("zh"):
        chinese = told(sentence)
    assert _english(chinese) == set()
    assert _numbers(chinese) == _numbers(sentence)
