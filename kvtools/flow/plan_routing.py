"""``plan routing``: the log on several replicas, by each way to route."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kvtools import __version__
from kvtools.cache import unlimited_hits
from kvtools.errors import InputError, UsageError
from kvtools.flow.intake import Intake, IntakeOptions, PathLike, Watcher, take_in
from kvtools.flow.plan_intake import plan_cache, plan_log, plan_settings
from kvtools.model import CacheSpec, share
from kvtools.plan.routing import (
    POLICIES,
    PREFIX_AWARE,
    PREFIX_HASH,
    ROUND_ROBIN,
    Traffic,
    route,
    server_names,
)
from kvtools.plan.routing_keys import key_spread
from kvtools.plan.routing_nginx import NGINX_POLICIES, checked_servers, nginx_upstream
from kvtools.plan.routing_ring import key_hashes
from kvtools.report.coverage import coverage
from kvtools.report.files import replacing
from kvtools.report.model import SCHEMA_VERSION, Hits
from kvtools.report.plan_routing import (
    Chosen,
    Floor,
    KeyLength,
    PlanSessions,
    RoutingKey,
    RoutingReport,
    routing_figures,
)
from kvtools.sessions import EXTENDS, NAMED

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kvtools.flow.plan_intake import PlanLog, PlannedRequests
    from kvtools.flow.sizing import CacheMemory
    from kvtools.plan.routing import Routed

MOST_REPLICAS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingOptions(IntakeOptions):
    """What ``plan routing`` can be told besides how to read.

    ``capacity_blocks`` or ``memory`` is the cache of each replica. ``prefix_tokens``: length of the routing key of
    prefix-hash (default: the one that leaves the busiest replica least to compute). ``nginx`` receives the snippet;
    ``servers`` name the replicas, and so their number; ``header`` carries the key.
    """

    replicas: tuple[int, ...] = (1, 2, 4, 8)
    policies: tuple[str, ...] = POLICIES
    prefix_tokens: int | None = None
    capacity_blocks: int | None = None
    memory: CacheMemory | None = None
    nginx: Path | None = None
    servers: tuple[str, ...] = ()
    header: str | None = None

    def __post_init__(self) -> None:
        unknown = [policy for policy in self.policies if policy not in POLICIES]
        if unknown or not self.policies or len(set(self.policies)) < len(self.policies):
            raise UsageError(f"--policy {','.join(self.policies)}: different ones of {', '.join(POLICIES)}.")
        if not self.replicas or min(self.replicas) < 1 or max(self.replicas) > MOST_REPLICAS:
            raise UsageError(f"--replicas: numbers from 1 to {MOST_REPLICAS:,}, such as 1,2,4,8.")
        if self.prefix_tokens is not None and self.prefix_tokens < 1:
            raise UsageError(f"--prefix-tokens {self.prefix_tokens}: at least 1.")
        checked_servers(self.servers)
        if self.nginx is not None and not set(self.policies) & set(NGINX_POLICIES):
            raise UsageError(f"--nginx: nginx cannot route {PREFIX_AWARE}; name another --policy as well.")
        nginx_upstream(PREFIX_HASH, ["checks-the-header:1"], self.header, 1)
        CacheSpec(1 if self.block_size is None else self.block_size, self.capacity_blocks)

    @property
    def counts(self) -> tuple[int, ...]:
        """The numbers of replicas in ascending order, that of the named servers among them."""
        named = (len(self.servers),) if self.servers else ()
        return tuple(sorted({*self.replicas, *named}))


def plan_routing(
    paths: Sequence[PathLike] | PathLike,
    options: RoutingOptions | None = None,
    watcher: Watcher | None = None,
) -> RoutingReport:
    """Return what the caches of several replicas hit when the log's requests are routed in different ways.

    Raises:
        InputError: the log cannot be read, no request in it has a prompt or fits the cache, or ``options.nginx``
            cannot be written.
        UsageError: the options contradict each other.
    """
    chosen = options or RoutingOptions()
    return take_in(paths, chosen, watcher or Watcher(), lambda intake: _plan(intake, chosen))


@dataclass(frozen=True, slots=True, eq=False)
class _Study:
    """The replays. ``final`` is the number of replicas to decide for, ``names`` their names."""

    options: RoutingOptions
    spec: CacheSpec
    final: int
    watcher: Watcher

    def names(self, replicas: int) -> list[str]:
        servers = self.options.servers
        return list(servers) if replicas == len(servers) else server_names(replicas)

    def run(self, traffic: Traffic, policy: str, replicas: int) -> Routed:
        found = route(traffic, self.spec, policy, replicas, self.names(replicas))
        self.watcher.advance(1)
        return found


def _plan(intake: Intake, options: RoutingOptions) -> RoutingReport:
    log, planned, spec = plan_log(intake, options.prefix_tokens)
    memory = options.memory
    blocks = memory.capacity_blocks(spec.block_size) if memory else options.capacity_blocks
    spec = replace(spec, capacity_blocks=blocks)
    final = len(options.servers) or max(options.replicas)
    study = _Study(options, spec, final, intake.watcher)
    prompts, owner = planned.lookups()
    steps = len(log.key_tokens) + len(options.counts) * len({*options.policies, ROUND_ROBIN})
    intake.watcher.begin(steps)
    plain = Traffic(prompts, owner, planned.session_hash[owner], planned.session_hash[owner])
    key, traffic = _routing_key(study, plain, log, planned)
    every = [
        study.run(traffic, policy, count)
        for policy in dict.fromkeys((ROUND_ROBIN, *options.policies))
        for count in options.counts
    ]
    if all(found.refused.all() for found in every):
        raise InputError(
            f"none of the {len(planned.session_hash):,} requests fits a cache of {blocks:,} blocks; give more."
        )
    return _report(intake, study, (log, planned, traffic), every, key)


def _routing_key(
    study: _Study, plain: Traffic, log: PlanLog, planned: PlannedRequests
) -> tuple[RoutingKey, Traffic]:
    """Return what keys of each length do on the most replicas, and the traffic with the keys of the best length."""
    lengths: list[KeyLength] = []
    best = None
    unit = log.block_size if log.in_blocks else 1
    asked = study.options.prefix_tokens
    wanted = None if asked is None else max(asked // unit, 1) * unit
    for place, tokens in enumerate(log.key_tokens):
        keys = planned.prefix_keys[:, place]
        spread = key_spread(keys, tokens)
        # As many keys as a shorter length has are the same parts of the log: only the hash's luck would differ.
        if lengths and spread.keys == lengths[-1].keys and tokens != wanted:
            study.watcher.advance(1)
            continue
        traffic = replace(plain, prefix_hash=key_hashes(keys)[plain.request])
        found = study.run(traffic, PREFIX_HASH, study.final)
        lengths.append(
            KeyLength(
                tokens=tokens,
                keys=spread.keys,
                largest_key_requests=spread.max_load,
                hit_rate=found.hit_rate,
                imbalance=found.imbalance,
            )
        )
        rank = (tokens != wanted and wanted is not None, int(found.computed_tokens.max()), tokens)
        if best is None or rank < best[0]:
            best = rank, tokens, traffic
    if best is None:
        raise InputError(
            "no request has a prompt: there is nothing to route; check the format (--input-format)."
        )
    first = planned.first_difference
    if first is not None and log.in_blocks:
        first = (first - 1) * log.block_size + 1
    return RoutingKey(first_difference_tokens=first, tokens=best[1], lengths=lengths), best[2]


def _report(
    intake: Intake,
    study: _Study,
    taken: tuple[PlanLog, PlannedRequests, Traffic],
    every: list[Routed],
    key: RoutingKey,
) -> RoutingReport:
    (log, planned, traffic), options, spec = taken, study.options, study.spec
    ceiling = unlimited_hits(traffic.prompts, replace(spec, capacity_blocks=None))
    queried = traffic.prompts.tokens[~traffic.prompts.skip_lookup]
    shown = [found for policy in options.policies for found in every if found.policy == policy]
    chosen = _chosen([found for found in shown if found.replicas == study.final])
    basis = planned.sessions.basis
    return RoutingReport(
        schema_version=SCHEMA_VERSION,
        kvtools_version=__version__,
        inputs=intake.inputs(),
        settings=plan_settings(intake, planned.order),
        coverage=coverage(log.counts, intake.log.skipped),
        requests=len(planned.session_hash),
        prompt_tokens=int(planned.requests.prompt_tokens.sum()),
        cache=plan_cache(spec),
        sessions=PlanSessions(
            sessions=len(planned.sessions),
            named=int((basis == NAMED).sum()),
            found=int((basis == EXTENDS).sum()),
        ),
        ceiling=Hits(hit_tokens=int(ceiling.sum()), hit_rate=share(int(ceiling.sum()), int(queried.sum()))),
        floor=[
            Floor(replicas=found.replicas, hit_tokens=int(found.hit_tokens.sum()), hit_rate=found.hit_rate)
            for found in every
            if found.policy == ROUND_ROBIN
        ],
        routing=[routing_figures(found) for found in shown],
        routing_key=key,
        chosen=chosen,
        nginx=_snippet(study, chosen, key.tokens),
    )


def _snippet(study: _Study, chosen: Chosen, key_tokens: int) -> str | None:
    """Return the nginx blocks, and write them where they were asked for; ``None`` where nginx can do no policy."""
    if chosen.nginx_policy is None:
        return None
    options = study.options
    text = nginx_upstream(chosen.nginx_policy, study.names(study.final), options.header, key_tokens)
    if options.nginx is not None:
        with replacing(options.nginx) as file:
            file.write(text)
    return text


def _chosen(found: list[Routed]) -> Chosen:
    """Return the policy whose busiest replica computes least; of equal ones the one that asks least of the router."""

    def busiest(routed: Routed) -> tuple[int, int]:
        return int(routed.computed_tokens.max()), POLICIES.index(routed.policy)

    best = min(found, key=busiest)
    by_nginx = [routed for routed in found if routed.policy in NGINX_POLICIES]
    return Chosen(
        replicas=best.replicas,
        policy=best.policy,
        nginx_policy=min(by_nginx, key=busiest).policy if by_nginx else None,
    )
