"""A page of every kind with the JSON that it is made of, and the same with other text in every field."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from traffic_log import write_traffic

from kvtools.flow import AnalyzeOptions, CacheMemory, ReplayOptions, WarmupOptions, analyze, replay, warmup
from kvtools.flow.check import CheckOptions, check
from kvtools.gate.budget import Budget, Limit
from kvtools.report.compare import Compare, DifferentRequest
from kvtools.report.comparison import compare_reports
from kvtools.report.documents import Document, rendered
from kvtools.report.html import render_comparison_html
from kvtools.report.model import Report
from kvtools.report.replay import ReplayReport

KINDS = ("log", "replay", "warmup", "check", "compare")
FIGURES = {
    "log": {
        "class_scatter", "classes", "curve", "findings", "gaps", "hot_share", "lengths", "misses", "observed",
        "over_time", "prefixes", "tiers",
    },
    "replay": {"engines", "engine_tokens", "engines_over_time", "reasons"},
    "warmup": {"cold_start", "saved"},
    "check": set[str](),
    "compare": {
        "rates", "curves", "routes",
        *(f"{side}-{name}" for side in ("before", "after") for name in ("over_time", "misses", "findings", "lengths")),
    },
}  # fmt: skip
"""The figures of each page of the traffic log."""

_FIXED = {"status", "unit", "level"}
"""Fields that hold one of a few words of ours: no other text is read back into them."""


@dataclass(frozen=True)
class Made:
    """Reports of one log; ``after`` is ``log`` with a higher rate."""

    log: Report
    replay: ReplayReport
    warmup: Document
    check: Document
    after: Report

    def page(self, kind: str, lang: str = "en", command: str | None = None) -> str:
        """Return the page of a kind."""
        if kind == "compare":
            return render_comparison_html(
                self.log, self.after, compare_reports(self.log, self.after), lang=lang
            )
        return rendered(getattr(self, kind), "html", lang=lang, command=command)

    def values(self, kind: str) -> Any:
        """Return the JSON that the page of a kind names its figures by."""
        if kind == "compare":
            found = compare_reports(self.log, self.after)
            sides = {"before": self.log, "after": self.after, "comparison": found}
            return {name: json.loads(side.to_json()) for name, side in sides.items()}
        return json.loads(getattr(self, kind).to_json())

    def poisoned(self, text: str) -> Made:
        """Return the same reports with ``text`` in every field that holds text, and lists of at most two."""
        return Made(**{name: _poisoned(getattr(self, name), text) for name in self.__dataclass_fields__})


def make(folder: Path) -> Made:
    """Analyze, replay, warm up for and check the traffic log."""
    path, config = write_traffic(folder)
    reading = {"tokenizer": "bytes"}
    options = AnalyzeOptions(memory=CacheMemory(kv_memory="4GiB", model_config=config), **reading)
    log = analyze(path, options)
    limits = {
        "min-hit-rate": Limit(0.99, "--min-hit-rate"),
        "min-stable-prefix": Limit(64, "kvtools.toml"),
        "max-variable-share": Limit(0.99, "kvtools.toml"),
    }
    assert log.cache is not None
    rate = (log.cache.hit_rate or 0) + 0.125
    return Made(
        log=log,
        replay=_observed(replay(path, ReplayOptions(capacity_blocks=2_000, **reading))),
        warmup=warmup(path, WarmupOptions(**reading)),
        check=check(path, CheckOptions(analysis=options, budget=Budget(log=limits))),
        after=msgspec.structs.replace(log, cache=msgspec.structs.replace(log.cache, hit_rate=rate)),
    )


def _observed(report: ReplayReport) -> ReplayReport:
    """Return a replay with a second engine that counted less in two requests: no vLLM runs beside a browser."""
    first = report.replays[0]
    less = first.hit_tokens - 48
    second = msgspec.structs.replace(
        first, engine="vllm", hit_tokens=less, hit_rate=less / first.queried_tokens, evictions=None,
        prefill_tokens=first.queried_tokens - less, notes=["counted by vLLM itself"],
    )  # fmt: skip
    compared = Compare(
        predicted="simulator",
        observed="vllm",
        equal_requests=report.requests - 2,
        different_requests=2,
        predicted_hit_tokens=first.hit_tokens,
        observed_hit_tokens=less,
        predicted_hit_rate=first.hit_rate,
        observed_hit_rate=second.hit_rate,
        reasons={"evicted earlier": 1, "not known": 1},
        differences=[
            DifferentRequest(
                id="hot-7", predicted_hit_tokens=320, observed_hit_tokens=288, reason="evicted earlier"
            ),
            DifferentRequest(
                id="hot-9", predicted_hit_tokens=320, observed_hit_tokens=304, reason="not known"
            ),
        ],
    )
    return msgspec.structs.replace(report, replays=[first, second], compare=compared)


def _poisoned(document: Any, text: str) -> Any:
    return msgspec.convert(_with(msgspec.to_builtins(document), text, ""), type=type(document))


def _with(value: Any, text: str, name: str) -> Any:
    if isinstance(value, dict):
        # Names of fields stay; the names that a log gives (reasons, faults) do not.
        given = name in {"rejected_by_reason", "repaired_lines", "reasons"}
        return {text if given else key: _with(each, text, key) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_with(each, text, name) for each in value[:2]]
    return text if isinstance(value, str) and name not in _FIXED else value
