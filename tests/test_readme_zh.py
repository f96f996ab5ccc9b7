"""README.zh.md says what README.md says: the same headings, blocks, links, names and figures."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


def _page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def _prose(name: str) -> str:
    return BLOCK.sub("", _page(name))


@pytest.fixture(scope="module")
def both() -> tuple[str, str]:
    return _prose("README.md"), _prose("README.zh.md")


def test_the_headings_are_as_many_and_as_deep(both: tuple[str, str]) -> None:
    english, chinese = (re.findall(r"^#+(?= )", page, re.MULTILINE) for page in both)
    assert english == chinese


def test_the_code_blocks_are_the_same_bytes() -> None:
    english, chinese = (BLOCK.findall(_page(name)) for name in ("README.md", "README.zh.md"))
    assert english == chinese
    assert len(english) > 5


def test_each_section_has_as_many_paragraphs(both: tuple[str, str]) -> None:
    english, chinese = (
        [len(re.split(r"\n\s*\n", part.strip())) for part in re.split(r"^#+ ", page, flags=re.MULTILINE)]
        for page in both
    )
    assert english == chinese


def test_links_and_pictures_lead_to_the_same_places(both: tuple[str, str]) -> None:
    english, chinese = (Counter(re.findall(r"\]\(([^)]+)\)", page)) for page in both)
    assert english - Counter(["README.zh.md"]) == chinese - Counter(["README.md"])
    assert english["README.zh.md"] == chinese["README.md"] == 1


def test_inline_code_is_the_same(both: tuple[str, str]) -> None:
    english, chinese = (Counter(re.findall(r"`([^`\n]+)`", page)) for page in both)
    assert english == chinese


def test_the_figures_are_the_same(both: tuple[str, str]) -> None:
    english, chinese = (Counter(re.findall(r"\d[\d,.]*\d|\d", page)) for page in both)
    assert english == chinese
