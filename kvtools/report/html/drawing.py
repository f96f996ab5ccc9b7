"""What every drawing of the page is made of."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from kvtools.report.verdict import TRACE_LIMIT_US

# Okabe and Ito's colours, told apart by people who see fewer; each reads on white and on the dark page.
BLUE, ORANGE, GREEN, GREY = "#0072b2", "#d55e00", "#009e73", "#7f7f7f"

RATE = {"tickformat": ".0%", "range": [0, 1]}
"""An axis of shares."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """One figure: ``name`` is its place on the page, ``said`` what it shows, for those who do not see it."""

    name: str
    title: str
    said: str
    spec: dict[str, Any]


def axes(x_title: str, y_title: str, **more: Any) -> dict[str, Any]:
    """Return a layout with two titled axes; ``x`` and ``y`` add to them, what else is given to the layout."""
    return {
        "xaxis": {"title": {"text": x_title}, **more.pop("x", {})},
        "yaxis": {"title": {"text": y_title}, "rangemode": "tozero", **more.pop("y", {})},
        "showlegend": False,
        **more,
    }


def when(us: int, offset_min: int) -> float | str:
    """Return a time as plotly's axis takes it: the log's own clock, or seconds where a trace counts from its start."""
    if us < TRACE_LIMIT_US:
        return us / 1e6
    zone = timezone(timedelta(minutes=offset_min))
    return datetime.fromtimestamp(us / 1e6, zone).strftime("%Y-%m-%d %H:%M:%S")


LEGEND = {"showlegend": True, "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"}}
"""Above the drawing, where it takes no width on a narrow page."""
