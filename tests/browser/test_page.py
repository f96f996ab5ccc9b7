"""The page of data/shop-assistant.jsonl, which the README shows, in a real Chromium."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install 'kvtools[dev]'")

from opened import Opened, check_number

from kvtools.report.html import render_html
from kvtools.report.model import Report

pytestmark = pytest.mark.browser

DRAWN = {"findings", "over_time", "curve", "misses", "prefixes", "lengths", "gaps", "tiers"}
"""Its requests are of one class, and its server reported no hits."""


@pytest.fixture
def opened(opening: Callable[..., Opened], report: Report) -> Opened:
    return opening(render_html(report))


def test_the_page_draws_everything_and_asks_nobody(opened: Opened) -> None:
    assert opened.complaints == []
    assert opened.asked() == []
    assert opened.drawn() == DRAWN


def test_every_number_on_the_page_is_the_reports(opened: Opened, report: Report) -> None:
    values = json.loads(report.to_json())
    figures = opened.figures()
    assert len(figures) > 60
    for path, exact, shown in figures:
        check_number(values, path, exact, shown)


def test_the_route_table_sorts_and_filters(opened: Opened) -> None:
    page = opened.page
    routes = "#table-routes tbody tr:not([hidden]) th"
    assert page.locator(routes).all_text_contents() == ["order-status", "after-sales", "product-advice"]
    head = page.locator("#table-routes thead th").nth(1)
    head.locator("button").focus()
    page.keyboard.press("Enter")  # a keyboard is enough
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    assert page.locator(routes).all_text_contents() == ["product-advice", "after-sales", "order-status"]
    page.locator("input[data-table=table-routes]").fill("sales")
    assert page.locator(routes).all_text_contents() == ["after-sales"]
    assert page.locator("p:has(input[data-table=table-routes]) .filtered").text_content() == "1 / 3"
