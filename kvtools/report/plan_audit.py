"""The report of ``plan audit``: what a configuration does to a log. Figures: docs/metrics.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kvtools.report.model import Coverage, Input, Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvtools.plan.audit_model import AuditFinding, Step

_ORDER = {"high": 0, "medium": 1, "info": 2, "ok": 3}


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """One finding: ``flag`` in vLLM's spelling (``None``: about the traffic), the evidence, and what to do.

    ``severity``: ``high`` and ``medium`` are faults, ``info`` asks for nothing, ``ok`` was looked at and is in order.
    ``value`` in ``unit`` is the main figure of ``measured``.
    """

    rule: str
    flag: str | None
    severity: str
    symptom: str
    measured: str
    value: float | None
    unit: str | None
    cause: str
    advice: str


class NotAudited(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that this log or this line gives no ground for."""

    rule: str
    flag: str | None
    why: str


class BlockSize(msgspec.Struct, frozen=True, kw_only=True):
    """The log with blocks of ``block_size`` tokens and the same memory."""

    block_size: int
    capacity_blocks: int | None
    hit_tokens: int
    hit_rate: float


class Flags(msgspec.Struct, frozen=True, kw_only=True):
    """Where facts on flags come from: ``source`` is ``installed`` (vLLM's own parser) or ``table`` (of ``made``)."""

    source: str
    vllm: str
    made: str | None
    count: int


class Configured(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration: ``program`` (``serve``, ``api_server``, ``config``), the flags it sets, and what it hits."""

    program: str
    model: str | None
    set_flags: list[str]
    prefix_caching: bool
    block_size: int
    capacity_blocks: int | None
    capacity_basis: str
    hit_tokens: int
    queried_tokens: int
    hit_rate: float


class AuditReport(msgspec.Struct, frozen=True, kw_only=True):
    """All that ``plan audit`` found, the gravest first."""

    schema_version: int
    kvtools_version: str
    inputs: list[Input]
    settings: Settings
    coverage: Coverage
    requests: int
    flags: Flags
    configuration: Configured
    audit: list[Audit]
    not_judged: list[NotAudited]
    block_sizes: list[BlockSize]

    def to_json(self) -> str:
        """Return the report as indented JSON with a final line feed."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode() + "\n"


def audit_entries(found: Sequence[AuditFinding]) -> list[Audit]:
    """Return the findings as they stand in a report: the gravest first, else in the order of the rules."""
    ordered = sorted(found, key=lambda one: _ORDER[one.severity])
    return [
        Audit(
            rule=one.rule,
            flag=one.flag,
            severity=one.severity,
            symptom=one.symptom,
            measured=one.measured,
            value=one.value,
            unit=one.unit,
            cause=one.cause,
            advice=one.advice,
        )
        for one in ordered
    ]


def block_sizes(steps: Sequence[Step]) -> list[BlockSize]:
    """Return the block sizes that were tried."""
    return [
        BlockSize(
            block_size=step.block_size,
            capacity_blocks=step.capacity_blocks,
            hit_tokens=step.hit_tokens,
            hit_rate=step.hit_rate,
        )
        for step in steps
    ]
