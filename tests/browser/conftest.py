"""Chromium, the reports, and a page that was opened with what it complained of."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kvtools.flow import AnalyzeOptions, analyze

if TYPE_CHECKING:
    from made_pages import Made
    from opened import Opened
    from playwright.sync_api import Browser

    from kvtools.report.model import Report

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="Playwright is not installed: pip install 'kvtools[dev]'"
    )
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


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    from made_pages import make

    return make(tmp_path_factory.mktemp("traffic"))


@pytest.fixture
def opening(browser: Browser, tmp_path: Path) -> Any:
    """Open a page that is given as text."""
    from opened import Opened

    def open_it(html: str, **context: object) -> Opened:
        return Opened(browser, tmp_path / "page.html", html, **context)

    return open_it


@pytest.fixture(scope="session")
def shots() -> Path:
    """Where screenshots are kept, for whoever looks at them after a run."""
    folder = Path(os.environ.get("KVTOOLS_SCREENSHOTS", ROOT / ".screenshots"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder
