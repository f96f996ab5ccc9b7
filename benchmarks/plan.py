"""The tables of docs/plan.md: Mooncake's conversation trace on several replicas, and its sizes; and what they take.

``python benchmarks/plan.py FOLDER``: the folder of the Mooncake traces. Prints Markdown; the time goes to stderr.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kvtools.flow.plan_routing import RoutingOptions, plan_routing
from kvtools.flow.plan_sizing import SizingOptions, plan_sizing

if TYPE_CHECKING:
    from kvtools.report.plan_routing import RoutingReport
    from kvtools.report.plan_sizing import SizingReport

REPLICAS = (1, 2, 4, 8)
SIZES = (None, 8_192)


def routing_table(report: RoutingReport) -> str:
    counts = list(dict.fromkeys(one.replicas for one in report.routing))
    rows = [
        "| policy | " + " | ".join(f"{count} replica{'s' * (count > 1)}" for count in counts) + " |",
        "|---|" + "---|" * len(counts),
    ]
    for policy in dict.fromkeys(one.policy for one in report.routing):
        cells = [
            f"{one.hit_rate:.4f} ({one.imbalance:.2f})" for one in report.routing if one.policy == policy
        ]
        rows.append(f"| {policy} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def sizing_table(report: SizingReport) -> str:
    rows = ["| share of the ceiling's hits | blocks | hit rate | optimal order |", "|---|---|---|---|"]
    rows += [
        f"| {one.share_of_ceiling:g} | {one.capacity_blocks:,} | {one.hit_rate:.4f} | {one.optimal_hit_rate:.4f} |"
        for one in report.sizing
    ]
    return "\n".join(rows)


def tables(folder: Path) -> list[str]:
    """Return the tables: routing without a limit, routing with 8,192 blocks on each replica, sizing."""
    trace = folder / "conversation_trace.jsonl"
    parts = []
    for blocks in SIZES:
        report = plan_routing(trace, RoutingOptions(replicas=REPLICAS, capacity_blocks=blocks))
        parts.append(routing_table(report))
    return [*parts, sizing_table(plan_sizing(trace, SizingOptions(classes=False)))]


if __name__ == "__main__":
    given = sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[2] / "shared/data/mooncake"
    tables(Path(given))  # compiles what has not been compiled
    begun = time.process_time()
    print("\n\n".join(tables(Path(given))))
    print(f"{time.process_time() - begun:.1f} CPU seconds for all three", file=sys.stderr)
