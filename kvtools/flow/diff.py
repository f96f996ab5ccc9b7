"""``diff``: two requests of a log side by side, or two logs."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kvtools import __version__
from kvtools.errors import UsageError
from kvtools.flow.explain import ExplainOptions, Hits, cache_figures, predicted_hits, settings_of
from kvtools.flow.intake import Intake, PathLike, Watcher, take_in
from kvtools.flow.parting import Side, compare_prompts, request_name
from kvtools.flow.requests import Roll
from kvtools.flow.section_map import section_map
from kvtools.model import share
from kvtools.prefixes.parting import common_length
from kvtools.report.coverage import coverage
from kvtools.report.diff import (
    BlockCount,
    DiffedLog,
    DiffedRequest,
    LogDiff,
    RequestChange,
    RequestDiff,
)
from kvtools.report.model import SCHEMA_VERSION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kvtools.flow.requests import Requests
    from kvtools.profile import Keyed


@dataclass(frozen=True, slots=True, eq=False)
class _Log:
    """One log, read and replayed; ``head`` is what all its requests begin with: tokens, or keys of blocks."""

    figures: DiffedLog
    requests: Requests
    hits: Hits
    head: NDArray[np.generic]
    by_tokens: bool


def diff_requests(
    names: tuple[str, str],
    paths: Sequence[PathLike] | PathLike,
    options: ExplainOptions | None = None,
    watcher: Watcher | None = None,
) -> RequestDiff:
    """Return where two requests of a log part, and what is equal behind; each is named by id or ``path:line``.

    Raises:
        InputError: the log cannot be read, or a name means no request or several.
        UsageError: an option is out of its range.
    """
    chosen = options or ExplainOptions()
    return take_in(paths, chosen, watcher or Watcher(), lambda intake: _requests(intake, names, chosen))


def diff_logs(
    paths: tuple[PathLike, PathLike], options: ExplainOptions | None = None, watcher: Watcher | None = None
) -> LogDiff:
    """Return how two logs differ: hit rates, common heads, and the requests of both that hit more or less.

    Each log is replayed alone, from an empty cache.

    Raises:
        InputError: a log cannot be read, or has no request with a prompt.
        UsageError: both are standard input, or ``options.rejects`` is given (it is a file for one log).
    """
    chosen, told = options or ExplainOptions(), watcher or Watcher()
    if all(str(path) == "-" for path in paths):
        raise UsageError("both logs are standard input: name a file for one of them.")
    if chosen.rejects is not None:
        raise UsageError("--rejects lists what one log lost: leave it out where two logs are compared.")
    return _compared(*(take_in(path, chosen, told, lambda intake: _read(intake, chosen)) for path in paths))


def _requests(intake: Intake, names: tuple[str, str], options: ExplainOptions) -> RequestDiff:
    roll = Roll(frozenset(names))
    for chunk, keyed, dropped in intake.chunks():
        roll.take(chunk, keyed, dropped, intake.template)
    spec = options.spec(intake, roll.counts, len(roll))
    requests = roll.requests()
    a, b = (requests.find(name) for name in names)
    one, other = (
        Side(at, requests.prompts[at], section_map(intake.log, requests.place(at))) for at in (a, b)
    )
    compared = compare_prompts(requests, one, other, spec.block_size, show_text=options.show_text)
    hits = predicted_hits(requests, spec)
    blocks = min(len(requests.keys.row(at)) for at in (a, b))
    return RequestDiff(
        schema_version=SCHEMA_VERSION,
        kvtools_version=__version__,
        inputs=intake.inputs(),
        settings=settings_of(intake, requests),
        coverage=coverage(roll.counts, intake.log.skipped),
        cache=cache_figures(spec),
        a=DiffedRequest(request=request_name(requests, a), hit_tokens=int(hits.hit[a])),
        b=DiffedRequest(request=request_name(requests, b), hit_tokens=int(hits.hit[b])),
        outcome=_outcome(requests, a, b, parted=compared.parting is not None),
        same_namespace=requests.same_namespace(a, b),
        shared_tokens=compared.shared_tokens,
        shared_blocks=compared.shared_blocks,
        first_different_block=compared.shared_blocks if compared.shared_blocks < blocks else None,
        parting=compared.parting,
        identical_tokens_behind=compared.identical_behind,
    )


def _outcome(requests: Requests, a: int, b: int, *, parted: bool) -> str:
    if parted:
        return "parted"
    one, other = (int(requests.columns["prompt_tokens"][at]) for at in (a, b))
    if one == other:
        return "equal"
    return "a_begins_b" if one < other else "b_begins_a"


def _read(intake: Intake, options: ExplainOptions) -> _Log:
    roll, head = Roll(frozenset()), None
    for chunk, keyed, dropped in intake.chunks():
        roll.take(chunk, keyed, dropped, intake.template)
        head = _head(head, keyed)
    spec = options.spec(intake, roll.counts, len(roll))
    requests = roll.requests()
    hits = predicted_hits(requests, spec)
    by_tokens = intake.keying.kind == "prompts"
    shared = np.empty(0) if head is None else head
    lengths = requests.columns["prompt_tokens"]
    head_tokens = len(shared) if by_tokens else min(len(shared) * spec.block_size, int(lengths.min()))
    queried, hit = int(hits.queried.sum()), int(hits.hit.sum())
    figures = DiffedLog(
        inputs=intake.inputs(),
        settings=settings_of(intake, requests),
        coverage=coverage(roll.counts, intake.log.skipped),
        cache=cache_figures(spec),
        requests=len(requests),
        prompt_tokens=int(lengths.sum()),
        queried_tokens=queried,
        hit_tokens=hit,
        hit_rate=share(hit, queried),
        common_head_tokens=head_tokens,
    )
    return _Log(figures, requests, hits, shared, by_tokens)


def _head(head: NDArray[np.generic] | None, keyed: Keyed) -> NDArray[np.generic] | None:
    """Shorten the common head to what the requests of one more chunk share with it."""
    rows = keyed.keys if keyed.tokens is None else keyed.tokens
    for index in range(len(rows)):
        row = rows.row(index)
        head = row.copy() if head is None else head[: common_length(head, row)]
    return head


def _compared(a: _Log, b: _Log) -> LogDiff:
    matched_by, pairs = _pairs(a.requests, b.requests)
    sizes = {log.figures.cache.block_size for log in (a, b)}
    comparable = a.by_tokens == b.by_tokens and len(sizes) == 1
    changes, firsts = _changes(a, b, pairs, comparable=comparable)
    rates = a.figures.hit_rate, b.figures.hit_rate
    shared = common_length(a.head, b.head) if comparable else 0
    if comparable and not a.by_tokens:
        shared = min(shared * sizes.pop(), a.figures.common_head_tokens, b.figures.common_head_tokens)
    return LogDiff(
        schema_version=SCHEMA_VERSION,
        kvtools_version=__version__,
        a=a.figures,
        b=b.figures,
        hit_rate_change=None if rates[0] is None or rates[1] is None else rates[1] - rates[0],
        shared_head_tokens=shared if comparable else None,
        comparable_blocks=comparable,
        matched_by=matched_by,
        matched_requests=len(pairs),
        only_a_requests=len(a.requests) - len(pairs),
        only_b_requests=len(b.requests) - len(pairs),
        equal_prompts=firsts[None] if comparable else None,
        more_requests=sum(change.b_hit_tokens > change.a_hit_tokens for change in changes),
        less_requests=sum(change.b_hit_tokens < change.a_hit_tokens for change in changes),
        first_different_blocks=[
            BlockCount(block=block, requests=count)
            for block, count in sorted(firsts.items(), key=lambda item: (item[0] is None, item[0]))
            if block is not None
        ],
        changes=changes,
    )


def _pairs(a: Requests, b: Requests) -> tuple[str | None, list[tuple[int, int]]]:
    """Return the requests of both logs: by id, the n-th of an id with the n-th; by place where there are no ids."""
    if a.ids.null_count == len(a) and b.ids.null_count == len(b):
        return ("place", [(at, at) for at in range(len(a))]) if len(a) == len(b) else (None, [])
    waiting: defaultdict[str, list[int]] = defaultdict(list)
    for at, name in enumerate(b.ids.to_pylist()):
        if name is not None:
            waiting[name].append(at)
    for places in waiting.values():
        places.reverse()
    pairs = [
        (at, waiting[name].pop())
        for at, name in enumerate(a.ids.to_pylist())
        if name is not None and waiting.get(name)
    ]
    return ("id" if pairs else None), pairs


def _changes(
    a: _Log, b: _Log, pairs: list[tuple[int, int]], *, comparable: bool
) -> tuple[list[RequestChange], Counter[int | None]]:
    """Return the requests whose hits differ, the largest difference first, and where prompts differ first.

    Equal prompts are counted under ``None``; prompts without a differing full block are not counted at all.
    """
    changes, firsts = [], Counter[int | None]()
    for one, other in pairs:
        first = _first_different(a.requests, one, b.requests, other) if comparable else None
        lengths = [int(log.requests.columns["prompt_tokens"][at]) for log, at in ((a, one), (b, other))]
        if first is not None or lengths[0] == lengths[1]:
            firsts[first] += 1
        hits = int(a.hits.hit[one]), int(b.hits.hit[other])
        if hits[0] != hits[1]:
            changes.append(
                RequestChange(
                    id=a.requests.ids[one].as_py(),
                    a_source=a.requests.place(one),
                    b_source=b.requests.place(other),
                    a_prompt_tokens=lengths[0],
                    b_prompt_tokens=lengths[1],
                    a_hit_tokens=hits[0],
                    b_hit_tokens=hits[1],
                    first_different_block=first,
                )
            )
    changes.sort(key=lambda change: -abs(change.b_hit_tokens - change.a_hit_tokens))
    return changes, firsts


def _first_different(a: Requests, one: int, b: Requests, other: int) -> int | None:
    mine, theirs = a.keys.row(one), b.keys.row(other)
    shared = common_length(mine, theirs)
    return shared if shared < min(len(mine), len(theirs)) else None
