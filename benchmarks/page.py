"""Hold the page of two million requests against that of two thousand: size, and CPU seconds to build it.

python benchmarks/page.py
"""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import numpy as np

from kvtools.flow import AnalyzeOptions, analyze
from kvtools.heat.features import HeatColumns
from kvtools.heat.study import study_heat
from kvtools.model import CacheSpec, ReplayResult
from kvtools.profile import RequestColumns
from kvtools.report.build import curve_sizes
from kvtools.report.class_shape import class_bins, class_windows
from kvtools.report.heat import class_figures, heat_figures
from kvtools.report.html import render_html
from kvtools.report.model import CurvePoint, Report
from kvtools.report.shape import histograms, over_time, prefix_tree
from kvtools.table import Ragged

ROOT = Path(__file__).resolve().parents[1]
FEW, MANY = 2_000, 2_000_000
REQUESTS_PER_ROUTE = 100
BLOCK, BLOCKS = 16, 3
ROUNDS = 3


def synthetic_report(requests: int, seed: int = 7) -> Report:
    """Return a report whose lists are the aggregates of so many drawn requests; its other figures are a small log's."""
    rng = np.random.default_rng(seed)
    base = analyze(ROOT / "data/canonical.chat.jsonl", AnalyzeOptions())
    assert base.cache is not None
    cold = rng.random(requests) < 0.2
    arrivals = 1_784_000_000_000_000 + np.cumsum(rng.lognormal(12, 1.5, requests)).astype(np.int64)
    tokens = np.where(cold, rng.lognormal(8.5, 0.4, requests), rng.lognormal(5, 0.5, requests)).astype(
        np.int64
    )
    tokens = np.maximum(tokens, BLOCK * BLOCKS + 1)
    routes = rng.integers(0, max(requests // REQUESTS_PER_ROUTE, 1), requests)
    # Requests share a first block by route, a second by a hundredth of it, and have a third of their own.
    blocks = np.stack(
        [routes, 10**7 + 100 * routes + rng.integers(0, 100, requests), 10**9 + np.arange(requests)]
    )
    _, ids = np.unique(blocks.T.ravel(), return_inverse=True)
    hits = np.where(np.arange(requests) < 10, 0, BLOCK * rng.integers(0, BLOCKS, requests))
    nothing = np.zeros(requests, dtype=np.int64)
    columns = RequestColumns(
        arrival_us=arrivals, prompt_tokens=tokens, output_tokens=nothing, latency_us=nothing,
        route=routes.astype(np.uint64), namespace=nothing.astype(np.uint64), cached_tokens=nothing,
        observed_tokens=nothing, observed_id=[], samples=nothing + 1, skip_lookup=nothing.astype(np.bool_),
        session=nothing.astype(np.uint64),
        keys=Ragged(ids.astype(np.uint64), np.arange(requests + 1, dtype=np.int64) * BLOCKS),
    )  # fmt: skip
    result = ReplayResult("simulator", CacheSpec(BLOCK), "cold", tokens, hits, nothing.astype(np.bool_), 0)
    classes = HeatColumns.of(
        arrivals, tokens, route_names=["chat", "jobs"], route=np.where(cold, 1, 0), hit_tokens=hits
    )
    study = study_heat(classes)
    unique = BLOCKS * requests
    return msgspec.structs.replace(
        base,
        requests=requests,
        over_time=over_time(columns, result, 480),
        histograms=histograms(tokens, arrivals),
        prefix_tree=prefix_tree(columns, ids.astype(np.int32), result, {}),
        routes=[
            msgspec.structs.replace(base.routes[0], route=f"tenant-{n}")
            for n in range(requests // REQUESTS_PER_ROUTE)
        ],
        curve=[
            CurvePoint(capacity_blocks=n, hit_tokens=n, hit_rate=n / (2 * unique))
            for n in curve_sizes(unique)
        ],
        classes=class_figures(study, {}),
        heat=heat_figures(study),
        class_windows=class_windows(study, 480),
        class_bins=class_bins(study),
    )


def main() -> None:
    """Print sizes, seconds and their ratios; rounds take turns, so that a busy machine slows both."""
    reports = {requests: synthetic_report(requests) for requests in (FEW, MANY)}
    seconds: dict[int, list[float]] = {FEW: [], MANY: []}
    sizes = {}
    for _ in range(ROUNDS):
        for requests, report in reports.items():
            begin = time.process_time()
            sizes[requests] = len(render_html(report).encode())
            seconds[requests].append(time.process_time() - begin)
    for requests in reports:
        print(f"{requests:>9,} requests: {sizes[requests]:>9,} bytes, {min(seconds[requests]):.2f} CPU s")
    print(f"size x{sizes[MANY] / sizes[FEW]:.3f}, time x{min(seconds[MANY]) / min(seconds[FEW]):.2f}")


if __name__ == "__main__":
    main()
