"""Conversations of a request log: which requests are turns of one, how long they grow, whose cache they hit."""

from kvtools.sessions.find import (
    ALONE,
    CHILD,
    EXTENDS,
    NAMED,
    Sessions,
    find_sessions,
    turns_without_history,
)
from kvtools.sessions.reuse import ReuseSplit, Tier, repeats, split_reuse, tiers

__all__ = [
    "ALONE",
    "CHILD",
    "EXTENDS",
    "NAMED",
    "ReuseSplit",
    "Sessions",
    "Tier",
    "find_sessions",
    "repeats",
    "split_reuse",
    "tiers",
    "turns_without_history",
]
