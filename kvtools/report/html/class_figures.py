"""Hot and cold as a drawing: each class's share of requests, of tokens and of the prefill work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtools.report.html.drawing import BLUE, GREY, ORANGE, Drawing, axes

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvtools.report.model import Report

_COLORS = {"hot": ORANGE, "cold": BLUE}
_SHARE = {"tickformat": ".0%", "range": [0, 1]}


def class_shares(report: Report, t: Callable[[str], str]) -> Drawing | None:
    """Return the shares of two classes, ``None`` where there is one or none."""
    if len(report.classes) < 2:
        return None
    names = [t("requests"), t("prompt tokens"), t("prefill work")]
    shares = [
        (
            t(one.name),
            [one.request_share, one.token_share, one.uncached_token_share],
            _COLORS.get(one.name, GREY),
        )
        for one in report.classes
    ]
    return Drawing(
        "classes",
        t("Hot and cold"),
        "; ".join(f"{name}: {', '.join(f'{part or 0:.0%}' for part in parts)}" for name, parts, _ in shares),
        {
            "data": [
                {
                    "type": "bar", "orientation": "h", "name": name, "y": names, "x": parts,
                    "marker": {"color": color}, "texttemplate": f"{name} %{{x:.0%}}", "textposition": "inside",
                }
                for name, parts, color in shares
            ],
            "layout": axes(t("share"), "", x=_SHARE, y={"automargin": True}, barmode="stack", height=220),
        },
    )  # fmt: skip
