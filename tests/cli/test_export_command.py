"""``kvtools export`` as users run it: what it writes, what it refuses, and that a report serves like its log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

if TYPE_CHECKING:
    from conftest import Run

KINDS = {
    "prometheus-rules": "kvtools.rules.yaml",
    "alertmanager": "alertmanager.yaml",
    "grafana": "kvtools-dashboard.json",
    "textfile": "kvtools.prom",
}
PLAIN = ("--tokenizer", "bytes", "--chat-template", "plain")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.jsonl"
    prompts = ("a" * 32 + "b" * 8, "a" * 32 + "c" * 8)
    path.write_text(
        "\n".join(json.dumps({"id": str(n), "ts": n, "prompt": p}) for n, p in enumerate(prompts))
    )
    return path


@pytest.fixture
def stored(kvtools: Run, log: Path, tmp_path: Path) -> Path:
    path = tmp_path / "report.json"
    assert kvtools("analyze", "logs", log, *PLAIN, "--format", "json", "-o", path).code == 0
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_each_export_writes_its_file_and_says_what_is_next(
    kvtools: Run, log: Path, tmp_path: Path, kind: str
) -> None:
    ended = kvtools("export", kind, log, *PLAIN, "-o", tmp_path / "new/out")
    file = tmp_path / "new/out" / KINDS[kind]
    assert (ended.code, [path.name for path in file.parent.iterdir()]) == (0, [KINDS[kind]])
    lines = ended.out.splitlines()
    assert lines[0] == f"wrote {file}"
    assert lines[-1].startswith("Next: ")
    assert str(file) in lines[-1]


@pytest.mark.parametrize("kind", ["prometheus-rules", "alertmanager", "grafana"])
def test_a_stored_report_gives_the_same_file(
    kvtools: Run, log: Path, stored: Path, tmp_path: Path, kind: str
) -> None:
    assert kvtools("export", kind, log, *PLAIN, "-o", tmp_path / "a").code == 0
    assert kvtools("export", kind, stored, "-o", tmp_path / "b").code == 0
    assert (tmp_path / "a" / KINDS[kind]).read_bytes() == (tmp_path / "b" / KINDS[kind]).read_bytes()


def test_json_names_the_alerts_and_what_has_none(kvtools: Run, stored: Path, tmp_path: Path) -> None:
    ended = kvtools("export", "prometheus-rules", stored, "-o", tmp_path / "out", "--format", "json")
    said = json.loads(ended.out)
    document = yaml.safe_load((tmp_path / "out/kvtools.rules.yaml").read_text())
    assert said["alerts"] == [rule["alert"] for rule in document["groups"][1]["rules"]]
    assert (said["kind"], said["hit_rate"], said["hit_rate_low"]) == ("prometheus-rules", 0.4, 0.32)
    head = (tmp_path / "out/kvtools.rules.yaml").read_text().partition("groups:")[0]
    for one in said["not_exported"]:
        assert one["why"]
        assert f"Not exported: {one['name']}" in head.replace("\n#  ", "")


def test_options_reach_the_rules(kvtools: Run, stored: Path, tmp_path: Path) -> None:
    ended = kvtools(
        "export", "prometheus-rules", stored, "-o", tmp_path, "--selector", 'cluster="one"', "--by", "cluster,pod",
        "--hot", 'job="hot"', "--cold", 'job="cold"', "--max-num-seqs", "100",
        "--scenario", "live-chat", "--scenario", 'search=job=~"s.*"', "--latency", "ttft",
    )  # fmt: skip
    assert ended.code == 0
    document = yaml.safe_load((tmp_path / "kvtools.rules.yaml").read_text())
    recorded, alerts = ({rule.get("record") or (rule["alert"], rule["labels"].get("scenario")): rule["expr"]
                         for rule in group["rules"]} for group in document["groups"])  # fmt: skip
    assert recorded["kvtools:requests_running:sum"] == (
        'sum by (cluster, pod) (vllm:num_requests_running{cluster="one"})'
    )
    assert alerts["KvtoolsQueueSaturated", None] == 'vllm:num_requests_running{cluster="one"} > 90'
    assert 'vllm:num_preemptions_total{cluster="one",job="hot"}' in alerts["KvtoolsHotInterruptions", None]
    assert alerts["KvtoolsHotInterruptions", None].endswith("> 0.001")
    assert alerts["KvtoolsColdInterruptions", None].endswith("> 0.01")
    # The first edge of vLLM's time to the first token that is not below 200 ms is 250 ms.
    assert (
        'time_to_first_token_seconds_bucket{cluster="one",le="0.25"}' in alerts["KvtoolsP99High", "live chat"]
    )
    assert '{cluster="one",job=~"s.*",le="0.5"}' in alerts["KvtoolsP99High", "search"]


def test_a_log_with_hits_on_an_engine_without_is_told_by_an_alert(
    kvtools: Run, shared: Path, tmp_path: Path
) -> None:
    # Case 018: the prompts reach 4,800 of 6,560 tokens, the server reported none: no matter of prompts.
    (folder,) = (shared / "cases").glob("018-*")
    tokens = tmp_path / "log.jsonl"
    lines = []
    for number, row in enumerate(map(json.loads, (folder / "input.jsonl").read_text().splitlines())):
        (_, shared_tokens), (_, own) = row.pop("segments")
        start = 10_000 * (number + 1)
        lines.append(
            row
            | {"prompt_token_ids": [*range(shared_tokens), *range(start, start + own)], "cached_tokens": 0}
        )
    tokens.write_text("\n".join(map(json.dumps, lines)))
    ended = kvtools("export", "prometheus-rules", tokens, "-o", tmp_path / "out", "--format", "json")
    said = json.loads(ended.out)
    assert "KvtoolsCacheHitsNothing" in said["alerts"]
    document = yaml.safe_load((tmp_path / "out/kvtools.rules.yaml").read_text())
    (rule,) = [one for one in document["groups"][1]["rules"] if one.get("alert") == "KvtoolsCacheHitsNothing"]
    assert f"reach {100 * 4800 / 6560:.1f} %" in rule["annotations"]["description"]
    assert "no matter of prompts" in rule["annotations"]["summary"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["prometheus-rules", "{log}"], "Missing option"),
        (["prometheus-rules", "-o", "{out}"], "Missing argument"),
        (["grafana", "{log}", "-o", "{out}", "--hot", 'job="a"'], "--hot and --cold need each other"),
        (["grafana", "{log}", "-o", "{out}", "--selector", "job=vllm"], "write label matchers"),
        (["grafana", "{log}", "-o", "{out}", "--selector", 'job="a"} or up{'], "write label matchers"),
        (["grafana", "{log}", "-o", "{out}", "--textfile-selector", "a"], "--textfile-selector 'a'"),
        (["grafana", "{log}", "-o", "{out}", "--selector", 'job=~"("'], "no regular expression"),
        (["grafana", "{log}", "-o", "{out}", "--by", "a-b"], "--by 'a-b'"),
        (["grafana", "{log}", "-o", "{out}", "--scenario", "chess"], "one of live-chat, search, summaries"),
        (["grafana", "{log}", "-o", "{out}", "--latency", "ttft"], "says what --scenario limits"),
        (["alertmanager", "{log}", "-o", "{out}", "--webhook", "ftp://x"], "begins with http"),
        (["textfile", "{log}", "-o", "{out}", "--label", "x"], "write NAME=VALUE"),
        (["textfile", "{log}", "-o", "{out}", "--block-size", "0"], "whole number of 1 or more"),
        (["grafana", "{stored}", "-o", "{out}", "--block-size", "32"], "leave out the options on reading a log"),
        (["grafana", "{stored}", "{log}", "-o", "{out}"], "a log or a stored report, not both"),
        (["grafana", "{stored}", "{stored}", "-o", "{out}"], "a second report of the same kind"),
    ],
)  # fmt: skip
def test_wrong_usage_is_one_sentence_and_writes_nothing(
    kvtools: Run, log: Path, stored: Path, tmp_path: Path, arguments: list[str], told: str
) -> None:
    places = {"log": log, "stored": stored, "out": tmp_path / "out"}
    given = [word.format(**places) if word.startswith("{") else word for word in arguments]
    ended = kvtools("export", *given)
    assert ended.code == 2
    assert told in ended.err
    assert ended.err.startswith("kvtools: ")
    assert ended.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_an_input_is_never_overwritten(kvtools: Run, stored: Path, tmp_path: Path) -> None:
    named = tmp_path / "kvtools-dashboard.json"
    stored.rename(named)
    before = named.read_bytes()
    ended = kvtools("export", "grafana", named, "-o", tmp_path)
    assert (ended.code, "would overwrite the input" in ended.err) == (2, True)
    assert named.read_bytes() == before


def test_what_cannot_be_read_or_written_is_told(
    kvtools: Run, log: Path, stored: Path, tmp_path: Path
) -> None:
    assert kvtools("export", "grafana", tmp_path / "none.jsonl", "-o", tmp_path / "out").code == 3
    taken = tmp_path / "file"
    taken.write_text("")
    ended = kvtools("export", "grafana", stored, "-o", taken)
    assert (ended.code, ended.err.startswith(f"kvtools: {taken}: cannot be a folder")) == (3, True)
    broken = tmp_path / "broken.json"
    broken.write_text(stored.read_text()[:200])
    assert kvtools("export", "textfile", broken, "-o", tmp_path / "out").code == 3
    newer = tmp_path / "newer.json"
    newer.write_text(stored.read_text().replace('"schema_version": 1', '"schema_version": 99', 1))
    ended = kvtools("export", "grafana", newer, "-o", tmp_path / "out")
    assert (ended.code, "schema version 99" in ended.err) == (3, True)
    replayed = tmp_path / "replay.json"
    assert kvtools("replay", log, *PLAIN, "--format", "json", "-o", replayed).code == 0
    ended = kvtools("export", "grafana", replayed, "-o", tmp_path / "out")
    assert (ended.code, "needs that of kvtools analyze" in ended.err) == (2, True)
    assert not (tmp_path / "out").exists()
