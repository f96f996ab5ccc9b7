"""Cases of ``shared/cases`` whose right answer is what the engine's own counters say."""

from __future__ import annotations

import json
from pathlib import Path

from shared_case import Case

from kvtools.monitor.agreement import Measured, Predicted, agreement
from kvtools.report.metrics_verdict import metrics_verdict


def test_a_log_with_reuse_and_an_engine_without_is_no_prompt_problem(shared: Path) -> None:
    case = Case.load(shared / "cases", "018")
    hits = case.hits()
    assert hits == case.expected["potential"]
    queried = sum(len(prompt) for prompt in case.prompts())
    counters = Measured(
        queried=queried,
        hit=case.expected["observed"],
        external_hit=0,
        preemptions=0,
        prompt_tokens=queried,
        finished=len(hits),
        engines=1,
        resets_s=(),
        dips=(),
        stopped=None,
        stopped_engines=0,
        caching=True,
    )
    found = agreement(counters, Predicted(queried, sum(hits), len(hits), None, None))
    assert found.kind == "engine_side_zero"
    said = metrics_verdict(found.kind, found.also, found.evidence)
    assert "not a prompt problem" in said.sentence
    assert "73.2 %" in said.evidence[0]
    assert not any(word in json.dumps(said.advice) for word in ("normalize", "rewrite"))
