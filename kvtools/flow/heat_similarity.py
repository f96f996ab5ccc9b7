"""What the prompts of a class have in common: variable share and both Jaccard indexes, as for the whole log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kvtools.cache import Interner
from kvtools.model import share
from kvtools.report.heat import ClassSimilarity
from kvtools.similarity.consecutive import ConsecutiveText, Group
from kvtools.similarity.prefix import consecutive_prefix
from kvtools.similarity.shingles import distinct_shingles
from kvtools.similarity.variable import TokenSample

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvtools.heat.study import HeatStudy
    from kvtools.profile import LogProfile, RequestColumns

TEXT_REQUESTS = 2_000
"""Text of a class is compared over this many of its requests, the first of the log."""

_FEW = 2


def similarity_of_classes(
    study: HeatStudy, profile: LogProfile, logged: RequestColumns, places: NDArray[np.int64]
) -> dict[int, ClassSimilarity]:
    """Return, by the code of a class, what its prompts share. ``places``: digests of where the requests stand.

    Text: the log's sample of token ids, each request compared with the one before it in its class. Where the sample
    does not hold every request there is no such text. Prefixes: all requests, in log order. With one class this is
    left to the report's own figures.
    """
    if study.model.n_classes == 1:
        return {}
    ids = Interner().intern(logged.keys.values)
    _, namespace = np.unique(logged.namespace, return_inverse=True)
    codes = study.final
    prefix = consecutive_prefix(
        ids, logged.keys.offsets, (2 * namespace + np.maximum(codes, 0)).astype(np.int64)
    )
    rank = np.argsort(places)
    texts: dict[int, list[tuple[int, int]]] = {}
    for number, part in enumerate(profile.sample.parts):
        owner = rank[np.searchsorted(places[rank], part.hashes.view(np.int64))]
        for row, code in enumerate(codes[owner].tolist()):
            texts.setdefault(code, []).append((number, row))
    found = {}
    for code in np.unique(codes).tolist():
        known = prefix[codes == code]
        known = known[~np.isnan(known)]
        rows = texts.get(code, [])
        found[code] = ClassSimilarity(
            variable_share=_variable(profile.sample, rows) if len(rows) > _FEW else None,
            jaccard_consecutive=_text(profile.sample, rows) if not profile.sample.level else None,
            prefix_jaccard_consecutive=float(known.mean()) if len(known) else None,
        )
    return found


def _variable(sample: TokenSample, rows: list[tuple[int, int]]) -> float | None:
    """Return the variable share of some of the sample's requests: a shingle is one of their route, in this class."""
    chosen = TokenSample()
    for number, part in enumerate(sample.parts):
        mine = np.array([row for of, row in rows if of == number], dtype=np.int64)
        if len(mine):
            chosen.add(part.tokens.take(mine), [part.groups[row] for row in mine], part.hashes[mine])
    counts = chosen.variable_tokens().values()
    return share(sum(part for part, _ in counts), sum(whole for _, whole in counts))


def _text(sample: TokenSample, rows: list[tuple[int, int]]) -> float | None:
    text = ConsecutiveText()
    rows = rows[:TEXT_REQUESTS]
    for number, part in enumerate(sample.parts):
        mine = np.array([row for of, row in rows if of == number], dtype=np.int64)
        if len(mine):
            text.add(distinct_shingles(part.tokens.take(mine)), [Group(None, 0)] * len(mine))
            text.settle()
    run = text.runs.get(Group(None, 0))
    return None if run is None else run.total.mean
