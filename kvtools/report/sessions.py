"""Conversations, as they stand in a report. Figures: docs/metrics.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kvtools.model import share
from kvtools.report.numbers import counted, percent
from kvtools.report.words import say
from kvtools.sessions import EXTENDS, NAMED, find_sessions, repeats, split_reuse, tiers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kvtools.model import ReplayResult
    from kvtools.profile import RequestColumns


class SessionTier(msgspec.Struct, frozen=True, kw_only=True):
    """Requests whose prompt is above ``above_tokens`` and at most ``up_to_tokens`` long, and what they cost."""

    above_tokens: int
    up_to_tokens: int | None
    sessions: int
    requests: int
    prompt_tokens: int
    hit_tokens: int
    computed_tokens: int


class SessionFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Conversations of several requests; hit tokens by whose earlier request had left them."""

    count: int
    requests: int
    by_id: int
    by_prefix: int
    undecided: int
    repeats_within_30_s: int
    within_hit_tokens: int
    across_hit_tokens: int
    within_share: float | None
    tiers: list[SessionTier]


def session_figures(
    requests: RequestColumns, result: ReplayResult, ids: NDArray[np.int32]
) -> SessionFigures | None:
    """Return the figures of the conversations in a log, ``None`` where every request stands alone.

    ``ids``: the dense ids of ``requests.keys``.
    """
    sessions = find_sessions(requests, requests.session)
    turns = sessions.turns()
    if not (turns > 1).any():
        return None
    split = split_reuse(requests, sessions, result.hit_tokens, result.spec, ids)
    within, across = int(split.within.sum()), int(split.across.sum())
    return SessionFigures(
        count=int((turns > 1).sum()),
        requests=int(turns[turns > 1].sum()),
        by_id=int((sessions.basis == NAMED).sum()),
        by_prefix=int((sessions.basis == EXTENDS).sum()),
        undecided=sessions.undecided,
        repeats_within_30_s=int(repeats(requests.arrival_us, requests.session).sum()),
        within_hit_tokens=within,
        across_hit_tokens=across,
        within_share=share(within, within + across),
        tiers=[
            SessionTier(
                above_tokens=tier.above_tokens,
                up_to_tokens=tier.up_to_tokens,
                sessions=tier.sessions,
                requests=tier.requests,
                prompt_tokens=tier.prompt_tokens,
                hit_tokens=tier.hit_tokens,
                computed_tokens=tier.computed_tokens,
            )
            for tier in tiers(requests, result.hit_tokens, sessions)
        ],
    )


def session_lines(figures: SessionFigures) -> list[str]:
    """Return what to print: how many, whose blocks are hit, and the tiers where there is more than one."""
    repeats, within = f"{figures.repeats_within_30_s:,}", percent(figures.within_share)
    again = " · " + say("{count} again within 30 s", count=repeats) if figures.repeats_within_30_s else ""
    lines = [
        say("{count} of {requests} requests", count=f"{figures.count:,}", requests=f"{figures.requests:,}")
        + again,
        say("{part} of the hits are within a conversation", part=within),
    ]
    used = [tier for tier in figures.tiers if tier.requests]
    if len(used) > 1:
        lines += [
            say(
                "{range}: {requests}, {rate} hit, {computed} tokens computed",
                range=_range(tier),
                requests=counted(tier.requests, "request"),
                rate=percent(share(tier.hit_tokens, tier.prompt_tokens)),
                computed=f"{tier.computed_tokens:,}",
            )
            for tier in used
        ]
    return lines


def _range(tier: SessionTier) -> str:
    if tier.up_to_tokens is None:
        return f"> {tier.above_tokens // 1000}k tokens"
    return f"{tier.above_tokens // 1000}-{tier.up_to_tokens // 1000}k tokens"
