"""``kvtools plan schedule``: a log whose schedule is known, the page, the JSON names, and bad input in one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Run

RULES = """\
kvtools_rules: 1
default: hot
rules:
- name: long
  when:
  - {feature: prompt_tokens, op: '>', value: 100}
  label: cold
"""
CLOCK = ("--prefill-tokens-per-s", "1000000000", "--decode-step-ms", "1000")
"""A step takes a second, whatever it computes."""


@pytest.fixture
def burst(tmp_path: Path) -> Path:
    """Four cold requests of 160 tokens and 4 answers at 0 s, and four hot ones of 32 and 1 at 1 s; no shared text."""
    requests = [("c", 160, 4, 0)] * 4 + [("h", 32, 1, 1)] * 4
    lines = [
        {
            "id": f"{kind}{number}",
            "ts": 1000 + at,
            "prompt_token_ids": list(range(1000 * number, 1000 * number + length)),
            "output_tokens": answer,
        }
        for number, (kind, length, answer, at) in enumerate(requests, 1)
    ]
    path = tmp_path / "burst.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "rules.yaml").write_text(RULES)
    return path


def _report(kvtools: Run, path: Path, *options: str) -> dict:
    rules = ("--label-rules", path.with_name("rules.yaml"), *CLOCK)
    done = kvtools("plan", "schedule", path, *rules, "--format", "json", *options)
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)


def test_a_burst_by_hand(kvtools: Run, burst: Path) -> None:
    report = _report(
        kvtools,
        burst,
        "--max-num-seqs",
        "4",
        "--policy",
        "fcfs,hotcold,priority",
        "--limits",
        "hot=1000/2000",
    )
    rows = {(one["policy"], one["class"]): one for one in report["schedule"]}
    # The cold ones take all four seats from 0 s to 4 s; the hot ones run from 4 s to 5 s: they came at 1 s.
    assert rows["fcfs", "hot"]["ttft_ms"] == {"p50": 4000.0, "p90": 4000.0, "p99": 4000.0}
    assert rows["fcfs", "cold"]["ttft_ms"]["p99"] == 1000.0
    assert rows["fcfs", "cold"]["latency_ms"]["p99"] == 4000.0
    # A third of 4 seats is 1: the cold ones run one after the other. At 1 s three seats are free; the running one
    # goes for the fourth hot request, and has made one token. It comes back at 2 s for three more.
    assert rows["hotcold", "hot"]["ttft_ms"]["p99"] == 1000.0
    assert rows["hotcold", "cold"]["interrupted"] == 1
    assert rows["hotcold", "cold"]["latency_ms"]["p99"] == 1000.0 * (1 + 1 + 3 + 3 * 4)
    # All is done at 17 s: 4 x 164 + 4 x 33 tokens.
    assert rows["hotcold", "all"]["throughput_tokens_s"] == pytest.approx(788 / 17)
    assert rows["fcfs", "all"]["throughput_tokens_s"] == pytest.approx(788 / 5)
    assert rows["priority", "hot"]["ttft_ms"] == rows["fcfs", "hot"]["ttft_ms"]
    assert [rows[name, "hot"]["within_limits"] for name in ("fcfs", "hotcold")] == [False, True]
    assert report["verdict"]["policy"] == "hotcold"
    assert report["verdict"]["helps"] is True
    assert report["cold_share"] == 0.5
    assert report["clock"]["origin"] == "as stated"
    assert report["limits"][0] == {"class": "hot", "p50_ms": 1000.0, "p99_ms": 2000.0}
    assert report["sweep"] == report["scenarios"] == report["search"] == []


def test_the_page(kvtools: Run, burst: Path) -> None:
    rules = burst.with_name("rules.yaml")
    done = kvtools("plan", "schedule", burst, "--label-rules", rules, *CLOCK, "--max-num-seqs", "4")
    assert done.code == 0
    # With a third of 4 seats each, hotcold and dynamic serve hot requests alike: the first that is best is named.
    assert done.out.startswith("hotcold takes hot P99 TTFT from 4.0 s to 1.0 s;")
    assert "simulated, not measured: 1,000.0 ms a step" in done.out
    assert "KV memory has no limit here" in done.out
    assert "--sweep cold_share=0:0.4" in done.out.splitlines()[-1]
    assert all(len(line) <= 100 for line in done.out.splitlines()[:-1])


def test_a_log_of_one_class_is_told_so(kvtools: Run, tmp_path: Path) -> None:
    log = tmp_path / "one.csv"
    rows = [f"r{n},{1_700_000_000 + n},64,8" for n in range(80)]
    log.write_text("request_id,timestamp,prompt_tokens,output_tokens\n" + "\n".join(rows) + "\n")
    done = kvtools("plan", "schedule", log, "--scenarios", "--policy", "hotcold")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("no gain: every request is hot, there is nothing to split.")
    assert "the log has no prompts" in done.out
    assert "too few requests of the log make a mix with 30 % cold" in " ".join(done.out.split())


def test_few_cold_requests_are_told_as_the_reason_why_nothing_helps(kvtools: Run, tmp_path: Path) -> None:
    log = tmp_path / "few.csv"
    # 100 requests a second for 10 s; each 50th has 640 prompt tokens. A step takes 0.1 s, and seats are plenty.
    rows = [f"r{n},{1_700_000_000 + n / 100},{640 if n % 50 == 0 else 64},8" for n in range(1000)]
    log.write_text("request_id,timestamp,prompt_tokens,output_tokens\n" + "\n".join(rows) + "\n")
    (tmp_path / "rules.yaml").write_text(RULES)
    clock = ("--prefill-tokens-per-s", "1000000000", "--decode-step-ms", "100")
    done = kvtools(
        "plan", "schedule", log, "--label-rules", tmp_path / "rules.yaml", *clock, "--limits", "hot=20/50"
    )
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("no gain: your cold share is 2.0 %;")


def test_one_policy_is_compared_with_nothing(kvtools: Run, burst: Path) -> None:
    report = _report(kvtools, burst, "--policy", "fcfs")
    assert report["verdict"]["sentence"].startswith("not compared: only fcfs was run")


def test_a_sweep_and_a_search_have_their_names(kvtools: Run, tmp_path: Path) -> None:
    log = tmp_path / "mix.csv"
    rows = [f"r{n},{1_700_000_000 + n / 50},{640 if n % 5 == 0 else 64},8" for n in range(600)]
    log.write_text("request_id,timestamp,prompt_tokens,output_tokens\n" + "\n".join(rows) + "\n")
    (tmp_path / "rules.yaml").write_text(RULES)
    options = ("--sweep", "cold_share=0.1:0.3:0.1", "--search", "3", "--policy", "partitioned", "--seed", "4")
    report = _report(kvtools, log, *options, "--capacity-blocks", "400", "--scenarios")
    points = [(one["policy"], round(one["cold_share"], 2)) for one in report["sweep"]]
    assert points == [(name, share) for share in (0.1, 0.2, 0.3) for name in ("fcfs", "partitioned")]
    assert [one["policy"] for one in report["turning_points"]] == ["fcfs", "partitioned"]
    assert {one["scenario"] for one in report["scenarios"]} == {
        "hot-led chat",
        "batch reports",
        "mixed",
        "extreme",
    }
    (search,) = report["search"]
    assert (search["policy"], search["tries"], search["seed"]) == ("partitioned", 3, 4)
    assert set(search["settings"]) == {"hot_reserve"}
    assert report == _report(kvtools, log, *options, "--capacity-blocks", "400", "--scenarios")


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--policy", "lifo"), 2, "--policy lifo: there is none of that name"),
        (("--sweep", "cold_share=0.5:0.1"), 2, "is not a sweep such as"),
        (("--sweep", "hot_share=0:1"), 2, "is not a sweep such as"),
        (("--limits", "warm=1/2"), 2, "is not a list such as"),
        (("--limits", "hot=200/80"), 2, "--limits hot=200/80: give P50/P99 in ms"),
        (("--gpu", "H100"), 2, "--gpu and --weights go together"),
        (("--gpu", "abacus", "--weights", "16GiB"), 2, "--gpu abacus: not in the table"),
        (("--gpu", "H100", "--weights", "much"), 2, "--weights much: not a size"),
        (("--search", "3", "--policy", "fcfs"), 2, "--search is for a policy with limits"),
        (("--capacity-blocks", "1"), 3, "none of the 8 requests fits into 1 block"),
        (("--label-rules", "nowhere.yaml"), 3, "nowhere.yaml"),
    ],
)
def test_bad_input_is_one_sentence(
    kvtools: Run, burst: Path, options: tuple[str, ...], code: int, said: str
) -> None:
    done = kvtools("plan", "schedule", burst, *options)
    assert done.code == code
    assert said in done.err
    assert "Traceback" not in done.err


def test_a_log_without_a_clock_is_refused(kvtools: Run, tmp_path: Path) -> None:
    log = tmp_path / "still.jsonl"
    log.write_text('{"id":"a","prompt":"abc"}\n{"id":"b","prompt":"abd"}\n')
    done = kvtools("plan", "schedule", log, "--tokenizer", "bytes")
    assert done.code == 3
    assert (
        "plan schedule needs when requests arrived and how long they are: of 2 records read, 0 have"
        in done.err
    )
