"""The report: one frozen value from which every rendering is made. Each figure is defined in docs/metrics.md.

``Report.from_json(report.to_json())`` gives an equal report. Nothing in it depends on the wall clock.
Rates, shares and similarities are 0..1; ``None`` means that the log cannot say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from kvtools.report.class_shape import ClassBin, ClassWindow
from kvtools.report.compare import Compare
from kvtools.report.findings import ClusterFigures, Finding, Reachable
from kvtools.report.heat import ClassFigures, HeatFigures
from kvtools.report.read_back import read_back
from kvtools.report.section_order import SectionOrder
from kvtools.report.sessions import SessionFigures
from kvtools.report.shape import Histograms, PrefixNode, Window
from kvtools.report.traffic import Answer, Period, Traffic
from kvtools.report.verdict import MissFigures, VerdictFigures

if TYPE_CHECKING:
    import pandas as pd

SCHEMA_VERSION = 1


class Input(msgspec.Struct, frozen=True, kw_only=True):
    """One file: SHA-256 of its bytes as stored, and the requests read from it."""

    path: str
    sha256: str
    requests: int


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """In records: ``read`` = ``requests`` + ``rejected`` + ``without_prompt`` + ``duplicates`` + ``not_sent``.

    ``failed``, ``retries`` and ``streamed`` are of the requests that were sent, with a prompt or without;
    ``truncated_prompts``, ``with_media`` and ``bad_arguments`` of those with a prompt.
    """

    read: int
    rejected: int
    without_prompt: int
    duplicates: int
    not_sent: int
    failed: int | None
    retries: int | None
    streamed: int | None
    truncated_prompts: int
    with_media: int
    bad_arguments: int
    rejected_by_reason: dict[str, int]
    repaired_lines: dict[str, int]
    skipped_files: list[str]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What has to be equal for two reports to be comparable."""

    tokenizer: str
    tokenizer_check: str
    chat_template: str
    order: str
    measure_from: float


class PromptTokens(msgspec.Struct, frozen=True, kw_only=True):
    """Lengths of the prompts in tokens; ``std`` is the population's, percentiles are interpolated linearly."""

    total: int
    mean: float
    std: float
    p50: float
    p95: float
    max: int


class Similarity(msgspec.Struct, frozen=True, kw_only=True):
    """Jaccard indexes: between consecutive requests, of text and of prefix; of prefix, to the nearest before."""

    jaccard_consecutive: float | None
    prefix_jaccard_consecutive: float | None
    nearest_prefix_p50: float | None
    nearest_prefix_p90: float | None


class Hits(msgspec.Struct, frozen=True, kw_only=True):
    """Hit tokens and their share of the queried tokens."""

    hit_tokens: int
    hit_rate: float | None


class RouteHits(msgspec.Struct, frozen=True, kw_only=True):
    """The hits of one route's requests in the shared cache."""

    queried_tokens: int
    hit_tokens: int
    hit_rate: float | None


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one route (tenant, app or endpoint)."""

    route: str
    requests: int
    prompt_tokens: PromptTokens
    variable_share: float | None
    similarity: Similarity
    cache: RouteHits
    ceiling: Hits


class Cache(msgspec.Struct, frozen=True, kw_only=True):
    """What the cache with these settings hit. ``refused_requests`` are larger than it and were not sent.

    ``block_bytes``: KV of one block on the whole model, where the model is known.
    """

    model: str
    block_size: int
    capacity_blocks: int | None
    rules: str
    outputs: str
    start_state: str
    queried_tokens: int
    hit_tokens: int
    hit_rate: float | None
    evictions: int
    refused_requests: int
    block_bytes: int | None = None


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """Blocks that the requests in flight needed (by logged arrival and latency, no block shared), against capacity."""

    peak_blocks: int
    over_capacity_us: int
    stretches: int


class CurvePoint(msgspec.Struct, frozen=True, kw_only=True):
    """The hits of an LRU cache of that size, in blocks."""

    capacity_blocks: int
    hit_tokens: int
    hit_rate: float | None


class CacheNeed(msgspec.Struct, frozen=True, kw_only=True):
    """The smallest LRU cache with that share (0..1) of the ceiling's hits."""

    share_of_ceiling: float
    capacity_blocks: int


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All that ``kvtools analyze logs`` knows of a log.

    ``answers`` says which of it this log can support. Where no request has a prompt there is nothing to look up:
    ``prompt_tokens``, ``similarity``, ``cache``, ``ceiling`` and ``unique_blocks`` are ``None``, lists are empty.
    """

    schema_version: int
    kvtools_version: str
    inputs: list[Input]
    settings: Settings
    coverage: Coverage
    answers: list[Answer]
    traffic: Traffic
    requests: int
    period: Period | None
    prompt_tokens: PromptTokens | None
    variable_share: float | None
    variable_share_requests: int
    similarity: Similarity | None
    routes: list[Route]
    cache: Cache | None
    ceiling: Hits | None
    unique_blocks: int | None
    cache_needed: list[CacheNeed]
    curve: list[CurvePoint]
    over_time: list[Window]
    histograms: Histograms
    prefix_tree: list[PrefixNode]
    observed: Compare | None
    demand: Demand | None
    sessions: SessionFigures | None
    verdict: VerdictFigures | None
    misses: MissFigures | None
    findings: list[Finding] | None
    clusters: list[ClusterFigures]
    reachable: Reachable | None
    section_order: SectionOrder | None
    cost_basis: str | None
    classes: list[ClassFigures] = []
    heat: HeatFigures | None = None
    class_windows: list[ClassWindow] = []
    class_bins: list[ClassBin] = []

    def to_json(self) -> str:
        """Return the report as indented JSON with a final line feed."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode() + "\n"

    def to_pandas(self) -> dict[str, pd.DataFrame]:
        """Return the tables of the report by name; docs/python.md lists them."""
        from kvtools.report.notebook import report_tables  # noqa: PLC0415 - made of this module

        return report_tables(self)

    def _repr_html_(self) -> str:
        from kvtools.report.notebook import report_html  # noqa: PLC0415 - made of this module

        return report_html(self)

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:  # noqa: FBT001 - IPython's signature
        from kvtools.report.notebook import report_headline  # noqa: PLC0415 - made of this module

        printer.text(report_headline(self))

    @classmethod
    def from_json(cls, data: bytes | str) -> Report:
        """Read a report back.

        Raises:
            InputError: not a report, or one of another schema version.
        """
        return read_back(data, cls, SCHEMA_VERSION, "report")
