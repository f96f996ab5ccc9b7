"""What every drawing of the page is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

# Okabe and Ito's colours, told apart by people who see fewer; each reads on white and on the dark page.
BLUE, ORANGE, GREEN, GREY = "#0072b2", "#d55e00", "#009e73", "#7f7f7f"


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
