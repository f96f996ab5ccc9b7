"""What the sizing rules of article B take of a log: times in flight, classes, and the blocks that hot requests need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kvtools.cache import Interner, Prompts, unlimited_hits
from kvtools.flow.plan_intake import UNKNOWN
from kvtools.plan.sizing import lru_curve
from kvtools.plan.sizing_formulas import NOT_ASKED, ONE_CLASS, Fleet
from kvtools.replay.steptime import DEFAULT_DECODE_STEP_MS, DEFAULT_PREFILL_TOKENS_PER_S
from kvtools.table import Ragged

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvtools.flow.plan_intake import PlannedRequests
    from kvtools.heat.log import HeatLog
    from kvtools.model import CacheSpec

HOT_SHARE = 0.9
ESTIMATED = (
    f" (stays estimated: {DEFAULT_PREFILL_TOKENS_PER_S:,.0f} computed tokens/s, "
    f"{DEFAULT_DECODE_STEP_MS:g} ms a generated token, no queue)"
)


def fleet_of(planned: PlannedRequests, spec: CacheSpec, capacity: int | None, heat: HeatLog | None) -> Fleet:
    """Return what the rules take; ``heat`` has seen the whole log where hot and cold are asked for."""
    requests = planned.requests
    ids = Interner().intern(requests.keys.values)
    prompts = Prompts(requests.prompt_tokens, ids, requests.keys.offsets, requests.skip_lookup)
    hits = unlimited_hits(prompts, spec)
    hot = None if heat is None else _hot(planned, hits, heat)
    ends, estimated = _ends(planned, hits)
    hot_set = 0
    if hot is not None:
        rows = np.flatnonzero(hot)
        blocks = Ragged(ids, requests.keys.offsets).take(rows)
        own = Interner().intern(blocks.values.astype(np.uint64))
        alone = Prompts(requests.prompt_tokens[rows], own, blocks.offsets, requests.skip_lookup[rows])
        hot_set = lru_curve(alone, spec).blocks_for(HOT_SHARE)
    return Fleet(
        arrival_us=None if (requests.arrival_us == UNKNOWN).any() else requests.arrival_us,
        ends_us=ends,
        prompt_tokens=requests.prompt_tokens,
        hit_tokens=hits,
        need_blocks=-(
            -(requests.prompt_tokens + np.maximum(requests.output_tokens, 1) - 1) // spec.block_size
        ),
        hot=hot,
        hot_set_blocks=hot_set,
        capacity_blocks=capacity,
        estimated=estimated,
        one_class=NOT_ASKED if heat is None else ONE_CLASS,
    )


def _ends(planned: PlannedRequests, hits: NDArray[np.int64]) -> tuple[NDArray[np.int64] | None, str]:
    """Return when each request leaves, by logged latency, else as estimated; and how to say so."""
    requests = planned.requests
    if (requests.arrival_us == UNKNOWN).any():
        return None, ""
    if not (requests.latency_us == UNKNOWN).any():
        return requests.arrival_us + requests.latency_us, ""
    if (requests.output_tokens == UNKNOWN).any():
        return None, ""
    prefill = (requests.prompt_tokens - hits) * 1e6 / DEFAULT_PREFILL_TOKENS_PER_S
    decode = requests.output_tokens * 1e3 * DEFAULT_DECODE_STEP_MS
    return requests.arrival_us + np.rint(prefill + decode).astype(np.int64), ESTIMATED


def _hot(planned: PlannedRequests, hits: NDArray[np.int64], heat: HeatLog) -> NDArray[np.bool_] | None:
    """Return which requests are hot, ``None`` where the log has one class: the classes of ``kvtools rules``."""
    from kvtools.heat.study import study_heat  # noqa: PLC0415 - loads scikit-learn

    as_logged = np.empty_like(hits)
    as_logged[planned.places] = hits
    study = study_heat(heat.with_prompts(planned.logged, as_logged))
    return None if study.model.n_classes != 2 else (study.final == 1)[planned.places]
