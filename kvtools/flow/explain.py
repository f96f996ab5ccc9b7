"""``explain``: one request beside the earlier one that shares most with it, and what their difference cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kvtools import __version__
from kvtools.cache import Interner, Prompts, study_cache
from kvtools.flow.intake import Intake, IntakeOptions, PathLike, Watcher, take_in
from kvtools.flow.parting import Compared, Side, compare_prompts, request_name
from kvtools.flow.requests import UNKNOWN, Roll, prompt_of, read_again
from kvtools.flow.section_map import section_map
from kvtools.model import CacheSpec
from kvtools.prefixes.parting import common_length
from kvtools.report.coverage import coverage
from kvtools.report.explain import CacheFigures, Explanation
from kvtools.report.model import SCHEMA_VERSION, Settings
from kvtools.table import Ragged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kvtools.flow.requests import Prompt, Requests
    from kvtools.flow.sizing import CacheMemory
    from kvtools.profile import Counts


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainOptions(IntakeOptions):
    """What ``explain`` and ``diff`` can be told besides how to read; ``show_text`` shows values of prompts unmasked."""

    capacity_blocks: int | None = None
    memory: CacheMemory | None = None
    show_text: bool = False

    def __post_init__(self) -> None:
        # A wrong size must not wait for the end of a long run to be told.
        CacheSpec(1 if self.block_size is None else self.block_size, self.capacity_blocks)

    def spec(self, intake: Intake, counts: Counts, prompts: int) -> CacheSpec:
        """Return the cache, once the log is read.

        Raises:
            InputError: the log had no request with a prompt.
        """
        block_size, rules = intake.settled(counts, prompts)
        capacity = self.memory.capacity_blocks(block_size) if self.memory else self.capacity_blocks
        return CacheSpec(block_size, capacity, rules)


@dataclass(frozen=True, slots=True, eq=False)
class Hits:
    """Predicted for the first lookup of each request, in tokens: asked for, hit, and hit in an unlimited cache."""

    queried: NDArray[np.int64]
    hit: NDArray[np.int64]
    ceiling: NDArray[np.int64]


def explain(
    name: str,
    paths: Sequence[PathLike] | PathLike,
    options: ExplainOptions | None = None,
    watcher: Watcher | None = None,
) -> Explanation:
    """Return where the request ``name`` (its id, or ``path:line``) parts from the earlier request nearest to it.

    Nearest is the earlier request of its namespace, in replay order, with the longest common prefix in tokens (in
    blocks where the log gives block ids); the latest of several.

    Raises:
        InputError: the log cannot be read, or holds no such request, or several.
        UsageError: an option is out of its range.
    """
    chosen = options or ExplainOptions()
    return take_in(paths, chosen, watcher or Watcher(), lambda intake: _explain(intake, name, chosen))


def predicted_hits(requests: Requests, spec: CacheSpec) -> Hits:
    """Replay every lookup of the log, one at a time; a request for n answers is n of them."""
    samples = requests.columns["samples"]
    owner = np.repeat(np.arange(len(requests)), samples)
    first = np.cumsum(samples) - samples
    ids = Ragged(Interner().intern(requests.keys.values), requests.keys.offsets)
    blocks = ids if len(owner) == len(requests) else ids.take(owner)
    skips = requests.columns["skip_lookup"][owner] > 0
    prompts = Prompts(requests.columns["prompt_tokens"][owner], blocks.values, blocks.offsets, skips)
    study = study_cache(prompts, spec)
    return Hits(study.result.queried_tokens[first], study.result.hit_tokens[first], study.ceiling[first])


def settings_of(intake: Intake, requests: Requests) -> Settings:
    """Return what the run rests on."""
    has_text = intake.keying.kind == "prompts"
    return Settings(
        tokenizer=intake.tokenizer.name if has_text else "none (block ids given)",
        tokenizer_check=intake.tokenizer_check() if has_text else "not needed",
        chat_template=intake.template.name,
        order="arrival" if requests.by_arrival else "log",
        measure_from=0.0,
    )


def cache_figures(spec: CacheSpec) -> CacheFigures:
    """Return the cache as it stands in a report."""
    return CacheFigures(
        model=spec.model, block_size=spec.block_size, capacity_blocks=spec.capacity_blocks, rules=spec.rules
    )


def _explain(intake: Intake, name: str, options: ExplainOptions) -> Explanation:
    roll = Roll(frozenset({name}))
    for chunk, keyed, dropped in intake.chunks():
        roll.take(chunk, keyed, dropped, intake.template)
    spec = options.spec(intake, roll.counts, len(roll))
    requests = roll.requests()
    index = requests.find(name)
    nearest, compared = _compared(intake, requests, index, spec, options)
    hits = predicted_hits(requests, spec)
    reported = int(requests.columns["cached_tokens"][index])
    return Explanation(
        schema_version=SCHEMA_VERSION,
        kvtools_version=__version__,
        inputs=intake.inputs(),
        settings=settings_of(intake, requests),
        coverage=coverage(roll.counts, intake.log.skipped),
        cache=cache_figures(spec),
        request=request_name(requests, index),
        place=index + 1,
        requests=len(requests),
        outcome=_outcome(requests, index, nearest, compared),
        nearest=None if nearest < 0 else request_name(requests, nearest),
        earlier_us=_earlier_us(requests, index, nearest),
        shared_tokens=compared.shared_tokens,
        shared_blocks=compared.shared_blocks,
        parting=compared.parting,
        identical_tokens_behind=compared.identical_behind,
        queried_tokens=int(hits.queried[index]),
        hit_tokens=int(hits.hit[index]),
        ceiling_hit_tokens=int(hits.ceiling[index]),
        reported_hit_tokens=None if reported == UNKNOWN else reported,
    )


def _compared(
    intake: Intake, requests: Requests, index: int, spec: CacheSpec, options: ExplainOptions
) -> tuple[int, Compared]:
    """Return the nearest earlier request (-1: none) and where the two part."""
    nearest, prompt = _nearest(intake, requests, index)
    if nearest < 0:
        return nearest, Compared(0, 0, None, None)
    this, that = (
        Side(at, its, section_map(intake.log, requests.place(at)))
        for at, its in ((index, requests.prompts[index]), (nearest, prompt))
    )
    return nearest, compare_prompts(requests, this, that, spec.block_size, show_text=options.show_text)


def _earlier_us(requests: Requests, index: int, nearest: int) -> int | None:
    arrivals = requests.columns["arrival_us"]
    if nearest < 0 or UNKNOWN in (arrivals[index], arrivals[nearest]):
        return None
    return int(arrivals[index] - arrivals[nearest])


def _outcome(requests: Requests, index: int, nearest: int, compared: Compared) -> str:
    if nearest < 0:
        return "first"
    if compared.parting is not None:
        return "parted"
    length = int(requests.columns["prompt_tokens"][index])
    return "contained" if compared.shared_tokens == length else "continues"


def _nearest(intake: Intake, requests: Requests, index: int) -> tuple[int, Prompt | None]:
    """Return the nearest earlier request, -1 for none, and its prompt where tokens are known.

    Chained keys say which share most full blocks; only among these are tokens compared, in a second reading.
    """
    same = np.flatnonzero(requests.columns["namespace"][:index] == requests.columns["namespace"][index])
    if not len(same):
        return -1, None
    blocks = _shared_blocks(requests, index, same)
    candidates = same[blocks == blocks.max()]
    tokens = requests.prompts[index].tokens
    if tokens is None:
        return int(candidates[-1]), None
    best, held = (-1, -1), None
    for other, table, keyed, entry in read_again(intake, requests, candidates):
        if keyed.tokens is not None:
            found = (common_length(tokens, keyed.tokens.row(entry)), other)
            if found > best:
                best, held = found, (table, keyed, entry)
    return best[1], None if held is None else prompt_of(*held, intake.template)


def _shared_blocks(requests: Requests, index: int, others: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many leading blocks a request shares with each of some others."""
    mine, keys = requests.keys.row(index), requests.keys
    blocks = np.zeros(len(others), dtype=np.int64)
    if not len(mine):
        return blocks
    begin = keys.offsets[others]
    some = np.flatnonzero(keys.offsets[others + 1] > begin)
    alike = some[keys.values[begin[some]] == mine[0]]
    blocks[alike] = [common_length(mine, keys.row(other)) for other in others[alike].tolist()]
    return blocks
