"""Draw docs/report.png: the HTML page of data/shop-assistant.jsonl as Chromium shows it.

python benchmarks/screenshot.py
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from kvtools.flow import analyze
from kvtools.report.html import render_html

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    """Write the picture, of the page's upper part."""
    program = shutil.which("chromium")
    if program is None:
        sys.exit("Chromium is not installed: apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page = Path(folder) / "page.html"
        page.write_text(render_html(analyze(ROOT / "data/shop-assistant.jsonl")), encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        view = browser.new_page(viewport={"width": 1100, "height": 1000})
        view.goto(page.as_uri())
        view.wait_for_load_state("networkidle")
        view.screenshot(path=ROOT / "docs/report.png")
        browser.close()


if __name__ == "__main__":
    main()
