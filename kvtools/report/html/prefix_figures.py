"""What breaks the prefix, and what is shared, as drawings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtools.report.findings_text import named
from kvtools.report.html.drawing import ORANGE, Drawing, axes
from kvtools.report.html.visible import plot_label

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvtools.report.model import Report

FINDINGS_DRAWN = 12


def findings(report: Report, t: Callable[[str], str]) -> Drawing | None:
    """Return the tokens that each cause costs, the dearest on top."""
    ranked = [f for f in report.findings or [] if f.severity != "info" and f.tokens_lost is not None]
    ranked = ranked[:FINDINGS_DRAWN][::-1]
    if not ranked:
        return None
    names = [
        f"{len(ranked) - place}. {plot_label(named(f))} · {plot_label(f.cluster, 12)}"
        for place, f in enumerate(ranked)
    ]
    return Drawing(
        "findings",
        t("What each cause costs"),
        "; ".join(f"{name}: {f.tokens_lost:,}" for name, f in zip(names, ranked, strict=True)),
        {
            "data": [
                {
                    "type": "bar", "orientation": "h", "y": names, "x": [f.tokens_lost for f in ranked],
                    "marker": {"color": ORANGE},
                }
            ],
            "layout": axes(t("tokens lost"), "", y={"automargin": True}, height=90 + 28 * len(ranked)),
        },
    )  # fmt: skip


def prefixes(report: Report, t: Callable[[str], str]) -> Drawing | None:
    """Return the largest shared prefixes: width is tokens, colour is the share of them that hit."""
    nodes = report.prefix_tree
    if not nodes:
        return None
    labels = [plot_label(node.route or "", 24) or f"{node.tokens:,} {t('tokens')}" for node in nodes]
    hits = [None if n.hit_tokens is None else n.hit_tokens / n.prompt_tokens for n in nodes]
    return Drawing(
        "prefixes",
        t("Shared prefixes"),
        f"{len(nodes)} {t('shared prefixes')}",
        {
            "data": [
                {
                    "type": "icicle", "root": {"color": "#8883"}, "branchvalues": "total", "maxdepth": 5,
                    "ids": [str(n) for n in range(len(nodes))],
                    "parents": ["" if node.parent is None else str(node.parent) for node in nodes],
                    "labels": labels,
                    "values": [node.below_prompt_tokens for node in nodes],
                    "customdata": [
                        [node.first_token, node.tokens, node.requests, "n/a" if hit is None else f"{hit:.1%}"]
                        for node, hit in zip(nodes, hits, strict=True)
                    ],
                    "hovertemplate": f"%{{label}}<br>{t('from token')} %{{customdata[0]:,}}: %{{customdata[1]:,}} "
                    f"{t('tokens')}<br>%{{customdata[2]:,}} {t('requests')}<br>{t('hit rate')} %{{customdata[3]}}"
                    "<extra></extra>",
                    "marker": {
                        "colors": [0 if hit is None else hit for hit in hits], "cmin": 0, "cmax": 1,
                        "colorscale": [[0, "#fdd0a2"], [1, "#6baed6"]], "showscale": True,
                        "colorbar": {"title": {"text": t("hit rate")}, "tickformat": ".0%"},
                    },
                    "textfont": {"color": "#111"},
                }
            ],
            "layout": {"height": 420, "margin": {"l": 8, "r": 8, "t": 8, "b": 8}},
        },
    )  # fmt: skip
