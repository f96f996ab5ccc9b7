"""Texts that are one text in several byte forms: line ends, kinds and numbers of blanks, Unicode form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtools.diagnosis.candidates import MAIN_ROUTE_SHARE, Candidate, Cluster
from kvtools.normalize.forms import TEXT_RULES, OneForm, one_form
from kvtools.table import digest64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvtools.fields import SectionText


_RULES = tuple(TEXT_RULES)


def form_clusters(texts: Sequence[SectionText], scale: int) -> list[Cluster]:
    """Return a cluster for each role, route and set of rules with which different texts become equal."""
    same: dict[tuple[str, str], list[SectionText]] = {}
    for text in texts:
        same.setdefault((text.role, one_form(text.text, _RULES)), []).append(text)
    found: dict[tuple[str, str | None, tuple[str, ...]], list[list[SectionText]]] = {}
    for (role, _), forms in same.items():
        if len(forms) > 1:
            route = _route(forms)
            found.setdefault((role, route, _needed(forms)), []).append(forms)
    clusters = [_cluster(role, route, rules, groups, scale) for (role, route, rules), groups in found.items()]
    return sorted(clusters, key=lambda c: (-c.requests, c.role, c.route or "", c.head))


def _needed(forms: Sequence[SectionText]) -> tuple[str, ...]:
    """Return the fewest rules that make all the texts one."""
    rules = _RULES
    for rule in _RULES:
        fewer = tuple(kept for kept in rules if kept != rule)
        if len({one_form(text.text, fewer) for text in forms}) == 1:
            rules = fewer
    return rules


def _route(forms: Sequence[SectionText]) -> str | None:
    routes: dict[str | None, int] = {}
    for text in forms:
        for route, requests in text.routes.items():
            routes[route] = routes.get(route, 0) + requests
    best = max(routes, key=lambda route: (routes[route], route or ""))
    return best if routes[best] >= MAIN_ROUTE_SHARE * sum(routes.values()) else None


def _cluster(
    role: str,
    route: str | None,
    rules: tuple[str, ...],
    groups: Sequence[Sequence[SectionText]],
    scale: int,
) -> Cluster:
    pairs = [(forms[0].text, other.text) for forms in groups for other in forms[1:]]
    texts = frozenset(digest64(one_form(forms[0].text, rules)) for forms in groups)
    candidate = Candidate(
        role=role,
        route=route,
        fields=(),
        kind=rules[0],
        place=min(_parted(a, b) for a, b in pairs),
        moves=(),
        forms=(OneForm(role, rules, texts),),
        bound_tokens=0,
        context=("+".join(rules), ""),
    )
    requests = sum(text.requests for forms in groups for text in forms) * scale
    return Cluster(role, route, "+".join(rules), requests, sum(map(len, groups)) * scale, (candidate,))


def _parted(a: str, b: str) -> int:
    """Return the character at which two texts part."""
    for place, (one, other) in enumerate(zip(a, b, strict=False)):
        if one != other:
            return place
    return min(len(a), len(b))
