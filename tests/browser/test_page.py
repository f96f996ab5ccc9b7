"""The HTML page in a real Chromium: what it draws, what it loads, what its tables do, who can use it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from kvtools.flow import AnalyzeOptions, analyze
from kvtools.report.html import render_html
from kvtools.report.model import Report

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

playwright = pytest.importorskip(
    "playwright.sync_api", reason="Playwright is not installed: pip install 'kvtools[dev]'"
)
pytestmark = pytest.mark.browser

ROOT = Path(__file__).resolve().parents[2]
SHOTS = Path(os.environ.get("KVTOOLS_SCREENSHOTS", ROOT / ".screenshots"))
DRAWN = {"findings", "over_time", "curve", "misses", "prefixes", "lengths", "gaps", "tiers"}
HOSTILE = (
    "<script>window.ran=1</script>", "</script><script>window.ran=1</script>", "<img src=x onerror=window.ran=1>",
    "javascript:window.ran=1", "\u202egnp.exe", "a\x00b", "x" * 1_000_000, "'\"><svg onload=window.ran=1>",
    '<a href="javascript:window.ran=1">a</a>', "{{ 7 * 7 }}",
)  # fmt: skip


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def report() -> Report:
    return analyze(ROOT / "data/shop-assistant.jsonl", AnalyzeOptions())


class Opened:
    """A page that was opened, with what it complained of and what it asked the network for."""

    def __init__(self, browser: Browser, path: Path, html: str, **context: object) -> None:
        path.write_text(html, encoding="utf-8")
        for old in browser.contexts:
            old.close()
        self.page: Page = browser.new_context(**context).new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_load_state("networkidle")


@pytest.fixture
def opened(browser: Browser, report: Report, tmp_path: Path) -> Opened:
    return Opened(browser, tmp_path / "page.html", render_html(report))


def test_the_page_draws_everything_and_asks_nobody(opened: Opened) -> None:
    assert opened.complaints == []
    assert [url for url in opened.requests if not url.startswith(("file:", "data:", "blob:"))] == []
    drawn = opened.page.eval_on_selector_all(
        ".plot", "all => all.filter(at => at.querySelector('svg.main-svg')).map(at => at.id.slice(5))"
    )
    assert set(drawn) == DRAWN


def test_every_number_on_the_page_is_the_reports(opened: Opened, report: Report) -> None:
    values = json.loads(report.to_json())
    numbers = opened.page.eval_on_selector_all(
        "[data-json]", "all => all.map(at => [at.dataset.json, at.dataset.value, at.textContent])"
    )
    assert len(numbers) > 60
    for path, exact, shown in numbers:
        value = values
        for step in path.split("."):
            value = value[int(step)] if isinstance(value, list) else value[step]
        assert json.loads(exact) == value, path
        if value is None:
            assert shown == "n/a", path
            continue
        number, unit = float(shown.split()[0].replace(",", "")), shown.split()[1:]
        scale = {"%": 100, "M": 1e-6, "G": 1e-9}.get(unit[0] if unit else "", 1)
        digits = len(shown.split()[0].partition(".")[2])
        assert abs(number - value * scale) <= 0.5 * 10**-digits + 1e-9, path


def test_figures_draw_the_reports_numbers(opened: Opened, report: Report) -> None:
    def drawn(name: str, trace: int, axis: str) -> list[float]:
        values = opened.page.evaluate(f"document.getElementById('plot-{name}').data[{trace}].{axis}")
        assert isinstance(values, list)
        return values

    assert drawn("curve", 0, "x") == [point.capacity_blocks for point in report.curve]
    assert drawn("curve", 0, "y") == [point.hit_rate for point in report.curve]
    assert drawn("over_time", 1, "y") == [window.hit_rate for window in report.over_time]
    assert drawn("over_time", 0, "y") == [window.requests for window in report.over_time]
    assert drawn("lengths", 0, "y") == [each.requests for each in report.histograms.prompt_tokens]
    assert drawn("prefixes", 0, "values") == [node.below_prompt_tokens for node in report.prefix_tree]


def test_the_route_table_sorts_and_filters(opened: Opened) -> None:
    page = opened.page
    routes = "#table-routes tbody tr:not([hidden]) th"
    assert page.locator(routes).all_text_contents() == ["order-status", "after-sales", "product-advice"]
    head = page.locator("#table-routes thead th").nth(1)
    head.locator("button").focus()
    page.keyboard.press("Enter")  # a keyboard is enough
    assert head.get_attribute("aria-sort") == "descending"
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    assert page.locator(routes).all_text_contents() == ["product-advice", "after-sales", "order-status"]
    page.get_by_role("searchbox").fill("sales")
    assert page.locator(routes).all_text_contents() == ["after-sales"]
    assert page.get_by_role("status").text_content() == "1 / 3"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("width", [400, 1600])
def test_no_serious_fault_for_anyone_at_any_width(
    browser: Browser, report: Report, tmp_path: Path, scheme: str, lang: str, width: int
) -> None:
    axe = os.environ.get("KVTOOLS_AXE")
    if not axe:
        pytest.skip("axe-core is not there: make test-browser installs it")
    opened = Opened(
        browser, tmp_path / "page.html", render_html(report, lang=lang), color_scheme=scheme,
        viewport={"width": width, "height": 900},
    )  # fmt: skip
    page = opened.page
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    SHOTS.mkdir(exist_ok=True)
    page.screenshot(path=SHOTS / f"{lang}-{scheme}-{width}.png", full_page=True)
    page.evaluate(Path(axe).read_text(encoding="utf-8"))
    found = page.evaluate("axe.run()")["violations"]
    serious = [
        (v["id"], [n["html"][:120] for n in v["nodes"]])
        for v in found
        if v["impact"] in {"serious", "critical"}
    ]
    assert serious == []


def test_it_prints_on_white(browser: Browser, report: Report, tmp_path: Path) -> None:
    opened = Opened(browser, tmp_path / "page.html", render_html(report), color_scheme="dark")
    opened.page.emulate_media(media="print")
    assert opened.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    SHOTS.mkdir(exist_ok=True)
    opened.page.pdf(path=SHOTS / "print.pdf")


def _hostile(report: Report, text: str) -> Report:
    finding = msgspec.structs.replace(
        (report.findings or [])[0], route=text, section=text, fix=text, cluster=text
    )
    field = msgspec.structs.replace(finding.fields[0], name=text, examples=[text, text])
    return msgspec.structs.replace(
        report,
        findings=[msgspec.structs.replace(finding, fields=[field], kind=text)],
        routes=[msgspec.structs.replace(report.routes[0], route=text)],
        inputs=[msgspec.structs.replace(report.inputs[0], path=text)],
        settings=msgspec.structs.replace(
            report.settings, tokenizer=text, chat_template=text, tokenizer_check=text
        ),
        prefix_tree=[msgspec.structs.replace(node, route=text) for node in report.prefix_tree],
        coverage=msgspec.structs.replace(report.coverage, rejected=1, rejected_by_reason={text: 1}),
    )


@pytest.mark.parametrize("text", HOSTILE, ids=[f"text{n}" for n in range(len(HOSTILE))])
def test_hostile_text_does_nothing(browser: Browser, report: Report, tmp_path: Path, text: str) -> None:
    page = render_html(_hostile(report, text), command=text)
    opened = Opened(browser, tmp_path / "page.html", page, viewport={"width": 400, "height": 900})
    assert opened.complaints == []
    assert opened.page.evaluate("window.ran") is None
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 400
    assert "\u202e" not in page
    assert "\x00" not in page
    assert len(page) < 6_000_000
