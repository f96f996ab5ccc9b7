"""Markdown, HTML and the comparison of two reports: what they say, and what hostile text cannot do in them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import plotly.graph_objects as go
import pytest

from kvtools.errors import InputError, UsageError
from kvtools.flow import AnalyzeOptions, analyze
from kvtools.report.comparison import compare_reports, comparison_markdown, render_comparison
from kvtools.report.html import render_html
from kvtools.report.html.figures import drawings
from kvtools.report.html.visible import visible
from kvtools.report.markdown import plain, render_markdown
from kvtools.report.model import Report
from kvtools.report.shape import Window
from kvtools.report.words import words

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def report() -> Report:
    return analyze(ROOT / "data/canonical.chat.jsonl", AnalyzeOptions())


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("two  words\n", "two words"),
        ("a\x00b", "a\ufffdb"),
        ("\u202eexe", "\ufffdexe"),
        ("x" * 81, "x" * 79 + "…"),
        ("x" * 80, "x" * 80),
        ("订单号", "订单号"),
    ],
    ids=["blanks", "nul", "rtl", "long", "just", "chinese"],
)
def test_visible_text(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_markdown_reads_nothing_into_text() -> None:
    assert plain("a|b `c` <b> @me #1 [x](y)") == (
        "a\\|b \\`c\\` &lt;b&gt; &#64;&#8203;me &#35;1 \\[x\\]\\(y\\)"
    )


def test_markdown_begins_with_the_answer(report: Report) -> None:
    page = render_markdown(report)
    assert page.startswith(f"**{100 * report.cache.hit_rate:.1f} % of prompt tokens hit the prefix cache")
    assert f"- read {report.coverage.read:,} records" in page


def test_every_drawing_is_a_valid_plotly_figure(report: Report) -> None:
    drawn = drawings(report, words("en"))
    assert {"over_time", "curve", "lengths"} <= set(drawn)
    for drawing in drawn.values():
        go.Figure(drawing.spec)  # raises for a name or a value that plotly does not know


def test_the_page_needs_no_network_and_speaks_chinese(report: Report) -> None:
    page = render_html(report, lang="zh")
    assert '<html lang="zh-Hans">' in page
    assert "当前命中率" in page
    assert "default-src 'none'" in page
    assert not any(mark in page.split("<script>", 1)[0] for mark in ("src=", "href=", "@import", "url("))


def test_a_language_that_there_is_not(report: Report) -> None:
    with pytest.raises(UsageError, match="--lang fr"):
        render_html(report, lang="fr")


def test_a_page_of_many_routes_and_windows_is_no_larger(report: Report) -> None:
    """Two million requests have more routes, and as many windows, bins and nodes as two thousand at most."""
    window = Window(from_us=0, width_us=1, requests=9, queried_tokens=9, hit_tokens=1, hit_rate=1 / 9)
    few = msgspec.structs.replace(report, routes=report.routes[:1] * 200, over_time=[window] * 90)
    many = msgspec.structs.replace(
        few, requests=2_000_000, routes=report.routes[:1] * 20_000, inputs=report.inputs[:1] * 500
    )
    assert len(render_html(many)) < 1.2 * len(render_html(few))


def test_a_comparison_by_hand(report: Report) -> None:
    cache = report.cache
    after = msgspec.structs.replace(
        report,
        cache=msgspec.structs.replace(cache, hit_rate=cache.hit_rate + 0.125, block_size=32),
        variable_share=None,
    )
    found = compare_reports(report, after)
    rate = found.figures[0]
    assert (rate.name, rate.change) == ("hit rate", pytest.approx(0.125))
    variable = next(row for row in found.figures if row.name == "variable text")
    assert (variable.after, variable.change) == (None, None)
    assert found.differences == ["block_size: 16 / 32"]
    assert "+12.5 pt" in render_comparison(found)
    assert "- **not the same settings:** block\\_size: 16 / 32" in comparison_markdown(found)


def test_a_report_without_findings_says_nothing_of_causes(report: Report) -> None:
    without = msgspec.structs.replace(report, findings=None)
    found = compare_reports(without, report)
    assert (found.causes_gone, found.causes_new) == ([], [])


def test_reports_without_prompts_are_not_compared(report: Report) -> None:
    with pytest.raises(InputError, match="no hit rate to compare"):
        compare_reports(msgspec.structs.replace(report, cache=None), report)
