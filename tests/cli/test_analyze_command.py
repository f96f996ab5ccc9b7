from __future__ import annotations

import gzip
import hashlib
import io
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conftest import Ended, Run

BYTES = ("--tokenizer", "bytes")

TOKENS = {"total", "mean", "std", "p50", "p95", "max"}
SIMILARITY = {
    "jaccard_consecutive",
    "prefix_jaccard_consecutive",
    "nearest_prefix_p50",
    "nearest_prefix_p90",
}
HITS = {"hit_tokens", "hit_rate"}
KEYS: dict[str, set[str]] = {
    "": {
        "schema_version", "kvtools_version", "inputs", "settings", "coverage", "answers", "traffic", "requests", "period",
        "prompt_tokens", "variable_share", "variable_share_requests", "similarity", "routes", "cache",
        "ceiling", "unique_blocks", "cache_needed", "curve", "over_time", "histograms", "prefix_tree", "observed", "demand", "sessions",
        "findings", "clusters", "reachable", "section_order", "verdict", "misses", "cost_basis", "classes", "heat",
        "class_windows", "class_bins",
    },
    "inputs": {"path", "sha256", "requests"},
    "settings": {"tokenizer", "tokenizer_check", "chat_template", "order", "measure_from"},
    "coverage": {
        "read", "rejected", "without_prompt", "duplicates", "not_sent", "failed", "retries", "streamed",
        "truncated_prompts", "with_media", "bad_arguments", "rejected_by_reason", "repaired_lines", "skipped_files",
    },
    "answers": {"name", "supported", "why"},
    "traffic": {
        "requests", "arrivals", "period", "rate_per_s", "interarrival_s", "prompt_tokens", "output_tokens", "reported",
    },
    "period": {"first_us", "last_us", "utc_offset_min"},
    "prompt_tokens": TOKENS,
    "similarity": SIMILARITY,
    "routes": {"route", "requests", "prompt_tokens", "variable_share", "similarity", "cache", "ceiling"},
    "cache": {
        "model", "block_size", "capacity_blocks", "rules", "outputs", "start_state", "queried_tokens",
        "hit_tokens", "hit_rate", "evictions", "refused_requests", "block_bytes",
    },
    "ceiling": HITS,
    "cache_needed": {"share_of_ceiling", "capacity_blocks"},
    "curve": {"capacity_blocks", "hit_tokens", "hit_rate"},
    "over_time": {"from_us", "width_us", "requests", "queried_tokens", "hit_tokens", "hit_rate"},
    "histograms": {"prompt_tokens", "interarrival_s"},
    "prefix_tree": {
        "parent", "first_token", "tokens", "requests", "prompt_tokens", "hit_tokens", "below_prompt_tokens", "route",
    },
}  # fmt: skip
TRAFFIC_KEYS = {
    "interarrival_s": {"mean", "p50", "p95", "max"},
    "prompt_tokens": {"requests", *TOKENS},
    "output_tokens": {"requests", *TOKENS},
    "reported": {
        "requests", "left_out_requests", "prompt_tokens", "cached_tokens", "hit_rate", "hosted_requests",
        "off_grid_requests",
    },
}  # fmt: skip
ROUTE_KEYS = {
    "prompt_tokens": TOKENS,
    "similarity": SIMILARITY,
    "cache": {"queried_tokens", *HITS},
    "ceiling": HITS,
}


def first(value: Any) -> Any:
    return value[0] if isinstance(value, list) else value


def test_json_has_exactly_the_documented_keys(kvtools: Run, log: Path) -> None:
    ended = kvtools("analyze", log, *BYTES, "--format", "json")
    assert (ended.code, ended.err) == (0, "")
    report = json.loads(ended.out)
    assert {name: set(first(report[name] if name else report)) for name in KEYS} == KEYS
    assert {name: set(report["routes"][0][name]) for name in ROUTE_KEYS} == ROUTE_KEYS
    assert ended.out.endswith("}\n")


def test_a_log_without_prompts_has_the_same_keys(kvtools: Run, tmp_path: Path) -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}
    lines = [{"id": f"{n}", "ts": n, "prompt": None, "usage": usage} for n in (1, 3)]
    lengths = tmp_path / "lengths.jsonl"
    lengths.write_text("\n".join(map(json.dumps, lines)))
    ended = kvtools("analyze", lengths, *BYTES, "--format", "json")
    assert (ended.code, ended.err) == (0, "")
    report = json.loads(ended.out)
    assert set(report) == KEYS[""]
    assert {name: set(report["traffic"][name]) for name in TRAFFIC_KEYS} == TRAFFIC_KEYS
    nothing = ("prompt_tokens", "similarity", "cache", "ceiling", "unique_blocks", "period", "observed")
    assert [report[name] for name in nothing] == [None] * len(nothing)
    assert (report["requests"], report["curve"], report["routes"]) == (0, [], [])


def test_the_figures_of_a_small_log(kvtools: Run, log: Path) -> None:
    report = json.loads(kvtools("analyze", log, *BYTES, "--format", "json", "--curve-blocks", "1_0,100").out)
    assert report["schema_version"] == 1
    assert report["inputs"] == [
        {"path": str(log), "sha256": hashlib.sha256(log.read_bytes()).hexdigest(), "requests": 3}
    ]
    assert report["requests"] == 3
    assert report["prompt_tokens"] == {"total": 120, "mean": 40, "std": 0, "p50": 40, "p95": 40, "max": 40}
    assert report["coverage"] == {
        "read": 3, "rejected": 0, "without_prompt": 0, "duplicates": 0, "not_sent": 0,
        "failed": None, "retries": None, "streamed": None,
        "truncated_prompts": 0, "with_media": 0, "bad_arguments": 0,
        "rejected_by_reason": {}, "repaired_lines": {}, "skipped_files": [],
    }  # fmt: skip
    cache = report["cache"]
    assert (cache["block_size"], cache["capacity_blocks"], cache["rules"]) == (16, None, "vllm")
    assert (cache["outputs"], cache["start_state"]) == ("one", "cold")
    assert (cache["queried_tokens"], cache["hit_tokens"], cache["hit_rate"]) == (120, 32, 32 / 120)
    assert report["ceiling"] == {"hit_tokens": 32, "hit_rate": 32 / 120}
    # Two full blocks of each of the three prompts; two of them are the same.
    assert report["unique_blocks"] == 4
    assert [(point["capacity_blocks"], point["hit_tokens"]) for point in report["curve"]] == [
        (10, 32),
        (100, 32),
    ]
    hits = {route["route"]: (route["requests"], route["cache"]["hit_tokens"]) for route in report["routes"]}
    assert hits == {"shop": (2, 32), "desk": (1, 0)}
    assert report["period"] == {"first_us": 1_000_000, "last_us": 3_000_000, "utc_offset_min": 0}


def test_the_digest_is_that_of_the_stored_bytes(kvtools: Run, log: Path) -> None:
    stored = gzip.compress(log.read_bytes())
    Path("log.gz").write_bytes(stored)
    report = json.loads(kvtools("analyze", "log.gz", *BYTES, "--format", "json").out)
    assert report["inputs"][0]["sha256"] == hashlib.sha256(stored).hexdigest()


def figures(ended: Ended) -> str:
    """Return the page without its last line, which repeats the command that was given."""
    assert (ended.code, ended.err) == (0, "")
    page, next_step = ended.out.split("\nNext: ")
    assert next_step.startswith("kvtools analyze ")
    return page


def test_the_short_form_is_analyze_logs(kvtools: Run, log: Path) -> None:
    short = kvtools("analyze", log, *BYTES)
    assert short.out.startswith("26.7 % of prompt tokens hit")  # 32 of 120
    assert (short.code, short.err) == (0, "")
    assert figures(kvtools("analyze", "logs", log, *BYTES)) == figures(short)
    assert figures(kvtools("analyze", *BYTES, log)) == figures(short)


def test_a_subcommand_wins_over_a_folder_of_its_name(kvtools: Run, log: Path) -> None:
    Path("logs").mkdir()
    Path("logs/a.jsonl").write_bytes(log.read_bytes())
    ended = kvtools("analyze", "logs", *BYTES)
    assert ended.code == 2
    assert "PATH" in ended.err
    plain = kvtools("analyze", "./logs", *BYTES)
    assert plain.code == 0
    assert figures(kvtools("analyze", "logs", "logs", *BYTES)) == figures(plain)


def test_standard_input(kvtools: Run, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(log.read_bytes())))
    report = json.loads(kvtools("analyze", "-", *BYTES, "--format", "json").out)
    assert report["inputs"] == [
        {"path": "<stdin>", "sha256": hashlib.sha256(log.read_bytes()).hexdigest(), "requests": 3}
    ]


def test_rejects_are_told_on_stderr_and_listed_in_a_file(kvtools: Run, log: Path) -> None:
    log.write_bytes(b"{broken\n" * 5 + log.read_bytes())
    ended = kvtools("analyze", log, *BYTES, "--rejects", "rejects.jsonl", "--format", "json")
    assert ended.code == 0
    told = ended.err.splitlines()
    assert [line.split(": ")[1] for line in told] == [f"{log}:{line}" for line in (1, 2, 3)]
    assert all(line.startswith("kvtools: ") and line.endswith("; rejected.") for line in told)
    assert json.loads(ended.out)["coverage"]["rejected_by_reason"] == {"bad_json": 5}
    listed = [json.loads(line) for line in Path("rejects.jsonl").read_text().splitlines()]
    assert [reject["source"] for reject in listed] == [f"{log}:{line}" for line in range(1, 6)]
    assert {reject["reason"] for reject in listed} == {"bad_json"}


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_result_in_a_file_is_the_one_on_the_screen(kvtools: Run, log: Path, form: str) -> None:
    screen = kvtools("analyze", log, *BYTES, "--format", form)
    ended = kvtools("analyze", log, *BYTES, "--format", form, "-o", "report")
    assert (ended.code, ended.out, ended.err) == (0, "", "")
    assert Path("report").read_text(encoding="utf-8").split("\nNext: ")[0] == screen.out.split("\nNext: ")[0]
    assert [path.name for path in Path().iterdir()] == ["report"]


def test_an_error_leaves_the_old_report_alone(kvtools: Run, log: Path) -> None:
    Path("report").write_text("old\n")
    log.write_bytes(log.read_bytes() + b"{broken\n")
    ended = kvtools("analyze", log, *BYTES, "--strict", "-o", "report", "--rejects", "rejects")
    assert ended.code == 3
    assert Path("report").read_text() == "old\n"
    assert [path.name for path in Path().iterdir()] == ["report"]


def test_the_log_is_never_written(kvtools: Run, log: Path) -> None:
    before = log.read_bytes()
    Path("link").symlink_to(log)
    for option in ("-o", "--rejects"):
        for target in (log, "link", "../log.jsonl"):
            ended = kvtools("analyze", log, *BYTES, option, target)
            assert ended.code == 2
            assert "would overwrite the input" in ended.err
    assert kvtools("analyze", log, *BYTES, "-o", "same", "--rejects", "./same").code == 2
    assert kvtools("analyze", log, *BYTES, "-o", "/dev/null", "--rejects", "/dev/null").code == 0
    assert Path("/dev/null").is_char_device()
    assert log.read_bytes() == before


def test_route_key(kvtools: Run, log: Path) -> None:
    log.write_bytes(b'{"meta":{"team":"a"},"prompt":"x"}\n{"meta":null,"prompt":"y"}\n')
    report = json.loads(kvtools("analyze", log, *BYTES, "--format", "json", "--route-key", "meta.team").out)
    assert [(route["route"], route["requests"]) for route in report["routes"]] == [("a", 1)]
