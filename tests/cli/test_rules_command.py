"""``kvtools rules`` and ``kvtools label``: from a log to rules, and from rules to labels."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from kvtools.heat.rules import HEADER, OVER_8192_TOKENS, Arriving, Condition, HeatRules, Rule, RuleSet
from kvtools.heat.rules_file import read_rules, rules_yaml
from kvtools.report.heat_forecast import ForecastFigures
from kvtools.report.rules import NotInNginx, RulesReport
from kvtools.samples.mixed_traffic import mixed_requests, mixed_traffic

if TYPE_CHECKING:
    from conftest import Run

RULES = RuleSet(
    (
        OVER_8192_TOKENS,
        *HEADER,
        Rule(
            "model-1", (Condition("recent_interval_s", ">", 2), Condition("prompt_tokens", ">", 100)), "cold"
        ),
        Rule("model-2", (Condition("priority", "<=", -1),), "hot"),
        Rule("model-3", (Condition("route", "not_in", ("chat",)),), "cold"),
    ),
    "hot",
)

# Mean gap of the last 8 arrivals of the route, the request's own among them: chat at 0, 1, … 8, then at 39.
CHAT = [
    *[(second, "chat", 50, None) for second in range(8)],
    (8, "chat", 9000, None),
    (39, "chat", 101, None),  # gaps of 3, 4, … 8, 39: (6 * 1 + 31) / 7 = 5.3 s
    (40, "chat", 50, -2),
    (41, "desk", 50, -1),
    (42, "desk", 50, 0),
    (43, None, 50, None),
]
EXPECTED = [*[("hot", None)] * 8, ("cold", "over-8192-tokens"), ("cold", "model-1"), ("hot", "model-2")]
EXPECTED += [("hot", "model-2"), ("cold", "model-3"), ("hot", None)]


@pytest.fixture
def lengths(tmp_path: Path) -> Path:
    lines = ["request_id,timestamp,route,prompt_tokens,output_tokens,priority"]
    for number, (second, route, tokens, priority) in enumerate(CHAT):
        lines.append(
            f"r{number},{1_784_073_600 + second},{route or ''},{tokens},5,{'' if priority is None else priority}"
        )
    path = tmp_path / "lengths.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def rules_file(tmp_path: Path) -> Path:
    path = tmp_path / "rules.yaml"
    path.write_text(rules_yaml(RULES))
    return path


def test_each_request_gets_the_label_of_the_first_rule_that_fits(
    kvtools: Run, lengths: Path, rules_file: Path, tmp_path: Path
) -> None:
    ended = kvtools("label", lengths, "--rules", rules_file, "-o", tmp_path / "out.jsonl")
    assert (ended.code, ended.out) == (0, "")
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows] == [f"r{number}" for number in range(len(CHAT))]
    assert [(row["class"], row["rule"]) for row in rows] == EXPECTED
    assert f"labelled 14 requests in {tmp_path / 'out.jsonl'}: 11 hot, 3 cold\n" in ended.err
    assert "  model-2 (hot): 2\n" in ended.err
    assert "  no rule fits (hot): 9\n" in ended.err
    assert ended.err.endswith("  not known of any request, so that rules on it fit none: request_type\n")


def test_a_service_that_is_told_the_same_labels_the_same(rules_file: Path) -> None:
    """The gap is worked out by hand; a request that is the first of its route has none."""
    rules = HeatRules.load(rules_file)
    seconds = {"chat": [0.0], "desk": [0.0]}
    for (second, route, tokens, priority), (label, name) in zip(CHAT, EXPECTED, strict=True):
        gap = None
        if route is not None:
            last = seconds.setdefault(route, [])
            last.append(float(second))
            recent = last[1:][-8:]
            gap = (recent[-1] - recent[0]) / (len(recent) - 1) if len(recent) > 1 else None
        request = Arriving(route=route, prompt_tokens=tokens, recent_interval_s=gap, priority=priority)
        fitted = rules.fitted(request)
        assert (rules.label(request), None if fitted is None else fitted.name) == (label, name)


def test_parquet_holds_the_same(kvtools: Run, lengths: Path, rules_file: Path, tmp_path: Path) -> None:
    assert kvtools("label", lengths, "--rules", rules_file, "-o", tmp_path / "out.parquet").code == 0
    table = pq.read_table(tmp_path / "out.parquet").to_pydict()
    assert list(table) == ["id", "class", "rule"]
    assert list(zip(table["class"], table["rule"], strict=True)) == EXPECTED


def test_what_was_seen_before_is_known_of_a_prompt(kvtools: Run, tmp_path: Path) -> None:
    """One byte a token, blocks of 16: every second request repeats 32 of the 40 tokens of the one before."""
    lines = [
        {"id": str(n), "ts": n, "prompt": f"{n // 2:02d}" * 16 + f"{n:08d}", "session_id": f"s{n // 2}"}
        for n in range(10)
    ]
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    rules = RuleSet(
        (
            Rule("seen", (Condition("known_prefix_share", ">", 0.79), Condition("known_prefix_share", "<=", 0.8)), "hot"),
            Rule("turn", (Condition("turn", "<=", 1),), "cold"),
        ),
        "hot",
    )  # fmt: skip
    (tmp_path / "rules.yaml").write_text(rules_yaml(rules))
    out = tmp_path / "out.jsonl"
    ended = kvtools("label", log, "--tokenizer", "bytes", "--rules", tmp_path / "rules.yaml", "-o", out)
    assert ended.code == 0, ended.err
    assert [json.loads(line)["rule"] for line in out.read_text().splitlines()] == ["turn", "seen"] * 5


def test_what_the_sender_says_of_a_request_is_followed(kvtools: Run, tmp_path: Path) -> None:
    """The header counts before the model's rules, and behind the length; a name of one's own may have a rule too."""
    rules = RuleSet(
        (OVER_8192_TOKENS, *HEADER, Rule("own", (Condition("request_type", "in", ("batch", "eval")),), "cold"),
         Rule("urgent", (Condition("priority", "<=", 0),), "hot")),
        "cold",
    )  # fmt: skip
    (tmp_path / "rules.yaml").write_text(rules_yaml(rules))
    said = [
        ("hot", 50, "", "hot", "header"),
        ("cold", 50, "0", "cold", "header"),
        ("hot", 9000, "", "cold", "over-8192-tokens"),
        ("batch", 50, "0", "cold", "own"),
        ("Hot", 50, "", "cold", None),  # letter for letter, as in nginx
        ("", 50, "-1", "hot", "urgent"),
        ("", 50, "1", "cold", None),
    ]
    lines = [f"{n},{tokens},1,{kind},{priority}" for n, (kind, tokens, priority, *_) in enumerate(said)]
    log, out = tmp_path / "log.csv", tmp_path / "out.jsonl"
    log.write_text("\n".join(["timestamp,prompt_tokens,output_tokens,X-Request-Type,priority", *lines, ""]))
    ended = kvtools("label", log, "--rules", tmp_path / "rules.yaml", "-o", out)
    assert ended.code == 0, ended.err
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(row["class"], row["rule"]) for row in rows] == [tuple(one[3:]) for one in said]
    assert "not known of any request" not in ended.err


def test_rules_are_learnt_written_and_followed(kvtools: Run, tmp_path: Path) -> None:
    log, folder = tmp_path / "mixed.csv", tmp_path / "out"
    log.write_bytes(b"".join(mixed_traffic(3000)))
    ended = kvtools("rules", log, "-o", folder, "--format", "json", "--route-header", "X-Route")
    assert ended.code == 0, ended.err
    report = json.loads(ended.out)
    assert report["requests"] == 3000
    assert report["n_classes"] == 2
    assert report["files"] == [
        str(folder / name) for name in ("rules.yaml", "nginx.conf", "vllm-priority.md")
    ]
    assert sorted(path.name for path in folder.iterdir()) == ["nginx.conf", "rules.yaml", "vllm-priority.md"]
    assert report["not_in_nginx"][0]["name"] == "over-8192-tokens"
    assert report["forecast"]["beats_baseline"] is None
    assert report["forecast"]["reason"].startswith("cannot know: the log spans 0.")
    written = read_rules(folder / "rules.yaml")
    assert written.rules[:3] == (OVER_8192_TOKENS, *HEADER)
    assert [rule["name"] for rule in report["rules"]] == [rule.name for rule in written.rules]

    out = tmp_path / "labels.jsonl"
    assert kvtools("label", log, "--rules", folder / "rules.yaml", "-o", out).code == 0
    labels = [json.loads(line)["class"] for line in out.read_text().splitlines()]
    truth = ["cold" if one.cold else "hot" for one in mixed_requests(3000)]
    # Cold routes differ by their intervals: rules on arrival miss next to nothing but the first of a burst.
    right = sum(label == true for label, true in zip(labels, truth, strict=True))
    assert right / 3000 > 0.95


def test_rules_on_a_page(kvtools: Run, lengths: Path, tmp_path: Path) -> None:
    ended = kvtools("rules", lengths, "-o", tmp_path / "out", "--class-rules", "article-b")
    assert ended.code == 0, ended.err
    lines = ended.out.splitlines()
    assert lines[0] == "Rules from 14 requests:"
    assert lines[1] == " 1  cold if prompt_tokens > 8192   over-8192-tokens, decides 1, moves 1"
    assert lines[2] == " 2  cold if prompt_tokens > 1000   article-b, decides 0, moves 0"
    assert lines[5] == "    hot otherwise"
    assert "nginx.conf follows 2 of 4 rules." in lines
    assert lines[-2] == f"wrote {tmp_path / 'out' / 'nginx.conf'}"
    assert any(line.startswith("Next cold burst: cannot know: the log spans 0.0 h") for line in lines)


def test_a_planted_burst_is_foretold_on_the_page(kvtools: Run, tmp_path: Path) -> None:
    """One short prompt a minute for 30 hours, and at 20 past seven hours out of ten a minute of prompts over 8,192."""
    kept = [hour for hour in range(30) if hour % 10 not in (2, 5, 6)]
    arrivals = [(60.0 * minute, 300) for minute in range(30 * 60 + 1)]
    arrivals += [(3600.0 * hour + 1200 + 3 * place, 9000) for hour in kept for place in range(20)]
    lines = [f"r{n},{1_784_073_600 + at:.3f},{tokens},5" for n, (at, tokens) in enumerate(sorted(arrivals))]
    log = tmp_path / "log.csv"
    log.write_text("\n".join(["request_id,timestamp,prompt_tokens,output_tokens", *lines, ""]))
    ended = kvtools("rules", log, "-o", tmp_path / "out")
    assert ended.code == 0, ended.err
    (line,) = [line for line in ended.out.splitlines() if line.startswith("Next cold burst: ")]
    # 30 hours have 4 windows each in minute 20, and 21 of them burst: (84 + 4 * 84 / 7200) / (120 + 4) = 67.8 %.
    assert line.startswith(
        "Next cold burst: Thu 16 Jul 2026 06:20:00 UTC to Thu 16 Jul 2026 06:21:00 UTC, 67.8 % in each 15 s; "
        "by time of the hour, "
    )


def test_wrong_calls_are_told_in_a_sentence(
    kvtools: Run, lengths: Path, rules_file: Path, tmp_path: Path
) -> None:
    given = ("rules", lengths, "-o", tmp_path / "out")
    assert kvtools(*given, "--route-header", "a b").code == 2
    assert kvtools(*given, "--route-header", "X-A", "--route-path").code == 2
    ended = kvtools("rules", lengths, "-o", lengths)
    assert (ended.code, ended.err) == (
        3,
        f"kvtools: {lengths}: cannot be a folder (File exists); choose another place.\n",
    )
    ended = kvtools("label", lengths, "--rules", rules_file, "-o", tmp_path / "out.csv")
    assert ended.code == 2
    assert "name a file that ends in .jsonl or .parquet" in ended.err
    assert kvtools("label", lengths, "--rules", rules_file, "-o", rules_file).code == 2
    rules_file.write_text("kvtools_rules: 1\n")
    ended = kvtools("label", lengths, "--rules", rules_file, "-o", tmp_path / "out.jsonl")
    assert ended.code == 3
    assert f"{rules_file}:1: Object missing required field `default`" in ended.err
    assert not (tmp_path / "out.jsonl").exists()


def test_every_json_name_is_defined() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/metrics.md").read_text()
    page = page[page.index("## Rules and the next burst") :]
    for part in (RulesReport, NotInNginx, ForecastFigures):
        for name in part.__struct_fields__:
            assert re.search(rf"[`.]{name}\b", page), f"{part.__name__}.{name}"
