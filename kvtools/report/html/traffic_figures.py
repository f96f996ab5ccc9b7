"""The traffic as drawings: prompt lengths, gaps between arrivals, conversations by length."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtools.report.html.drawing import BLUE, LEGEND, ORANGE, Drawing, axes

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvtools.report.model import Report
    from kvtools.report.shape import Bin


def lengths(report: Report, t: Callable[[str], str]) -> Drawing | None:
    """Return how long the prompts are."""
    title = t("Prompt length")
    return _histogram("lengths", title, t("prompt tokens"), t, report.histograms.prompt_tokens)


def gaps(report: Report, t: Callable[[str], str]) -> Drawing | None:
    """Return the time between one arrival and the next."""
    title = t("Time between requests")
    return _histogram("gaps", title, t("seconds"), t, report.histograms.interarrival_s)


def _histogram(name: str, title: str, unit: str, t: Callable[[str], str], bins: list[Bin]) -> Drawing | None:
    if not bins:
        return None
    edges = [f"{bin_.at_least:.3g} - {bin_.below:.3g}" for bin_ in bins]
    most = max(bins, key=lambda bin_: bin_.requests)
    return Drawing(
        name,
        title,
        f"{title}: {most.at_least:.3g} - {most.below:.3g} {unit}: {most.requests:,} {t('requests')}",
        {
            "data": [
                {"type": "bar", "x": edges, "y": [bin_.requests for bin_ in bins], "marker": {"color": BLUE}}
            ],
            "layout": axes(
                unit, t("requests"), x={"type": "category", "tickangle": -45, "nticks": 10}, bargap=0.05
            ),
        },
    )


def tiers(report: Report, t: Callable[[str], str]) -> Drawing | None:
    """Return the conversations by prompt length: tokens that hit, and tokens that were computed."""
    if report.sessions is None:
        return None
    found = report.sessions.tiers
    names = [
        f"{tier.above_tokens:,} - {'∞' if tier.up_to_tokens is None else format(tier.up_to_tokens, ',')}"
        for tier in found
    ]
    hit, computed = [tier.hit_tokens for tier in found], [tier.computed_tokens for tier in found]
    parts = ((t("hit"), hit, BLUE), (t("computed"), computed, ORANGE))
    return Drawing(
        "tiers",
        t("Conversations by prompt length"),
        "; ".join(
            f"{name}: {tier.requests:,} {t('requests')}" for name, tier in zip(names, found, strict=True)
        ),
        {
            "data": [
                {"type": "bar", "name": name, "x": names, "y": tokens, "marker": {"color": color}}
                for name, tokens, color in parts
            ],
            "layout": {**axes(t("prompt tokens"), t("tokens"), barmode="stack"), **LEGEND},
        },
    )
