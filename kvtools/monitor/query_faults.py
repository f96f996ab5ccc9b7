"""What is wrong with a query of prefix-cache metrics, told from its text: the figure it shows is no hit rate.

Names and what they count: see ``kvtools.monitor.counters``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from kvtools.monitor.promql import AGGREGATIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvtools.monitor.promql import Node

Rule: TypeAlias = Literal[
    "inverted_ratio",
    "lifetime_average",
    "mean_of_ratios",
    "sides_differ",
    "counted_twice",
    "summed_usage",
    "old_name",
]

_ROLE = re.compile(
    r"(external_)?prefix_cache_(hits|queries)(?!_created)|(cached_by_source)|(cache_usage_perc)"
)
_RAW = re.compile(r"vllm[:_]\w+")
"""A counter as a server writes it; a recorded name (with a second colon) may be a rate already."""

_OLD = re.compile(r"vllm[:_]gpu_(prefix_cache_(?:hits|queries)\w*|cache_usage_perc)")
_HITS = frozenset({"hits", "external_hits", "by_source"})
_QUERIES = frozenset({"queries", "external_queries"})
_WARNINGS = ("lifetime_average", "old_name")


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: its rule, and a sentence on what the query shows instead and what to write."""

    rule: Rule
    sentence: str

    @property
    def severity(self) -> Literal["error", "warning"]:
        """``error``: the figure is wrong; ``warning``: it is another figure than its reader takes it for."""
        return "warning" if self.rule in _WARNINGS else "error"


def role(node: Node) -> str:
    """Return what a metric counts: hits, queries, by_source, usage, or nothing that is judged here."""
    match = _ROLE.search(node.name) if node.kind == "metric" else None
    if match is None:
        return ""
    if match[2]:
        return (match[1] or "") + match[2]
    return "by_source" if match[3] else "usage"


def roles(node: Node) -> set[str]:
    """Return what the metrics of a query count; empty where none is of the prefix cache."""
    return {role(one) for one in node.walk()} - {""}


def faults(query: Node) -> list[Fault]:
    """Return what is wrong with a query, each rule once."""
    found = {fault.rule: fault for fault in (*_walked(query, over=False), *_old_names(query))}
    return list(found.values())


def _walked(node: Node, *, over: bool) -> Iterator[Fault]:
    """Yield the faults of a node and of all below it; ``over``: it is what a division divides."""
    if node.kind == "binary" and node.name == "/":
        yield from _divided(node)
    if node.kind == "binary" and node.name == "+":
        yield from _added(node)
    if node.kind == "call" and node.name in {"sum", "avg"}:
        yield from _aggregated(node, over=over)
    for place, part in enumerate(node.parts):
        yield from _walked(part, over=node.name == "/" and node.kind == "binary" and place == 0)


def _divided(node: Node) -> Iterator[Fault]:
    above, below = (roles(part) for part in node.parts)
    if above & _QUERIES and not above & _HITS and below & _HITS and not below & _QUERIES:
        yield Fault(
            "inverted_ratio",
            "queries stand over hits, which is 1 or more: a hit rate is hits / queries, between 0 and 1.",
        )
        return
    if not _is_ratio(node):
        return
    sides = [[one for one in part.walk() if role(one) in _HITS | _QUERIES] for part in node.parts]
    raw = [one.name for side in sides for one in side if not one.range and _RAW.fullmatch(one.name)]
    subtracted = any(one.name == "-" for one in node.walk())  # x - x offset 5m is a difference too
    if raw and not subtracted:
        yield Fault(
            "lifetime_average",
            f"{raw[0]} is not a rate: an average since the engine's start hides every change, and a restart breaks it; "
            "write rate(…[5m]) on both sides.",
        )
    for what, kept in (
        ("windows", [{one.range for one in side if one.range} for side in sides]),
        ("series", [{_series(one) for one in side} for side in sides]),
    ):
        if len(kept[0] | kept[1]) > 1 and kept[0] != kept[1]:
            said = " over ".join("/".join(sorted(one or "all" for one in side)) or "none" for side in kept)
            yield Fault(
                "sides_differ",
                f"hits and queries are of different {what} ({said}): the two cover different requests.",
            )


def _series(metric: Node) -> str:
    """Return which engines a metric is taken of; ``source`` parts the counter of one."""
    return ", ".join(one for one in metric.matchers if not one.startswith("source"))


def _is_ratio(node: Node) -> bool:
    above, below = (roles(part) for part in node.parts)
    return node.name == "/" and bool(above & _HITS) and bool(below & _QUERIES)


def _added(node: Node) -> Iterator[Fault]:
    # Of one label alone it may be what the other side lacks.
    left, right = (
        {role(one) for one in part.walk() if not any(label.startswith("source") for label in one.matchers)}
        for part in node.parts
    )
    for one, other in ((left, right), (right, left)):
        if "by_source" in one and other & {"hits", "external_hits"}:
            yield Fault(
                "counted_twice",
                "prompt_tokens_cached_by_source holds local and external hits by tier: added to them it counts "
                "each hit twice.",
            )


def _aggregated(node: Node, *, over: bool) -> Iterator[Fault]:
    if node.name == "sum" and not over and "usage" in {role(one) for one in _summed(node)}:
        yield Fault(
            "summed_usage",
            "a sum of usages over engines is no usage (two at 40 % are 40 %, not 80 %): take avg or max.",
        )
    ratios = [one for one in node.walk() if one.kind == "binary" and _is_ratio(one)]
    if any(not all(_one_value(part) for part in one.parts) for one in ratios):
        verb = "mean" if node.name == "avg" else "sum"
        yield Fault(
            "mean_of_ratios",
            f"a {verb} of hit rates counts an idle engine like a busy one: sum hits and queries over the engines, "
            "then divide.",
        )


def _summed(node: Node) -> Iterator[Node]:
    """Yield the metrics that a sum adds up: what another aggregation below it has made one value of is none."""
    for part in node.parts:
        if part.kind == "call" and part.name in {"avg", "max", "min", "count", "group"}:
            continue
        yield part
        yield from _summed(part)


def _one_value(node: Node) -> bool:
    """Return whether a query has one value, whatever the number of engines."""
    if node.kind == "call" and node.name in AGGREGATIONS:
        return not node.grouped
    return node.kind != "metric" and all(_one_value(part) for part in node.parts)


def _old_names(query: Node) -> Iterator[Fault]:
    names = [one.name for one in query.walk() if one.kind == "metric"]
    for name in names:
        match = _OLD.fullmatch(name)
        if match is None:
            continue
        now = "vllm:" + match[1].replace("cache_usage", "kv_cache_usage")
        if not any(other.replace("_", ":", 1) == now or other == now for other in names):
            yield Fault(
                "old_name",
                f"{name} is the name of old versions, and shows nothing of later ones: write {now}, or both with `or`.",
            )
