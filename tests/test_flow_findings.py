"""What breaks the prefix, against logs whose faults are known: planted, repaired by their own generator, or by hand."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kvtools.flow import AnalyzeOptions, Watcher, analyze

if TYPE_CHECKING:
    from kvtools.report.model import Report

PLANTED = {
    "tenant-00": ("time", ["time"], 14),
    "tenant-01": ("time", ["time"], 14),
    "tenant-02": ("uuid", ["uuid"], 12),
    "tenant-03": ("fields", ["name", "user_id", "locale"], None),
    "tenant-06": ("permuted_block", ["examples"], None),
}
"""What the generator of the common log does to its tenants, where it costs hits: kind, fields, character."""

REPAIRED_20K = {
    "tenant-00": 0.8050,
    "tenant-01": 0.6415,
    "tenant-02": 0.6431,
    "tenant-03": 0.6573,
    "tenant-06": 0.6237,
}
"""Hit rates of 20,000 requests, seed 7, with one tenant repaired by the generator itself."""


@pytest.fixture(scope="module")
def generator(shared: Path) -> Path:
    return shared / "peers/make_log.py"


def made(generator: Path, target: Path, *options: str, requests: int = 2000) -> Path:
    """Write a log of the generator, seed 7."""
    arguments = ["--n", str(requests), "--seed", "7", "--out", str(target), *options]
    subprocess.run([sys.executable, str(generator), *arguments], check=True)
    return target


@pytest.fixture(scope="module")
def log(generator: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(generator, tmp_path_factory.mktemp("peers") / "log.jsonl")


@pytest.fixture(scope="module")
def report(log: Path) -> Report:
    return analyze(log)


def test_the_ranked_findings_are_the_planted_faults(report: Report) -> None:
    assert report.findings is not None
    ranked = [finding for finding in report.findings if finding.severity != "info"]
    assert {f.route: (f.kind, [field.name for field in f.fields]) for f in ranked} == {
        route: (kind, fields) for route, (kind, fields, _) in PLANTED.items()
    }
    assert len(ranked) == len(PLANTED)
    for finding in ranked:
        character = PLANTED[finding.route or ""][2]
        assert finding.section == "system message"
        assert character is None or finding.position_chars == character
        assert finding.granularity == ("second" if finding.kind == "time" else None)


def test_drifting_line_ends_are_listed_without_advice(report: Report) -> None:
    assert report.findings is not None
    info = [finding for finding in report.findings if finding.severity == "info"]
    assert [(finding.route, finding.kind) for finding in info] == [("tenant-05", "line_ends")]


def test_values_are_masked_unless_asked_for(report: Report, log: Path) -> None:
    assert report.findings is not None
    examples = [example for f in report.findings for field in f.fields for example in field.examples]
    assert all(set(example) <= set("0x-:_ .?,…,") for example in examples)
    shown = analyze(log, AnalyzeOptions(show_text=True)).findings
    assert shown is not None
    time = next(f for f in shown if f.route == "tenant-00")
    assert all(example.startswith("2026-09-2") for example in time.fields[0].examples)


@pytest.mark.parametrize("route", ["tenant-00", "tenant-03"])
def test_a_fix_reaches_what_the_repaired_log_reaches(
    route: str, report: Report, generator: Path, tmp_path: Path
) -> None:
    repaired = made(generator, tmp_path / "repaired.jsonl", "--repair", "t" + route[-2:])
    truth = analyze(repaired, AnalyzeOptions(findings=False)).cache
    finding = next(f for f in report.findings or [] if f.route == route)
    assert truth is not None
    assert truth.hit_rate is not None
    assert finding.hit_rate_if_fixed == pytest.approx(truth.hit_rate, abs=0.005)


def test_twenty_thousand_requests(generator: Path, tmp_path: Path) -> None:
    found = analyze(made(generator, tmp_path / "log.jsonl", requests=20_000))
    ranked = {f.route: f.hit_rate_if_fixed for f in found.findings or [] if f.severity != "info"}
    assert ranked == {route: pytest.approx(rate, abs=0.005) for route, rate in REPAIRED_20K.items()}
    assert found.reachable is not None
    assert found.reachable.hit_rate is not None
    # 89.72 % is the log with every fault repaired.
    assert found.reachable.hit_rate >= 0.8972 - 0.005


def test_the_best_combination_reaches_the_repaired_log(report: Report) -> None:
    assert report.reachable is not None
    assert report.reachable.hit_rate is not None
    # 88.46 % is the log with every fault repaired (../shared/peers/README.md).
    assert report.reachable.hit_rate >= 0.8846 - 0.005
    assert len(report.reachable.fixes) == len(PLANTED)
    rates = [step.hit_rate or 0 for step in report.reachable.fixes]
    assert rates == sorted(rates)


def test_the_best_combination_in_a_small_cache(log: Path) -> None:
    found = analyze(log, AnalyzeOptions(capacity_blocks=2000)).reachable
    assert found is not None
    assert found.hit_rate is not None
    assert found.hit_rate >= 0.8319 - 0.005


def test_findings_do_not_depend_on_the_order_of_the_log(log: Path, tmp_path: Path) -> None:
    """The replay follows the arrival times, so the same lines in another order are the same log."""
    by_time = {json.loads(line)["ts_epoch"]: line for line in log.read_text().splitlines(keepends=True)}
    lines = [by_time[time] for time in sorted(by_time)][:1000]
    forwards, backwards = tmp_path / "forwards.jsonl", tmp_path / "backwards.jsonl"
    forwards.write_text("".join(lines))
    backwards.write_text("".join(reversed(lines)))
    found = analyze(forwards).findings
    assert found
    assert analyze(backwards).findings == found


def test_a_current_time_that_never_varies_is_no_finding(shared: Path) -> None:
    found = analyze(str(shared / "data/tau_bench"))
    assert found.findings is not None
    assert not [f for f in found.findings for field in f.fields if field.kind in {"time", "date"}]


SHOP_FIELDS = re.compile(r"用户\[ID:(\d+)\]在(\S+?)咨询订单\[NO:(\d+)\]")


def shop_repaired_by_hand(target: Path) -> Path:
    """Write the shop assistant's log with its three values at the end, by one regular expression."""
    lines = []
    for line in Path("data/shop-assistant.jsonl").read_text().splitlines():
        record = json.loads(line)
        user, time, order = SHOP_FIELDS.search(record["prompt"]).groups()
        head = SHOP_FIELDS.sub("用户[ID:[user_id]]在[time]咨询订单[NO:[order_id]]", record["prompt"], count=1)
        record["prompt"] = f"{head}\n\n[user_id]: {user}\n[time]: {time}\n[order_id]: {order}"
        lines.append(json.dumps(record) + "\n")
    target.write_text("".join(lines))
    return target


def test_the_shop_assistant_names_its_three_fields(tmp_path: Path) -> None:
    found = analyze("data/shop-assistant.jsonl")
    assert found.findings is not None
    by_route: dict[str | None, set[str]] = {}
    for finding in found.findings:
        if finding.severity != "info":
            by_route.setdefault(finding.route, set()).update(field.name for field in finding.fields)
    three = {"user_id", "time", "order_id"}
    assert by_route == {"order-status": three, "after-sales": three, "product-advice": three}
    truth = analyze(shop_repaired_by_hand(tmp_path / "repaired.jsonl"), AnalyzeOptions(findings=False)).cache
    assert truth is not None
    assert truth.hit_rate is not None
    assert found.reachable is not None
    assert found.reachable.hit_rate == truth.hit_rate >= 0.72


def test_logs_without_text_have_no_findings(tmp_path: Path) -> None:
    log = tmp_path / "tokens.jsonl"
    log.write_text("".join(json.dumps({"prompt_token_ids": [1, 2, 3, n]}) + "\n" for n in range(4)))
    found = analyze(log)
    assert (found.findings, found.clusters, found.reachable) == (None, [], None)
    (answer,) = (answer for answer in found.answers if answer.name == "findings")
    assert (answer.supported, answer.why) == (False, "token ids and block ids are no text")


def test_findings_that_were_not_asked_for_are_no_answer(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(chat("You help.", "go"))
    for asked, why in ((True, ""), (False, "left out: --no-findings")):
        found = analyze(log, AnalyzeOptions(findings=asked))
        (answer,) = (answer for answer in found.answers if answer.name == "findings")
        assert (answer.supported, answer.why) == (asked, why)


def chat(system: str, user: str, **more: object) -> str:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    return json.dumps({"messages": messages, **more}) + "\n"


RULES = " ".join(f"Rule {n} is to answer kindly and in full." for n in range(12))
TASK = " ".join(f"Step {n} is to read the order twice." for n in range(12))


def drifting(*, repaired: bool) -> list[str]:
    """A time by the minute in the system message, an order id in the user message; repaired: as the fix writes it."""
    lines = []
    for n in range(60):
        time, order = f"2026-09-21T14:{n // 12:02}", f"ORD-{70000000 + n * 7919}"
        system, user = f"Now: {time}\n{RULES}", f"Order {order}\n{TASK}"
        if repaired:
            system = f"Now: [time]\n{RULES}\n\n[time]: {time}"
            user = f"Order [order_id]\n{TASK}\n\n[order_id]: {order}"
        lines.append(chat(system, user, id=str(n)))
    return lines


def test_fixes_that_meet_in_one_request_are_made_together(tmp_path: Path) -> None:
    """Both pay: the rules are shared by all, the steps by those of one minute. The oracle is the log repaired by hand."""
    log, repaired = tmp_path / "log.jsonl", tmp_path / "repaired.jsonl"
    log.write_text("".join(drifting(repaired=False)))
    repaired.write_text("".join(drifting(repaired=True)))
    truth = analyze(repaired, AnalyzeOptions(findings=False)).cache
    found = analyze(log)
    assert truth is not None
    assert found.reachable is not None
    assert [len(step.findings) for step in found.reachable.fixes] == [1, 1]
    assert {f.kind for f in found.findings or []} == {"time", "order_id"}
    assert found.reachable.hit_rate == truth.hit_rate


def behind(*, time_moved: bool, order_moved: bool) -> list[str]:
    """A time by the second, the rules, an order id, a task: in one message, each value where it stands or at the end."""
    rows = []
    for n in range(60):
        time, order = f"2026-09-21T14:{n // 60:02}:{n % 60:02}", f"ORD-{70000000 + n * 7919}"
        ends = [f"[time]: {time}"] * time_moved + [f"[order_id]: {order}"] * order_moved
        text = f"Now: {'[time]' if time_moved else time}\n{RULES}\nOrder {'[order_id]' if order_moved else order}\n{TASK}"
        rows.append(chat("\n".join([text, "", *ends]) if ends else text, f"question {n}", id=str(n)))
    return rows


def test_a_fix_that_pays_only_behind_another_is_shown_by_what_it_adds(tmp_path: Path) -> None:
    """The time breaks every prefix, so the order id costs nothing alone. The oracle are the logs repaired by hand."""
    hits = {}
    for name, moved in {"none": (False, False), "time": (True, False), "both": (True, True)}.items():
        log = tmp_path / f"{name}.jsonl"
        log.write_text("".join(behind(time_moved=moved[0], order_moved=moved[1])))
        cache = analyze(log, AnalyzeOptions(findings=False)).cache
        assert cache is not None
        hits[name] = cache.hit_tokens
    found = {f.kind: f for f in analyze(tmp_path / "none.jsonl").findings or []}
    assert set(found) == {"time", "order_id"}
    assert found["order_id"].hit_rate_if_fixed == 0 == hits["none"]
    assert found["order_id"].tokens_lost == hits["both"] - hits["time"] > 0
    assert (found["order_id"].severity, found["order_id"].only_together) == ("high", True)
    assert found["time"].tokens_lost == hits["both"] - hits["none"]
    assert not found["time"].only_together


def test_a_byte_form_is_made_one_in_its_own_texts_only(tmp_path: Path) -> None:
    """Tenant b writes CRLF always: that costs nothing and stays as it is when tenant a's drift is mended."""
    log = tmp_path / "log.jsonl"
    text = {name: f"You help {name}.\n" + RULES.replace(". ", ".\n") for name in "ab"}
    rows = []
    for n in range(40):
        crlf = text["b"].replace("\n", "\r\n")
        drift = text["a"] if n % 2 else text["a"].replace("\n", "\r\n")
        rows += [chat(drift, f"question {n}", tenant="a"), chat(crlf, f"question {n}", tenant="b")]
    log.write_text("".join(rows))
    found = [f for f in analyze(log).findings or [] if f.kind == "line_ends"]
    assert [(f.route, f.requests) for f in found] == [("a", 20)]


def test_money(log: Path) -> None:
    """2,000 requests of 853 s: tokens lost x 0.27 / 1e6, and as many of such stretches as a day has."""
    report = analyze(log, AnalyzeOptions(price_per_mtok=0.27))
    assert report.period is not None
    for finding in report.findings or []:
        days = (report.period.last_us - report.period.first_us) / 86_400e6
        assert finding.tokens_lost is not None
        assert finding.tokens_lost >= 0
        cost = finding.tokens_lost * 0.27 / 1e6
        assert finding.cost_per_day == pytest.approx(cost / days)
        assert finding.cost_per_million_requests == pytest.approx(cost * 1e6 / 2000)
    assert report.cost_basis is not None
    assert "only 14 min" in report.cost_basis


def test_a_log_that_grows_while_it_is_read(tmp_path: Path) -> None:
    """The figures of the first pass stand; the findings, which need the same log again, are left out and that is said."""
    log = tmp_path / "log.jsonl"
    log.write_text("".join(drifting(repaired=False)))
    passes, told = [], []

    def begin(_: int) -> None:
        passes.append(1)
        if len(passes) == 2:
            with log.open("a") as file:
                file.write(drifting(repaired=False)[0])

    report = analyze(log, None, Watcher(begin=begin, warn=told.append))
    assert report.requests == 60
    assert report.findings is None
    assert [line for line in told if "changed while it was read" in line]
