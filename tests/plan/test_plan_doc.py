"""docs/plan.md prints what the code gives, and Mooncake's replicas are in the order that the page claims."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

from kvtools.flow.plan_routing import RoutingOptions, plan_routing
from kvtools.flow.plan_sizing import SizingOptions, plan_sizing
from kvtools.plan.routing import POLICIES, PREFIX_AWARE, ROUND_ROBIN, SESSION_AFFINE
from kvtools.report import plan_routing as plan_routing_report
from kvtools.report import plan_sizing as plan_sizing_report

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/plan.md"


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("plan_tables", ROOT / "benchmarks/plan.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("blocks", [None, 8_192])
def test_mooncake_on_1_2_4_8_replicas(shared: Path, bench: ModuleType, blocks: int | None) -> None:
    """Prefix-aware routing is no worse than session-affine, and that no worse than round-robin."""
    trace = shared / "data/mooncake/conversation_trace.jsonl"
    report = plan_routing(trace, RoutingOptions(capacity_blocks=blocks))
    rates = {(one.policy, one.replicas): one.hit_rate for one in report.routing}
    assert round(report.ceiling.hit_rate, 4) == 0.3736
    assert len({rates[policy, 1] for policy in POLICIES}) == 1
    for replicas in (2, 4, 8):
        aware, affine, robin = (
            rates[policy, replicas] for policy in (PREFIX_AWARE, SESSION_AFFINE, ROUND_ROBIN)
        )
        assert report.ceiling.hit_rate >= aware >= affine >= robin
    assert [floor.hit_rate for floor in report.floor] == [rates[ROUND_ROBIN, count] for count in (1, 2, 4, 8)]
    # All prompts begin with the same block of 512 tokens: a key of that length sends all to one replica.
    assert report.routing_key.first_difference_tokens == 513
    shortest = report.routing_key.lengths[0]
    assert (shortest.tokens, shortest.keys, shortest.imbalance) == (512, 1, 8.0)
    assert bench.routing_table(report) in PAGE.read_text(), "run `python benchmarks/plan.py`"


def test_mooncake_sizes(shared: Path, bench: ModuleType) -> None:
    trace = shared / "data/mooncake/conversation_trace.jsonl"
    report = plan_sizing(trace, SizingOptions(classes=False))
    text = PAGE.read_text()
    assert bench.sizing_table(report) in text, "run `python benchmarks/plan.py`"
    assert f"with {report.working_set.peak_live_blocks:,} blocks" in text


def test_every_json_name_is_defined() -> None:
    text = (ROOT / "docs/metrics.md").read_text()
    for module in (plan_routing_report, plan_sizing_report):
        for part in vars(module).values():
            if isinstance(part, type) and issubclass(part, msgspec.Struct):
                for name in part.__struct_fields__:
                    assert name in text, f"{part.__name__}.{name}"
