"""The end of the fold: prefixes compared over the whole log, on dense block ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kvtools.profile.state import UNKNOWN
from kvtools.similarity.prefix import consecutive_prefix, nearest_prefix

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvtools.profile.state import RequestColumns


@dataclass(frozen=True, slots=True, eq=False)
class PrefixSimilarity:
    """Prefix Jaccard (0..1, NaN: none) of each request, in log order.

    With the request before it in its namespace, with the one before it in its namespace and route, and with
    the nearest of the 1,000 before it.
    """

    consecutive: NDArray[np.float64]
    consecutive_in_route: NDArray[np.float64]
    nearest: NDArray[np.float64]

    def take(self, order: NDArray[np.int64]) -> PrefixSimilarity:
        """The requests ``order``, in that order."""
        return PrefixSimilarity(
            self.consecutive[order], self.consecutive_in_route[order], self.nearest[order]
        )


def replay_order(arrival_us: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Return the requests by arrival, equal times in log order.

    ``None`` where the log stands in that order already, or where some request has no arrival, so that the
    order of the log is all there is.
    """
    if len(arrival_us) < 2 or (arrival_us == UNKNOWN).any() or (np.diff(arrival_us) >= 0).all():
        return None
    return np.argsort(arrival_us, kind="stable")


def prefix_similarity(requests: RequestColumns, ids: NDArray[np.int32]) -> PrefixSimilarity:
    """Compare prefixes; ``ids`` are the dense ids of ``requests.keys``."""
    _, namespace = np.unique(requests.namespace, return_inverse=True)
    pairs = np.stack((requests.namespace, requests.route), axis=1)
    _, route = np.unique(pairs, axis=0, return_inverse=True)
    offsets = requests.keys.offsets
    return PrefixSimilarity(
        consecutive=consecutive_prefix(ids, offsets, namespace.astype(np.int64)),
        consecutive_in_route=consecutive_prefix(ids, offsets, route.reshape(-1).astype(np.int64)),
        nearest=nearest_prefix(ids, offsets),
    )
