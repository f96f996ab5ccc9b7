"""Limits of single classes and routes, and on the share of cold requests, on logs whose figures are worked out.

Two of three requests share 64 of their 80 tokens and have 16 of their own; every third shares nothing. Blocks of 16.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from known_log import two_crowds, write_log

from kvtools.errors import InputError
from kvtools.flow.analyze import AnalyzeOptions
from kvtools.flow.check import CheckOptions, baseline, check
from kvtools.gate.budget import LIMITS, Budget, Limit, Scope, limit_of
from kvtools.gate.verdict import Check, Verdict

TOKENS = AnalyzeOptions(tokenizer="bytes")

HOT, COLD = 79, 41
"""80 requests share a beginning, but the first of them finds nothing in the cache: it is as cold as the other 40."""

# Of the hot: 4 of 5 blocks hit. Shingles of five tokens: 60 lie in the shared 64 tokens, 76 in all 80, so that two
# prompts have 60 of 76 + 76 - 60. Blocks: 4 of 5 + 5 - 4. The 16 own tokens of 80 vary.
OF_HOT = {
    "min-hit-rate": 64 / 80,
    "max-variable-share": 16 / 80,
    "min-jaccard": 60 / 92,
    "min-prefix-jaccard": 4 / 6,
}
OF_COLD = {"min-hit-rate": 0.0, "max-variable-share": 1.0, "min-jaccard": 0.0, "min-prefix-jaccard": 0.0}
# As those of the hot class, but for the first request, which hits nothing.
OF_DESK = OF_HOT | {"min-hit-rate": 79 * 64 / (80 * 80), "min-stable-prefix": 64}
OF_SHOP = OF_COLD | {"min-stable-prefix": 0}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_log(tmp_path_factory.mktemp("mixed") / "log.jsonl", two_crowds())


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_log(tmp_path_factory.mktemp("apart") / "log.jsonl", two_crowds(apart=True))


def judged(log: Path, budget: Budget, before: Path | None = None) -> Verdict:
    return check(log, CheckOptions(analysis=TOKENS, budget=budget, baseline=before))


def gating(verdict: Verdict) -> list[Check]:
    return [one for one in verdict.checks if one.gates and one.limit_from != "default"]


def around(figures: dict[str, float], scope: Scope, *, strict: bool) -> dict[str, Limit]:
    """Return limits a trifle beside the figures: each fails where ``strict``, else each passes."""
    limits = {}
    for name, figure in figures.items():
        trifle = 1 if name == "min-stable-prefix" else 1e-6
        up = strict == name.startswith("min")
        limit = figure + trifle if up else figure - trifle
        if LIMITS[name].unit == "share":
            limits[name] = limit_of(name, min(max(limit, 0.0), 1.0), "here", scope)
        elif limit >= LIMITS[name].least:
            limits[name] = limit_of(name, limit, "here", scope)
    return limits


@pytest.mark.parametrize(("name", "figures"), [("hot", OF_HOT), ("cold", OF_COLD)])
def test_limits_of_a_class(mixed: Path, name: str, figures: dict[str, float]) -> None:
    strict, loose = (Budget(classes={name: around(figures, "class", strict=one)}) for one in (True, False))
    failed, passed = judged(mixed, strict), judged(mixed, loose)
    assert {one.name: one.measured for one in gating(failed)} == pytest.approx(figures)
    assert {one.scope for one in gating(failed)} == {name}
    assert [(one.name, one.status) for one in gating(failed)] == [(key, "fail") for key in figures]
    assert {one.status for one in gating(passed)} == {"pass"}
    assert (failed.exit_code, passed.exit_code) == (1, 0)


@pytest.mark.parametrize(("route", "figures"), [("desk", OF_DESK), ("shop", OF_SHOP)])
def test_limits_of_a_route(apart: Path, route: str, figures: dict[str, float]) -> None:
    strict, loose = (Budget(routes={route: around(figures, "route", strict=one)}) for one in (True, False))
    failed, passed = judged(apart, strict), judged(apart, loose)
    assert {one.name: one.measured for one in gating(failed)} == pytest.approx(figures)
    assert {(one.scope, one.status) for one in gating(failed)} == {(route, "fail")}
    assert {(one.scope, one.status) for one in gating(passed)} == {(route, "pass")}
    assert (failed.exit_code, passed.exit_code) == (1, 0)


def test_the_share_of_cold_requests(mixed: Path) -> None:
    share = COLD / (HOT + COLD)
    for limit, status in ((share + 1e-6, "pass"), (share - 1e-6, "fail")):
        verdict = judged(mixed, Budget({"max-cold-share": limit_of("max-cold-share", limit, "here")}))
        (one,) = gating(verdict)
        assert one.status == status
        assert one.measured == pytest.approx(share)
        assert verdict.exit_code == (status == "fail")
    assert one.message.startswith("cold requests 34.2 % (limit 34.16")


def test_the_drop_of_a_route(apart: Path, tmp_path: Path) -> None:
    """Shop begins as desk does in half of its requests on main; on the branch it shares nothing again."""
    better = two_crowds(apart=True)
    own = [line for line in better if line["tenant"] == "shop"]
    for line in own[::2]:
        line["prompt_token_ids"][:64] = range(1, 65)
    before = tmp_path / "base.json"
    main = write_log(tmp_path / "main.jsonl", better)
    before.write_text(baseline(main, CheckOptions(analysis=TOKENS)).to_json())
    # 20 of 40 requests hit 64 of 80 tokens: 0.4 on main, 0 on the branch. Desk's own rate is the same on both.
    limits = {
        route: {"max-drop": limit_of("max-drop", limit, "here", "route")}
        for route, limit in (("shop", 0.399), ("desk", 0.0))
    }
    found = {one.scope: one for one in gating(judged(apart, Budget(routes=limits), before))}
    assert (found["shop"].status, found["shop"].measured, found["shop"].baseline) == ("fail", 0.4, 0.4)
    assert (found["desk"].status, found["desk"].measured) == ("pass", 0.0)
    assert found["shop"].message == "shop: hit rate 0.0 %, baseline 40.0 % (dropped 40.0 points, limit 39.9)"


def test_a_log_of_one_class_has_no_cold_share_to_judge(tmp_path: Path) -> None:
    alike = [line for line in two_crowds() if line["prompt_token_ids"][0] == 1]
    log = write_log(tmp_path / "log.jsonl", alike)
    with pytest.raises(InputError, match="here: cold requests cannot be measured"):
        judged(log, Budget({"max-cold-share": limit_of("max-cold-share", 1.0, "here")}))
    with pytest.raises(InputError, match="no class cold in the log, for which limits are set; it has all"):
        judged(log, Budget(classes={"cold": {"min-hit-rate": limit_of("min-hit-rate", 0, "here", "class")}}))
