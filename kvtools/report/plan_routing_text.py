"""The report of ``plan routing`` on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtools.report.coverage import coverage_lines
from kvtools.report.numbers import counted, percent, ratio, short

if TYPE_CHECKING:
    from kvtools.report.plan_routing import Routing, RoutingReport


_COLUMNS = 4


def render_routing(report: RoutingReport, again: str | None = None) -> str:
    """Return the report as text; ``again``: the command that made it, to build the next step from."""
    lines = [*_headline(report), *(f"  {line}" for line in _basis(report)), ""]
    lines += [*_table(report), "", *_key(report), *_router(report)]
    if again is not None and report.nginx is not None and "--nginx" not in again:
        lines += ["", f"Next: {again} --nginx upstream.conf"]
    return "\n".join(lines) + "\n"


def _chosen(report: RoutingReport) -> Routing:
    chosen = report.chosen
    return next(r for r in report.routing if (r.policy, r.replicas) == (chosen.policy, chosen.replicas))


def _headline(report: RoutingReport) -> list[str]:
    best = _chosen(report)
    floor = next(f for f in report.floor if f.replicas == best.replicas)
    replicas = counted(best.replicas, "replica")
    first = f"{percent(best.hit_rate)} of prompt tokens hit on {replicas} with {best.policy} routing"
    if best.replicas == 1:
        return [f"{percent(best.hit_rate)} of prompt tokens hit on 1 replica: there is nothing to route."]
    return [
        f"{first};",
        f"  round-robin, the floor: {percent(floor.hit_rate)} · one unlimited engine, the ceiling: "
        + percent(report.ceiling.hit_rate),
    ]


def _basis(report: RoutingReport) -> list[str]:
    cache, sessions = report.cache, report.sessions
    size = (
        "unlimited cache"
        if cache.capacity_blocks is None
        else f"{counted(cache.capacity_blocks, 'block')} on each replica"
    )
    lines = [
        f"{counted(report.requests, 'request')} · {short(report.prompt_tokens)} prompt tokens",
        f"{report.settings.tokenizer} · block {cache.block_size}, {cache.rules} rules · {size}",
        "cold start · one request at a time on each replica",
        (
            f"{counted(sessions.sessions, 'session')}: {counted(sessions.named, 'request')} with a session id, "
            f"{sessions.found:,} that continue a prompt"
        ),
        *coverage_lines(report.coverage, report.requests),
    ]
    refused = max(routing.refused_requests for routing in report.routing)
    if refused:
        lines.append(f"{counted(refused, 'lookup')} refused: larger than a replica's cache")
    return lines


def _table(report: RoutingReport) -> list[str]:
    counts = list(dict.fromkeys(routing.replicas for routing in report.routing))
    policies = list(dict.fromkeys(routing.policy for routing in report.routing))
    cells = {
        (routing.policy, routing.replicas): f"{percent(routing.hit_rate)}  {ratio(routing.imbalance)}"
        for routing in report.routing
    }
    rows = []
    for start in range(0, len(counts), _COLUMNS):
        shown = counts[start : start + _COLUMNS]
        rows.append(f"{'Replicas':<15}" + "".join(f"{count:>16,}" for count in shown))
        rows += [
            f"{policy:<15}" + "".join(f"{cells[policy, count]:>16}" for count in shown) for policy in policies
        ]
    return [
        *rows,
        "hit rate, and load imbalance: tokens the busiest replica computes over the mean",
        "named first: the policy whose busiest replica computes least",
    ]


def _key(report: RoutingReport) -> list[str]:
    key = report.routing_key
    first = key.first_difference_tokens
    if first is None:
        return ["Routing key     no two sessions differ: no key spreads them"]
    said = f"sessions differ from token {first:,} on"
    if first > 1:
        said += "; shorter keys are all the same"
    rows = [
        f"{'Routing key':<15} {said}",
        f"{'tokens':>15}{'keys':>10}{'largest':>10}{'hit rate':>11}  imbalance",
    ]
    rows += [
        f"{length.tokens:>15,}{length.keys:>10,}{length.largest_key_requests:>10,}"
        f"{percent(length.hit_rate):>11}{ratio(length.imbalance):>8}"
        + (" <- taken" if length.tokens == key.tokens else "")
        for length in key.lengths
    ]
    return rows


def _router(report: RoutingReport) -> list[str]:
    chosen = report.chosen
    if chosen.nginx_policy is None or chosen.nginx_policy == chosen.policy:
        return []
    return [
        f"{'nginx':<15} cannot see what replicas have cached: a router that can takes",
        f"{'':<15} {chosen.policy}; the best that nginx can do is {chosen.nginx_policy}",
    ]
