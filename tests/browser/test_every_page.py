"""Every kind of page in a real Chromium: what it draws, loads and shows, what its tables do, who can use it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install 'kvtools[dev]'")

from made_pages import FIGURES, KINDS, Made
from opened import Opened, check_number

pytestmark = pytest.mark.browser

HOSTILE = (
    "</script><script>window.ran=1</script><img src=x onerror=window.ran=1>",
    "'\"><svg onload=window.ran=1>javascript:window.ran=1 {{ 7 * 7 }} %{x} ${y}",
    '\u202egnp.exe a\x00b <a href="javascript:window.ran=1">a</a>',
    "x" * 1_000_000,
)
"""Each short enough to reach the page whole, but the last."""
VIEWS = (("light", 1600, "en"), ("dark", 400, "en"), ("light", 400, "zh"), ("dark", 1600, "zh"))

Opening = Callable[..., Opened]


@pytest.mark.parametrize("kind", KINDS)
def test_it_draws_everything_and_asks_nobody(opening: Opening, made: Made, kind: str) -> None:
    opened = opening(made.page(kind))
    assert opened.complaints == []
    assert opened.asked() == []
    assert opened.drawn() == FIGURES[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_every_number_is_the_jsons(opening: Opening, made: Made, kind: str) -> None:
    opened, values = opening(made.page(kind)), made.values(kind)
    figures = opened.figures()
    assert len(figures) >= 25
    for path, exact, shown in figures:
        check_number(values, path, exact, shown)
    # A cell of figures holds one that says where it stands, or a sign that there is none.
    bare = opened.page.eval_on_selector_all(
        "tbody td.r",
        "all => all.filter(at => !at.querySelector('[data-json]')).map(at => at.textContent.trim())",
    )
    assert set(bare) <= {"-", "∞", "n/a"}


@pytest.mark.parametrize("kind", KINDS)
def test_tables_sort_and_filter(opening: Opening, made: Made, kind: str) -> None:
    page = opening(made.page(kind)).page
    tables = page.locator("table.sortable").evaluate_all("all => all.map(at => at.id)")
    assert tables
    for table in tables:
        heads = page.locator(f"#{table} thead th")
        for column in range(heads.count()):
            if "r" not in (heads.nth(column).get_attribute("class") or ""):
                continue
            cells = f"#{table} tbody tr > :nth-child({column + 1})"
            for direction in ("descending", "ascending"):
                heads.nth(column).locator("button").focus()
                page.keyboard.press("Enter")  # a keyboard is enough
                assert heads.nth(column).get_attribute("aria-sort") == direction
                exact = page.locator(cells).evaluate_all(
                    "all => all.map(at => at.querySelector('[data-value]')?.dataset.value ?? 'null')"
                )
                shown = [value for value in map(json.loads, exact) if value is not None]
                assert shown == sorted(shown, reverse=direction == "descending")
        search = page.locator(f"input[data-table={table}]")
        if not search.count():
            continue
        rows = page.locator(f"#{table} tbody tr")
        word = (rows.first.locator("th, td").first.text_content() or "").strip()
        having = sum(word.lower() in text.lower() for text in rows.all_text_contents())
        search.fill(word)
        assert page.locator(f"#{table} tbody tr:not([hidden])").count() == having
        search.fill("no row says this")
        assert page.locator(f"#{table} tbody tr:not([hidden])").count() == 0
        search.fill("")


@pytest.mark.parametrize(("scheme", "width", "lang"), VIEWS, ids=["-".join(map(str, view)) for view in VIEWS])
@pytest.mark.parametrize("kind", KINDS)
def test_no_serious_fault_for_anyone(
    opening: Opening, made: Made, shots: Path, kind: str, scheme: str, width: int, lang: str
) -> None:
    axe = os.environ.get("KVTOOLS_AXE")
    if not axe:
        pytest.skip("axe-core is not there: make test-browser installs it")
    page = opening(made.page(kind, lang), color_scheme=scheme, viewport={"width": width, "height": 900}).page
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.screenshot(path=shots / f"{kind}-{lang}-{scheme}-{width}.png", full_page=True)
    page.evaluate(Path(axe).read_text(encoding="utf-8"))
    found = page.evaluate("axe.run()")["violations"]
    serious = [
        (v["id"], [n["html"][:120] for n in v["nodes"]])
        for v in found
        if v["impact"] in {"serious", "critical"}
    ]
    assert serious == []


@pytest.mark.parametrize("kind", KINDS)
def test_it_prints_on_white_and_unfolded(opening: Opening, made: Made, shots: Path, kind: str) -> None:
    opened = opening(made.page(kind), color_scheme="dark", viewport={"width": 800, "height": 1100})
    page = opened.page
    page.evaluate("""() => {
        window.folded = [];
        window.addEventListener('beforeprint', () => window.folded.push(
            document.querySelectorAll('details:not([open])').length));
    }""")
    before = page.locator("details:not([open])").count()
    page.pdf(path=shots / f"{kind}-print.pdf")
    assert page.evaluate("window.folded") == [0]
    assert page.locator("details:not([open])").count() == before
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.screenshot(path=shots / f"{kind}-print.png", full_page=True)
    assert opened.complaints == []


@pytest.mark.parametrize("text", HOSTILE, ids=[f"text{n}" for n in range(len(HOSTILE))])
@pytest.mark.parametrize("kind", KINDS)
def test_hostile_text_in_every_field_does_nothing(opening: Opening, made: Made, kind: str, text: str) -> None:
    html = made.poisoned(text).page(kind, command=text)
    opened = opening(html, viewport={"width": 400, "height": 900})
    assert opened.complaints == []
    assert opened.asked() == []
    assert opened.page.evaluate("window.ran") is None
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 400
    assert "\u202e" not in html
    assert "\x00" not in html
    assert len(html) < 6_000_000


def test_figures_draw_the_replays_numbers(opening: Opening, made: Made) -> None:
    opened, report = opening(made.page("replay")), made.replay
    assert report.compare is not None
    assert opened.data("engines", 0, "y") == [
        report.compare.predicted_hit_rate, report.compare.observed_hit_rate,
    ]  # fmt: skip
    assert opened.data("engine_tokens", 0, "y") == [one.hit_tokens for one in report.replays]
    for place, one in enumerate(report.replays):
        assert opened.data("engines_over_time", place, "y") == [window.hit_rate for window in one.over_time]
    assert opened.data("reasons", 0, "x") == [1, 1]


def test_figures_draw_the_warm_ups_numbers(opening: Opening, made: Made) -> None:
    opened, curve = opening(made.page("warmup")), made.warmup.evaluation.curve
    assert opened.data("cold_start", 0, "x") == [point.requests for point in curve]
    for place, name in enumerate(("cold_hit_rate", "topk_hit_rate", "warm_hit_rate")):
        assert opened.data("cold_start", place, "y") == [getattr(point, name) for point in curve]
    assert opened.data("saved", 1, "y") == [point.warm_saved_tokens for point in curve]


def test_figures_draw_both_sides_of_a_comparison(opening: Opening, made: Made) -> None:
    opened = opening(made.page("compare"))
    for place, side in enumerate((made.log, made.after)):
        assert side.cache is not None
        assert opened.data("rates", place, "y")[0] == side.cache.hit_rate
        assert opened.data("curves", place, "y") == [point.hit_rate for point in side.curve]


def test_figures_draw_the_logs_numbers(opening: Opening, made: Made) -> None:
    opened, report = opening(made.page("log")), made.log
    windows = report.over_time
    assert opened.data("curve", 0, "x") == [point.capacity_blocks for point in report.curve]
    assert opened.data("curve", 0, "y") == [point.hit_rate for point in report.curve]
    assert report.cache is not None
    assert opened.data("curve", 1, "x") == [report.cache.capacity_blocks]
    assert opened.data("curve", 1, "y") == [report.cache.hit_rate]
    assert opened.data("over_time", 0, "y") == [window.requests for window in windows]
    assert opened.data("over_time", 1, "y") == [window.hit_rate for window in windows]
    assert opened.data("hot_share", 0, "y") == [window.hot_share for window in report.class_windows]
    assert opened.data("lengths", 0, "y") == [each.requests for each in report.histograms.prompt_tokens]
    assert opened.data("gaps", 0, "y") == [each.requests for each in report.histograms.interarrival_s]
    assert opened.data("prefixes", 0, "values") == [node.below_prompt_tokens for node in report.prefix_tree]
    for place, name in enumerate(("hot", "cold")):
        cells = [
            one.requests for one in report.class_bins if one.name == name and one.gap_at_least_s is not None
        ]
        assert opened.data("class_scatter", place, "customdata") == cells


def test_the_curve_has_an_axis_in_gibibytes(opening: Opening, made: Made) -> None:
    page = opening(made.page("log")).page
    layout = page.evaluate("document.getElementById('plot-curve').layout.xaxis2")
    # 16 tokens of 131,072 bytes: 512 blocks are 1 GiB.
    ticks = dict(zip(layout["tickvals"], layout["ticktext"], strict=True))
    assert {blocks: f"{blocks / 512:.3g}" for blocks in ticks} == ticks
    below = page.evaluate("document.getElementById('plot-curve')._fullLayout.xaxis.range")
    above = page.evaluate("document.getElementById('plot-curve')._fullLayout.xaxis2.range")
    assert above == below
