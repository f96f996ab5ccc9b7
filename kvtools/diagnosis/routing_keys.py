"""Routing keys: how a hash of a prompt's first tokens spreads requests, and how long it has to be to spread any.

A router that sends equal keys to one replica keeps common prefixes together; where the key lies inside the prefix that
everybody shares, everybody goes to one replica.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from kvtools.prefixes import PrefixTree


@dataclass(frozen=True, slots=True)
class KeySpread:
    """Distinct keys of ``key_tokens`` tokens, and the most prompts that one of them stands for."""

    key_tokens: int
    keys: int
    max_load: int


def key_spread(tree: PrefixTree, key_tokens: int) -> KeySpread:
    """Return how a key of the first ``key_tokens`` tokens spreads the prompts of ``tree``, shorter ones whole."""
    lengths = tree.sequences.lengths()[tree.prompts.order]
    shared = tree.prompts.lcp
    before = np.concatenate((lengths[:1], lengths[:-1]))
    whole = np.minimum(key_tokens, np.maximum(lengths, before))
    starts = np.flatnonzero(shared < whole)
    loads = np.diff(np.concatenate((starts, [len(lengths)])))
    return KeySpread(key_tokens, len(starts), int(loads.max(initial=0)))


def first_useful_key(tree: PrefixTree) -> int | None:
    """Return the tokens of the shortest key that tells any two prompts apart, ``None`` where all are equal."""
    parting = tree.branch_points().depth
    return int(parting.min()) + 1 if len(parting) else None
