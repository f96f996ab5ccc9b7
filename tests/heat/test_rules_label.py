"""Rules on one request: the first that fits decides, what is not known fits nothing, and it is fast."""

from __future__ import annotations

import subprocess
import sys
import time
import timeit
from pathlib import Path

import numpy as np
import pytest

import kvtools
from kvtools.errors import UsageError
from kvtools.heat.features import HeatColumns
from kvtools.heat.priority import VLLM_GUIDE, vllm_priority, x_priority
from kvtools.heat.rules import (
    ARTICLE_B,
    HEADER,
    OVER_8192_TOKENS,
    Arriving,
    Condition,
    HeatRules,
    Op,
    Rule,
    RuleSet,
)
from kvtools.heat.rules_file import rules_yaml
from kvtools.heat.thresholds import Arrived

MODEL = (
    Rule(
        "model-1", (Condition("recent_interval_s", "<=", 0.3), Condition("prompt_tokens", "<=", 512)), "hot"
    ),
    Rule("model-2", (Condition("route", "in", ("chat", "search")),), "hot"),
    Rule("model-3", (Condition("route", "not_in", ("batch",)), Condition("turn", ">", 1)), "hot"),
)
RULES = RuleSet((OVER_8192_TOKENS, ARTICLE_B, *HEADER, *MODEL), "cold")

CASES = [
    (Arriving(), "cold", None),
    (Arriving(prompt_tokens=8193, request_type="hot", route="chat"), "cold", "over-8192-tokens"),
    (Arriving(prompt_tokens=8192, request_type="hot"), "cold", "article-b"),
    (Arriving(prompt_tokens=1000, request_type="hot"), "hot", "header"),
    (Arriving(prompt_tokens=10, request_type="cold", route="chat"), "cold", "header"),
    (Arriving(prompt_tokens=10, request_type="Hot"), "cold", None),
    (Arriving(prompt_tokens=512, recent_interval_s=0.3), "hot", "model-1"),
    (Arriving(prompt_tokens=513, recent_interval_s=0.3), "cold", None),
    (Arriving(recent_interval_s=0.3), "cold", None),
    (Arriving(recent_interval_s=float("nan"), prompt_tokens=1), "cold", None),
    (Arriving(route="search"), "hot", "model-2"),
    (Arriving(route="other", turn=2), "hot", "model-3"),
    (Arriving(route="batch", turn=2), "cold", None),
    (Arriving(route="", turn=2), "cold", None),
    (Arriving(turn=2), "cold", None),
]


@pytest.mark.parametrize(("request_", "label", "name"), CASES, ids=range(len(CASES)))
def test_the_first_rule_that_fits_decides(request_: Arriving, label: str, name: str | None) -> None:
    at_work = HeatRules(RULES)
    for rules in (RULES, at_work):
        rule = rules.fitted(request_)
        assert rules.label(request_) == label
        assert (None if rule is None else rule.name) == name
    fields = {field: getattr(request_, field) for field in request_.__struct_fields__}
    assert at_work.label(fields) == label
    assert at_work.label({field: value for field, value in fields.items() if value is not None}) == label


@pytest.mark.parametrize("wrong", [{"tokens": 3}, {"prompt_tokens": "3"}, {"route": 3}, 7])
def test_a_request_that_is_none_is_told(wrong: dict[str, object]) -> None:
    with pytest.raises(
        UsageError, match=r"^request: .*; give the fields of kvtools\.heat\.rules\.Arriving\.$"
    ):
        HeatRules(RULES).label(wrong)


@pytest.mark.parametrize(
    ("feature", "op", "value"),
    [
        ("tokens", ">", 1.0),
        ("prompt_tokens", "in", ("a",)),
        ("prompt_tokens", ">", ("a",)),
        ("prompt_tokens", ">", float("inf")),
        ("route", "<=", 1.0),
        ("route", "in", 1.0),
        ("route", "in", ()),
        ("route", "in", ("",)),
        ("route", "like", ("a",)),
    ],
)
def test_a_test_that_makes_no_sense_is_refused(feature: str, op: Op, value: float | tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"tokens|route|like"):
        Condition(feature, op, value)


def test_a_rule_reads_as_a_sentence() -> None:
    assert str(MODEL[0]) == "hot if recent_interval_s <= 0.3 and prompt_tokens <= 512"
    assert str(OVER_8192_TOKENS) == "cold if prompt_tokens > 8192 (disk cache)"
    assert str(Rule("a", (Condition("route", "not_in", ("a\nb", "日本")),), "hot")) == (
        "hot if route not in 'a\\nb', 日本"
    )


def test_all_leaves_of_a_tree_take_less_than_20_microseconds(tmp_path: Path) -> None:
    """Eight leaves of a tree of depth 3 behind the fixed rules, none of which fits; in CPU time."""
    many = tuple(
        Rule(
            f"model-{number}",
            (Condition("prompt_tokens", ">", 100), Condition("recent_interval_s", ">", 90 + number)),
            "cold",
        )
        for number in range(8)
    )
    (tmp_path / "rules.yaml").write_text(
        rules_yaml(RuleSet((OVER_8192_TOKENS, ARTICLE_B, *HEADER, *many), "hot"))
    )
    at_work = kvtools.HeatModel.load(tmp_path / "rules.yaml")
    request = Arriving(prompt_tokens=500, recent_interval_s=1.0)
    assert at_work.label(request) == "hot"
    taken = timeit.repeat(lambda: at_work.label(request), timer=time.process_time, number=1000, repeat=20)
    assert min(taken) / 1000 < 20e-6


def test_it_loads_nothing_heavy(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(rules_yaml(RULES))
    for load, heavy in (
        ("from kvtools.heat.rules import HeatRules as H", {"numpy", "pandas", "sklearn"}),
        ("from kvtools import HeatModel as H", {"sklearn", "pandas"}),
    ):
        program = (
            f"import sys; {load}\n"
            f"print(H.load({str(tmp_path / 'rules.yaml')!r}).label({{'route': 'chat'}}))\n"
            f"print(sorted({heavy!r} & {{name.split('.')[0] for name in sys.modules}}))"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert done.stdout == "hot\n[]\n"


def test_a_log_is_labelled_as_its_requests_are_one_by_one() -> None:
    rng, count = np.random.default_rng(3), 400
    columns = HeatColumns.of(
        np.cumsum(rng.integers(0, 900_000, count)),
        rng.choice([-1, 0, 511, 512, 513, 1000, 1001, 9000], count),
        route=rng.integers(-1, 3, count),
        turn=rng.choice([-1, 1, 2], count),
        request_type=rng.choice([-1, -1, 0, 1], count),
        hit_tokens=np.zeros(count, dtype=np.int64),
        route_names=["chat", "batch", "desk"],
    )
    arrived = Arrived.of(columns)
    at_work, labels = HeatRules(RULES), arrived.hot_by(RULES.rules, RULES.default)
    for row in range(count):
        known: dict[str, object] = {
            name: values[row].item() for name, values in arrived.numbers.items() if not np.isnan(values[row])
        }
        known |= {
            name: arrived.spelled[name][places[row]]
            for name, places in arrived.names.items()
            if places[row] >= 0
        }
        whole = {name: int(known[name]) for name in ("prompt_tokens", "turn") if name in known}  # type: ignore[call-overload]
        assert at_work.label(known | whole) == ("hot" if labels[row] else "cold"), known
    assert 50 < labels.sum() < 350


def test_priorities_run_against_each_other() -> None:
    """X-Priority 5 is the most urgent, and so is vLLM's 0; 1-5 becomes 4-0."""
    assert [vllm_priority(priority) for priority in (1, 2, 3, 4, 5)] == [4, 3, 2, 1, 0]
    assert (x_priority("hot"), x_priority("cold"), x_priority("cold", disk_cache=True)) == (5, 2, 1)
    assert "| cold | cold | 2 | 3 |" in VLLM_GUIDE


def test_the_guide_names_no_argument_that_vllm_has_not() -> None:
    missing = (
        "cold_max_num_seqs", "warmup_tokens", "cold_timeout_ms", "stream_priority", "enable_cold_path",
        "separate_batch_queues", "max_paddings", "scheduler_policy", "preemption_mode", "topology_aware",
        "enable_disk_cache", "use_cache",
    )  # fmt: skip
    for name in missing:
        assert name not in VLLM_GUIDE
        assert name.replace("_", "-") not in VLLM_GUIDE
    assert "--scheduling-policy priority" in VLLM_GUIDE
