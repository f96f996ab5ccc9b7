"""What the tests of the audit share: a model whose KV size is worked out by hand, and a look into a report."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from kvtools.report.plan_audit import Audit, AuditReport

Audited: TypeAlias = Callable[..., AuditReport]

MODEL = {
    "model_type": "llama", "torch_dtype": "bfloat16", "hidden_size": 64, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "num_hidden_layers": 4, "max_position_embeddings": 8192,
}  # fmt: skip
"""A token takes 2 (keys, values) x 4 layers x 2 heads x 16 x 2 bytes = 512 bytes; a block of 16 takes 8,192."""

BLOCK_BYTES = 8192


def faults(report: AuditReport) -> set[tuple[str, str | None, str]]:
    """What is wrong: rule, flag and severity of each finding that asks for something."""
    return {(one.rule, one.flag, one.severity) for one in report.audit if one.severity in {"high", "medium"}}


def finding(report: AuditReport, rule: str) -> Audit:
    """The one finding of a rule."""
    (found,) = [one for one in report.audit if one.rule == rule]
    return found
