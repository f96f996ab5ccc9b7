from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from known_log import write_log

from kvtools.errors import InputError, UsageError
from kvtools.flow.analyze import AnalyzeOptions, analyze
from kvtools.flow.check import CheckOptions, baseline, check
from kvtools.gate.baseline import check_alike, read_baseline
from kvtools.gate.budget import Budget, limit_of
from kvtools.gate.judge import judge
from kvtools.gate.measured import Measured
from kvtools.gate.verdict import Check
from kvtools.report.model import Report

BYTES = AnalyzeOptions(tokenizer="bytes")


def budget(**limits: float) -> Budget:
    names = {key.replace("_", "-"): value for key, value in limits.items()}
    return Budget({name: limit_of(name, value, f"--{name}") for name, value in names.items()})


def of_rate(report: Report, hits: int, queried: int) -> Report:
    assert report.cache is not None
    cache = msgspec.structs.replace(
        report.cache, hit_tokens=hits, queried_tokens=queried, hit_rate=hits / queried
    )
    return msgspec.structs.replace(report, cache=cache)


@pytest.fixture
def report(log: Path) -> Report:
    return analyze(log, BYTES)


def one(checks: tuple[Check, ...], name: str) -> Check:
    (found,) = [check for check in checks if check.name == name]
    return found


def test_a_drop_of_exactly_the_limit_passes(report: Report) -> None:
    # In floating point 0.61 - 0.59 is above 0.02.
    assert 0.61 - 0.59 > 0.02
    before, now = of_rate(report, 61, 100), of_rate(report, 59, 100)
    check = one(judge(Measured(now), budget(max_drop=0.02), before), "max-drop")
    assert check.status == "pass"
    assert check.message == "hit rate 59.0 %, baseline 61.0 % (dropped 2.0 points, limit 2)"
    check = one(judge(Measured(of_rate(report, 5899, 10000)), budget(max_drop=0.02), before), "max-drop")
    assert check.status == "fail"
    # 2.01 must not read as 2.0 beside a limit of 2.
    assert "(dropped 2.01 points, limit 2)" in check.message


def test_the_figures_of_the_whole_log(report: Report) -> None:
    wanted = budget(
        min_hit_rate=0.78, max_tokens_lost=0, min_jaccard=0.0, max_variable_share=1.0, min_prefix_jaccard=0.0
    )
    checks = judge(Measured(report), wanted)
    assert [check.name for check in checks] == [
        "min-hit-rate", "max-tokens-lost", "max-variable-share", "min-jaccard", "min-prefix-jaccard", "min-requests",
        "min-coverage",
    ]  # fmt: skip
    assert one(checks, "min-hit-rate").measured == 0.78
    # Consecutive requests share 4 of their 5 blocks each: 4 of 6 distinct ones, or 64 of 96 tokens.
    assert one(checks, "min-prefix-jaccard").measured == pytest.approx(2 / 3)
    assert one(checks, "min-requests").measured == 40
    assert one(checks, "min-coverage").measured == 1.0
    assert {check.status for check in checks} == {"pass"}
    assert all(check.gates for check in checks)


def test_limits_of_routes(report: Report) -> None:
    # desk has the even requests, the first of all among them: 19 * 64 / (20 * 80); shop hits 64 of 80 in each.
    limit = limit_of("min-hit-rate", 0.79, "here", "route")
    checks = judge(
        Measured(report), Budget(routes={"shop": {"min-hit-rate": limit}, "desk": {"min-hit-rate": limit}})
    )
    rates = [(check.scope, check.status, check.measured) for check in checks if check.name == "min-hit-rate"]
    assert rates == [("desk", "fail", 0.76), ("shop", "pass", 0.8)]
    with pytest.raises(InputError, match="no route till in the log"):
        judge(Measured(report), Budget(routes={"till": {"min-hit-rate": limit}}))


def test_what_cannot_be_measured_is_never_a_pass(report: Report) -> None:
    unknown = msgspec.structs.replace(report, variable_share=None, heat=None)
    for limits in (budget(max_variable_share=1.0), budget(max_cold_share=1.0), budget(min_stable_prefix=1)):
        with pytest.raises(InputError, match="cannot be measured"):
            judge(Measured(unknown), limits)
    limit = limit_of("min-hit-rate", 0.0, "here", "class")
    with pytest.raises(InputError, match="no class hot in the log"):
        judge(
            Measured(msgspec.structs.replace(report, classes=[])),
            Budget(classes={"hot": {"min-hit-rate": limit}}),
        )
    with pytest.raises(UsageError, match="no limit is set"):
        judge(Measured(report), budget(min_requests=1))


def test_unlike_baselines_are_an_input_error(log: Path, tmp_path: Path) -> None:
    options = CheckOptions(analysis=BYTES)
    made = baseline(log, options)
    file = tmp_path / "base.json"
    file.write_text(made.to_json())
    assert read_baseline(file) == made
    check_alike(made.report, None, made, "base.json")
    for other in (
        AnalyzeOptions(tokenizer="bytes", block_size=8),
        AnalyzeOptions(tokenizer="bytes", capacity_blocks=100),
        AnalyzeOptions(tokenizer="bytes", rules="trace"),
        AnalyzeOptions(),
    ):
        with pytest.raises(InputError, match="cannot be compared"):
            check(log, CheckOptions(analysis=other, budget=budget(max_drop=1.0), baseline=file))
    for key in ("chat_template", "order"):
        settings = msgspec.structs.replace(made.report.settings, **{key: "another"})
        with pytest.raises(InputError, match="cannot be compared"):
            check_alike(msgspec.structs.replace(made.report, settings=settings), None, made, "base.json")
    with pytest.raises(InputError, match="this is templates with recorded values, the baseline a log"):
        check_alike(made.report, "0" * 64, made, "base.json")


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"kvtools_baseline": 2}', '{"kvtools_baseline": 1}', '"\ud800"']
)
def test_what_is_no_baseline_is_an_input_error(tmp_path: Path, text: str) -> None:
    file = tmp_path / "base.json"
    file.write_bytes(text.encode(errors="surrogatepass"))
    with pytest.raises(InputError, match="baseline"):
        read_baseline(file)


def test_checklists_inform_and_never_fail_the_gate(log: Path) -> None:
    verdict = check(log, CheckOptions(analysis=BYTES, budget=budget(min_hit_rate=0.1)))
    listed = {check.name: check for check in verdict.checks if not check.gates}
    assert listed["a-hit-rate-healthy"].status == "pass"
    assert (listed["a-prompt-length"].measured, listed["a-prompt-length"].status) == (80, "pass")
    # Without a capacity there is no cache to be too small, and a log does not tell how a server warmed up.
    assert listed["a-cache-large-enough"].status == "n/a"
    assert listed["a-warm-up"].status == "n/a"
    assert listed["b-running"].status == "n/a"
    assert {check.limit_from for check in listed.values()} == {"checklist"}
    assert verdict.passed


def test_case_100_a_gap_of_capacity_is_not_put_on_the_prompts(shared: Path, tmp_path: Path) -> None:
    log = _segments(shared, tmp_path)
    for blocks, rate, passed in ((8, 0.0, False), (20, 192 / 432, True)):
        options = AnalyzeOptions(tokenizer="bytes", capacity_blocks=blocks)
        verdict = check(log, CheckOptions(analysis=options, budget=budget(min_hit_rate=0.4, min_requests=6)))
        found = one(verdict.checks, "min-hit-rate")
        assert (found.measured, verdict.passed) == (pytest.approx(rate), passed)
    verdict = check(
        log,
        CheckOptions(
            analysis=AnalyzeOptions(tokenizer="bytes", capacity_blocks=8),
            budget=budget(min_hit_rate=0.4, min_requests=6),
        ),
    )
    message = one(verdict.checks, "min-hit-rate").message
    assert message == (
        "hit rate 0.0 % (limit 40 %); 44.4 % without a limit: the gap is the capacity of 8 blocks, not the prompts"
    )
    assert [cause.rule for cause in verdict.causes][:1] == ["cache-too-small"]


def _segments(shared: Path, folder: Path) -> Path:
    """Write case 100 as a token log: n distinct ids per name, a shorter run is a prefix of a longer one."""
    (case,) = (shared / "cases").glob("100-*")
    names: dict[str, int] = {}
    lines = []
    for text in (case / "input.jsonl").read_text().splitlines():
        request = msgspec.json.decode(text)
        tokens: list[int] = []
        for name, length in request["segments"]:
            start = names.setdefault(name, 10_000 * (len(names) + 1))
            tokens += range(start, start + length)
        lines.append({"id": request["id"], "ts": request["ts"], "prompt_token_ids": tokens})
    return write_log(folder / "tokens.jsonl", lines)
