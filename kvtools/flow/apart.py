"""Findings of what keeps equal prompts apart: the log as it would be without it, keyed and replayed again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pandas as pd

from kvtools.diagnosis.apart import ApartFinding, mended, text_first, told, without
from kvtools.diagnosis.deployment import InstanceCounts, cross_instance
from kvtools.diagnosis.rekeyed import keyed_again
from kvtools.diagnosis.whatif import Outcome, Prompted
from kvtools.profile.media import holds_media
from kvtools.table import present, text_column

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from kvtools.diagnosis.apart import Apart
    from kvtools.diagnosis.whatif import WhatIf
    from kvtools.profile import Keying, RequestColumns

    Pass = Iterable[tuple[pd.DataFrame, NDArray[np.int64], int]]

INSTANCE_KEYS = frozenset(
    {"engine", "engine_id", "instance", "instance_id", "pod", "rank", "replica", "worker"}
)
"""Fields that name the engine that served a request: read as the route with ``--route-key``."""

_SOME = 2
UNKNOWN = -1


def kept_apart(
    keying: Keying, apart: Apart, second: Callable[[], Pass], whatif: WhatIf
) -> list[ApartFinding]:
    """Return the findings on salts, adapters and media, the dearest first. ``second`` begins a second pass."""
    found = [*_salts(keying, apart, second, whatif), *_adapters(keying, apart, second, whatif)]
    if apart.with_media:
        found += _media(keying, second, whatif)
    before = apart.media_before_equal_ids()
    if before:
        found.append(told("image_before_text", before, None, "image_before_text_unpriced"))
    return sorted(found, key=lambda finding: (-finding.gain, -(finding.lost_tokens or 0), finding.kind))


def _salts(
    keying: Keying, apart: Apart, second: Callable[[], Pass], whatif: WhatIf
) -> Iterator[ApartFinding]:
    own, shared = apart.salted()
    now = without_own = whatif.replayed()
    if own.any():
        change = _renamed(keying, second(), own, salt=True)
        without_own = whatif.replayed([change])
        yield mended("salt_per_request", int(own.sum()), now, without_own)
    if apart.splits(apart.salts, shared) or (own.any() and shared.any()):
        everyone = whatif.replayed([_renamed(keying, second(), own | shared, salt=True)])
        lost = max(everyone.hit_tokens - without_own.hit_tokens, 0)
        yield told("salt_per_tenant", int(shared.sum()), lost)


def _adapters(
    keying: Keying, apart: Apart, second: Callable[[], Pass], whatif: WhatIf
) -> Iterator[ApartFinding]:
    named = apart.adapted()
    if apart.splits(apart.adapters, named):
        one = whatif.replayed([_renamed(keying, second(), named, adapter=True)])
        lost = max(one.hit_tokens - whatif.replayed().hit_tokens, 0)
        yield told("adapter", int(named.sum()), lost)


def _renamed(
    keying: Keying, second: Pass, wanted: NDArray[np.bool_], *, salt: bool = False, adapter: bool = False
) -> Prompted:
    """Return the ``wanted`` requests (by number) as if they named no salt or adapter."""
    parts = []
    for table, rows, first in second:
        mine = np.flatnonzero(wanted[first : first + len(rows)])
        if not len(mine):
            continue
        part = table.iloc[rows[mine]].reset_index(drop=True)
        names = [without(name, salt=salt, adapter=adapter) for name in text_column(part, "namespace")]
        keyed = keying.key(part.assign(namespace=pd.array(names, dtype=table.dtypes["namespace"])))
        parts.append(Prompted(first + mine[keyed.rows], keyed.prompt_tokens, keyed.keys))
    return Prompted.joined(parts)


def _media(keying: Keying, second: Callable[[], Pass], whatif: WhatIf) -> Iterator[ApartFinding]:
    """Replay the chats with their texts in front of their pictures; nothing where that gains nothing."""
    parts = []
    for table, rows, first in second():
        chats, given = text_column(table, "messages"), present(table, "token_ids")
        changed = [
            (index, text_first(msgspec.json.decode(chats[row] or "[]")))
            for index, row in enumerate(rows.tolist())
            if not given[row] and holds_media(chats[row])
        ]
        if any(new for _, new in changed):
            parts.append(keyed_again(keying, table, rows, first, changed))
    moved = Prompted.joined(parts)
    finding = mended("image_before_text", len(moved), whatif.replayed(), whatif.replayed([moved]))
    if finding.lost_tokens:
        yield finding


def scattered(requests: RequestColumns, whatif: WhatIf) -> list[ApartFinding]:
    """Return what it costs that each instance has a cache of its own; ``requests`` in log order, routes are instances.

    ``hit_rate`` and everything else in a report is of one cache: what the best routing reaches at most.
    """
    instances = np.unique(requests.route)
    if len(instances) < _SOME or whatif.measure_from:
        return []
    shared, own = whatif.hits(), np.zeros(len(requests.route), dtype=np.int64)
    now = whatif.replayed()
    hit = 0
    for instance in instances.tolist():
        own_cache = whatif.of(np.flatnonzero(requests.route == np.uint64(instance)))
        own += own_cache.hits()
        hit += own_cache.replayed().hit_tokens
    cached = requests.cached_tokens
    counts = [
        InstanceCounts(
            str(instance),
            None if told_of == UNKNOWN else min(told_of, alone),
            None if told_of == UNKNOWN else max(told_of - alone, 0),
            alone,
            together,
        )
        for instance, told_of, alone, together in zip(
            requests.route.tolist(), cached.tolist(), own.tolist(), shared.tolist(), strict=True
        )
    ]
    verdict = cross_instance(counts)
    if verdict.verdict == "instances_share" or hit >= now.hit_tokens:
        return []
    kind = "deployment_hash_seed" if verdict.verdict == "deployment_hash_seed" else "instances"
    return [mended(kind, int((shared > own).sum()), Outcome(hit, now.queried_tokens), now)]
