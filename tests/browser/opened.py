"""A page in a browser, and what it says of itself there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SCALES = {"%": 100.0, "pt": 100.0, "M": 1e-6, "G": 1e-9, "MiB": 2.0**-20, "s": 1.0}
"""What a unit on the page multiplies the figure of the JSON by."""

_DRAWN = """Array.from(document.querySelectorAll('.plot')).every(
    at => at.querySelector('svg.main-svg') && at.querySelector('svg.main-svg').getBoundingClientRect().height > 50)"""


class Opened:
    """A page that was opened, with what it complained of and what it asked the network for."""

    def __init__(self, browser: Browser, path: Path, html: str, **context: Any) -> None:
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
        self.page.wait_for_function(_DRAWN, timeout=20_000)

    def asked(self) -> list[str]:
        """Return the addresses outside the page that it asked for."""
        return [url for url in self.requests if not url.startswith(("file:", "data:", "blob:"))]

    def drawn(self) -> set[str]:
        """Return the names of the figures that were drawn."""
        names = self.page.eval_on_selector_all(
            ".plot", "all => all.filter(at => at.querySelector('svg.main-svg')).map(at => at.id.slice(5))"
        )
        return set(names)

    def figures(self) -> list[tuple[str, str, str]]:
        """Return each figure: where it stands in the JSON, its exact value, and what the page shows."""
        found = self.page.eval_on_selector_all(
            "[data-json]", "all => all.map(at => [at.dataset.json, at.dataset.value, at.textContent])"
        )
        return [(path, exact, shown) for path, exact, shown in found]

    def data(self, name: str, trace: int, axis: str) -> list[Any]:
        """Return what a figure draws along an axis, as plotly holds it."""
        values = self.page.evaluate(
            f"Array.from(document.getElementById('plot-{name}').data[{trace}].{axis})"
        )
        assert isinstance(values, list)
        return values


def check_number(values: Any, path: str, exact: str, shown: str) -> None:
    """Assert that a figure is the JSON's, exactly in its attribute and to the digits shown for people."""
    for step in path.split("."):
        values = values[int(step)] if isinstance(values, list) else values[step]
    assert json.loads(exact) == values, path
    if values is None:
        assert shown == "n/a", path
        return
    number, *unit = shown.split()
    digits = len(number.partition(".")[2])
    scale = SCALES[unit[0]] if unit else 1.0
    assert abs(float(number.replace(",", "")) - values * scale) <= 0.5 * 10**-digits + 1e-9, path
