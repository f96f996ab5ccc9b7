"""How long ago the prefix of each request was last used, in distinct cache blocks touched since."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kvtools.cache import Interner, Prompts
from kvtools.cache.curve import stack_distances
from kvtools.heat.features import UNKNOWN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvtools.model import CacheSpec
    from kvtools.profile import RequestColumns


def reuse_distances(
    logged: RequestColumns, order: NDArray[np.int64] | None, spec: CacheSpec
) -> NDArray[np.int64]:
    """Return the reuse distance of each request in blocks, ``UNKNOWN`` where nothing of its prompt was seen before.

    It is the LRU stack distance (Mattson et al., 1970) of the last block that an unlimited cache hits: the smallest
    LRU cache that still holds all of it. ``logged``: the requests in log order, as the result; ``order``: that of the
    replay (``None``: the log's). Further lookups of one request touch nothing new, so that each is looked at once.
    """
    requests = logged if order is None else logged.take(order)
    ids = Interner().intern(requests.keys.values)
    offsets = requests.keys.offsets
    prompts = Prompts(requests.prompt_tokens, ids, offsets, requests.skip_lookup)
    distances = stack_distances(ids, offsets, prompts.lookups(spec)).astype(np.int64)
    found = np.full(len(offsets) - 1, UNKNOWN, dtype=np.int64)
    some = np.diff(offsets) > 0
    if some.any():
        # Distances grow along a run of hits, and are 0 behind it.
        found[some] = np.maximum.reduceat(distances, offsets[:-1][some])
    found[found == 0] = UNKNOWN
    back = np.empty_like(found)
    back[slice(None) if order is None else order] = found
    return back
