"""A report in a notebook: a fragment in which hostile text does nothing, and tables with stable names."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pandas as pd
import pytest

from kvtools.flow import AnalyzeOptions, analyze
from kvtools.report.findings import Finding
from kvtools.report.model import CurvePoint, Report

ROOT = Path(__file__).resolve().parents[2]
HOSTILE = '<script>alert(1)</script>&"\u202e\0'

FINDING = Finding(
    id="f1", cluster="A", route=HOSTILE, kind=HOSTILE, fields=[], section="user message", position_chars=1234,
    granularity=None, requests=9, tokens_lost=5000, hit_rate_if_fixed=0.5, gain=0.25, only_together=False,
    severity="high", fix="-", cost_per_day=None, cost_per_million_requests=None,
)  # fmt: skip


class _Tags(HTMLParser):
    """Collects tags and the text between them, as a browser reads it."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.fixture(scope="module")
def report() -> Report:
    return analyze(ROOT / "data/canonical.chat.jsonl", AnalyzeOptions())


def _read(page: str) -> _Tags:
    read = _Tags()
    read.feed(page)
    read.close()
    return read


def test_the_fragment_holds_headline_and_findings(report: Report) -> None:
    one = msgspec.structs.replace(
        report, findings=[msgspec.structs.replace(FINDING, kind="order", route="shop")]
    )
    read = _read(one._repr_html_())
    assert report.cache is not None
    assert read.words[0].startswith(
        f"{100 * (report.cache.hit_rate or 0):.1f} % of prompt tokens hit the prefix cache"
    )
    told = [word for word in read.words if word.strip()]
    assert told[-5:] == ["order", "user message, char 1,234", "A shop", "5,000", "50.0 %"]


def test_hostile_text_is_text(report: Report) -> None:
    page = msgspec.structs.replace(report, findings=[FINDING])._repr_html_()
    read = _read(page)
    assert read.tags <= {"div", "p", "b", "table", "thead", "tbody", "tr", "th", "td"}
    assert read.attributes == []
    assert any("<script>alert(1)</script>" in word for word in read.words)
    assert not re.search("[\u202e\0]", page)


def test_more_than_ten_findings_are_counted(report: Report) -> None:
    page = msgspec.structs.replace(report, findings=[FINDING] * 12)._repr_html_()
    assert page.count("<tr>") == 11  # the head and ten of them
    assert "2 more: report.to_pandas()" in page


def test_at_a_prompt_a_report_is_its_headline(report: Report) -> None:
    class Printer:
        said = ""

        def text(self, text: str) -> None:
            self.said += text

    printer = Printer()
    report._repr_pretty_(printer, False)
    assert report.cache is not None
    assert printer.said.startswith(
        f"{100 * (report.cache.hit_rate or 0):.1f} % of prompt tokens hit the prefix cache"
    )
    assert "\n" not in printer.said


def test_a_report_without_prompts_has_a_fragment(report: Report) -> None:
    bare = msgspec.structs.replace(
        report, cache=None, ceiling=None, prompt_tokens=None, similarity=None, findings=None
    )
    assert "This log has no prompts" in bare._repr_html_()


def test_tables_have_the_rows_and_names_of_the_json(report: Report) -> None:
    three = [CurvePoint(capacity_blocks=size, hit_tokens=16 * size, hit_rate=size / 8) for size in (1, 2, 4)]
    tables = msgspec.structs.replace(report, curve=three, findings=[FINDING]).to_pandas()
    expected = pd.DataFrame(
        {"capacity_blocks": [1, 2, 4], "hit_tokens": [16, 32, 64], "hit_rate": [0.125, 0.25, 0.5]}
    )
    pd.testing.assert_frame_equal(tables["curve"], expected)
    assert tables["findings"].loc[0, "tokens_lost"] == 5000
    assert tables["routes"]["cache.hit_rate"].tolist() == [route.cache.hit_rate for route in report.routes]
    assert len(tables["over_time"]) == len(report.over_time)


def test_empty_tables_keep_their_columns(report: Report) -> None:
    tables = msgspec.structs.replace(report, curve=[], findings=None, sessions=None, classes=[]).to_pandas()
    for name, column in (
        ("curve", "hit_rate"),
        ("findings", "gain"),
        ("tiers", "sessions"),
        ("classes", "latency.p99_ms"),
    ):
        assert len(tables[name]) == 0
        assert column in tables[name].columns


def test_the_tables_are_those_that_are_documented(report: Report) -> None:
    page = (ROOT / "docs/python.md").read_text()
    documented = re.findall(r"^\| `(\w+)` \|", page.split("## Tables")[1], re.MULTILINE)
    assert sorted(report.to_pandas()) == sorted(documented)
