"""How likely a block is looked up within the horizon, learnt from the gaps between the sights of every block so far.

A block's class is how often it was looked up, and whether whole prompts with it were repeated. The gaps of a class
give its hazard: the chance per request that a block is looked up at an age, as life tables do (Kaplan and Meier, J. of
the American Statistical Association 1958, with piecewise constant hazards); a block not seen again is counted as long
as it was watched. A block of age a is looked up within h requests unless it is passed over at every age from a on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kvtools.jit import kernel
from kvtools.warmup.tree import (
    ASKED,
    COUNT_CLASSES,
    GAP_BINS,
    LAST,
    PARENT,
    REPEAT_CLASSES,
    REPEATS,
    SEEN,
    count_class,
    gap_bin,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvtools.warmup.tree import BlockTree

_PRIOR_PROMPTS = 40.0
"""A hazard is drawn towards that of its neighbours in the table by the weight of so many prompts' blocks: the blocks of
one prompt come and go together, and are one observation."""

_MOST = 1.0 - 1e-9

_TIE = 1e-6
"""Among blocks that are as likely, the more recent one is taken."""


@kernel
def _watched(nodes: NDArray[np.int32], now: int, gaps: NDArray[np.int64]) -> None:
    """Count the gaps that are still open: they end unseen."""
    for node in nodes:
        if node[SEEN] > 0:
            watched = now - 1 - node[LAST]
            if watched > 0:
                kind = gaps[count_class(node[ASKED]), min(node[REPEATS], REPEAT_CLASSES - 1)]
                kind[gap_bin(watched), 0] += 1
                kind[gap_bin(watched), 2] += watched


@kernel
def _summed_to(gap: int, edges: NDArray[np.float64], summed: NDArray[np.float64]) -> float:
    """Return the hazard summed up to a gap: linear within its bin."""
    place = gap_bin(gap)
    inside = (gap - edges[place]) / (edges[place + 1] - edges[place])
    found: float = summed[place] + min(inside, 1.0) * (summed[place + 1] - summed[place])
    return found


@kernel
def _likely(
    nodes: NDArray[np.int32],
    moment: tuple[int, int],
    edges: NDArray[np.float64],
    summed: NDArray[np.float64],
    weights: NDArray[np.float64],
    found: NDArray[np.float64],
) -> None:
    """Set the probability of each node; a parent is looked up whenever a child is. Children have larger numbers."""
    now, horizon = moment
    for place in range(len(nodes) - 1, -1, -1):
        node = nodes[place]
        if node[SEEN] == 0:
            continue
        hazards = summed[count_class(node[ASKED]), min(node[REPEATS], REPEAT_CLASSES - 1)]
        age = now - node[LAST]
        hazard = _summed_to(age + horizon, edges, hazards) - _summed_to(age, edges, hazards)
        own = (1.0 - np.exp(-hazard * weights[place])) * (1.0 - _TIE * age / now)
        found[place] = max(found[place], own)
        if node[PARENT] >= 0:
            found[node[PARENT]] = max(found[node[PARENT]], found[place])


def probabilities(
    tree: BlockTree, horizon: int, weights: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Return for each block of ``tree`` the probability (0..1) of a lookup in the next ``horizon`` requests.

    Never more than its parent's. Beyond the longest gap that could be watched nothing is known, and nothing counted.
    ``weights``: what the chance of each block is multiplied by per request (``kvtools.warmup.time_of_day``).
    """
    found = np.zeros(len(tree.nodes))
    if tree.requests:
        edges = _edges()
        summed = np.concatenate((np.zeros((COUNT_CLASSES, REPEAT_CLASSES, 1)), _hazards(tree)), axis=2)
        weights = np.ones(len(tree.nodes)) if weights is None else weights
        _likely(tree.nodes, (tree.requests, horizon), edges, summed, weights, found)
    return found


def _edges() -> NDArray[np.float64]:
    """Return where the bins of gaps begin, and where the last one ends."""
    octaves = 2.0 ** np.arange(GAP_BINS // 2 + 1)
    edges = np.stack((octaves, 1.5 * octaves), axis=1).reshape(-1)[: GAP_BINS + 1]
    edges[1] = 2.0  # a gap of 1 is alone in its octave: the second bin stays empty
    return edges


def _hazards(tree: BlockTree) -> NDArray[np.float64]:
    """Return per class the hazard summed up to the end of each bin."""
    gaps = tree.gaps.copy()
    _watched(tree.nodes, tree.requests, gaps)
    edges = _edges()
    begins, widths = edges[:-1], np.diff(edges)
    ended = gaps[..., 0] + gaps[..., 1]
    longer = ended[..., ::-1].cumsum(axis=-1)[..., ::-1] - ended
    # In its own bin a gap is watched from the bin's first request to its own last.
    exposure = longer * widths + gaps[..., 2] - ended * (begins - 1.0)
    events = gaps[..., 1].astype(np.float64)
    weight = _PRIOR_PROMPTS * max(float(tree.history.offsets[tree.requests]) / tree.requests, 1.0)
    rate = _drawn(events.sum(axis=(0, 1)), exposure.sum(axis=(0, 1)), None, weight)
    of_count = _drawn(events.sum(axis=1), exposure.sum(axis=1), rate[None], weight)
    hazard = _drawn(events, exposure, of_count[:, None], weight)
    # A chance of q at each of n requests leaves (1 - q)^n.
    summed: NDArray[np.float64] = (-np.log1p(-np.minimum(hazard, _MOST)) * widths).cumsum(axis=-1)
    return summed


def _drawn(
    events: NDArray[np.float64],
    exposure: NDArray[np.float64],
    towards: NDArray[np.float64] | None,
    weight: float,
) -> NDArray[np.float64]:
    """Return events per exposure, drawn towards other rates as if ``weight`` more blocks had been watched there."""
    widths = np.diff(_edges())
    if towards is None:
        return events / np.maximum(exposure, 1.0)
    drawn: NDArray[np.float64] = (events + towards * weight * widths) / np.maximum(
        exposure + weight * widths, 1.0
    )
    return drawn
