"""The textfile: each figure worked out by hand, the form by promtool, and the public bug reports it answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from prometheus_tools import needs_prometheus, tool

from kvtools.errors import InputError, UsageError
from kvtools.flow import AnalyzeOptions, ExportOptions, ReplayOptions, analyze, export, replay
from kvtools.monitor.textfile import HELP, textfile

PLAIN: dict[str, Any] = {"tokenizer": "bytes", "chat_template": "plain"}


def written(log: Path, folder: Path, **options: Any) -> dict[str, float]:
    done = export("textfile", log, ExportOptions(target=folder, **options))
    samples = {}
    for line in Path(done.file).read_text().splitlines():
        if not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            samples[name.removeprefix("kvtools_")] = float(value)
    return samples


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Three requests of 40 tokens; the second finds two blocks of 16 of the first, the third nothing."""
    path = tmp_path / "log.jsonl"
    prompts = ("a" * 32 + "b" * 8, "a" * 32 + "c" * 8, "d" * 40)
    rows = [
        {"id": str(n), "ts": n, "prompt": p, "ttft_ms": 100 * (n + 1), "latency_ms": 1000 * (n + 1)}
        for n, p in enumerate(prompts)
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def test_the_figures_of_a_log(log: Path, tmp_path: Path) -> None:
    # Percentiles of 0.1, 0.2, 0.3 s: P90 lies at place 1.8, P99 at 1.98. A step computes 40 tokens in 3 blocks of 16.
    assert written(log, tmp_path / "out", **PLAIN) == pytest.approx(
        {
            'cache_hit_rate{counted_by="analyze"}': 32 / 120,
            'cache_hit_rate{counted_by="simulator"}': 32 / 120,
            "cache_hit_rate_ceiling": 32 / 120,
            'class_cache_hit_rate{class="all"}': 32 / 120,
            'class_request_share{class="all"}': 1,
            'block_utilization{counted_by="simulator"}': 40 / 48,
            'memory_fragmentation{counted_by="simulator",percentile="50"}': 8 / 48,
            'memory_fragmentation{counted_by="simulator",percentile="95"}': 8 / 48,
            'prefill_latency_seconds{percentile="50"}': 0.2,
            'prefill_latency_seconds{percentile="90"}': 0.28,
            'prefill_latency_seconds{percentile="99"}': 0.298,
            'request_latency_seconds{class="all",percentile="50"}': 2,
            'request_latency_seconds{class="all",percentile="90"}': 2.8,
            'request_latency_seconds{class="all",percentile="99"}': 2.98,
            "log_requests": 3,
            "rejected_records": 0,
        },
        abs=1e-3,
    )


def test_reports_give_what_they_hold(log: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "analyze.json", tmp_path / "replay.json"
    first.write_text(analyze(log, AnalyzeOptions(**PLAIN)).to_json())
    second.write_text(replay(log, ReplayOptions(**PLAIN)).to_json())
    whole = written(log, tmp_path / "whole", **PLAIN)
    prefill = {name for name in whole if name.startswith("prefill")}  # of the log alone: no report carries it
    counted = {name for name in whole if "simulator" in name}
    one = export("textfile", [first], ExportOptions(target=tmp_path / "one"))
    assert {left.name for left in one.not_exported} >= {
        "kvtools_prefill_latency_seconds",
        "kvtools_block_utilization",
    }
    assert written(second, tmp_path / "two") == {name: whole[name] for name in counted}
    both = export("textfile", [second, first], ExportOptions(target=tmp_path / "both"))
    lines = Path(both.file).read_text().splitlines()
    assert len([line for line in lines if line[0] != "#"]) == len(whole) - len(prefill)
    with pytest.raises(UsageError, match="a second report of the same kind"):
        export("textfile", [first, first], ExportOptions(target=tmp_path))


@needs_prometheus
def test_promtool_accepts_it_and_labels_stand_on_every_sample(log: Path, tmp_path: Path) -> None:
    labels = {"service": 'shop "A"\\B\n'}
    done = export("textfile", log, ExportOptions(target=tmp_path, labels=labels, **PLAIN))
    text = Path(done.file).read_text()
    assert tool("promtool", "check", "metrics", given=text) == ""
    samples = [line for line in text.splitlines() if line[0] != "#"]
    assert samples
    assert all('{service="shop \\"A\\"\\\\B\\n"' in line for line in samples)


def test_every_metric_is_defined() -> None:
    defined = (Path(__file__).resolve().parents[2] / "docs/metrics.md").read_text()
    for name in HELP:
        assert name in defined


def test_nothing_known_is_an_empty_file() -> None:
    assert textfile(None, None, {}, {}) == "\n"


def test_standard_input_cannot_be_read_twice(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="standard input is gone after once"):
        export("textfile", "-", ExportOptions(target=tmp_path))


@pytest.mark.parametrize("name", ["9a", "__name", "class", "percentile", "a-b", ""])
def test_a_label_that_cannot_be_is_told(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="--label"):
        ExportOptions(target=tmp_path, labels={name: "x"})


def test_blocks_held_are_not_tokens_filled(shared: Path, tmp_path: Path) -> None:
    # Case 108: 17 tokens in two blocks of 16 fill 17/32; the cache keeps them when usage is 0 again, and 16 hit.
    (folder,) = (shared / "cases").glob("108-*")
    rows = [json.loads(line) for line in (folder / "input.jsonl").read_text().splitlines()]
    expected = json.loads((folder / "expected.json").read_text())
    log = tmp_path / "log.jsonl"
    lines = [
        {"id": row["id"], "ts": row["ts"], "prompt_token_ids": list(range(row["segments"][0][1]))}
        for row in rows
    ]
    log.write_text("\n".join(map(json.dumps, lines)))
    found = written(log, tmp_path)
    assert found['block_utilization{counted_by="simulator"}'] == pytest.approx(expected["fill"], abs=1e-4)
    assert found['cache_hit_rate{counted_by="simulator"}'] == sum(expected["hits"]) / 34


def test_hosted_figures_off_their_grid_are_counted(shared: Path, tmp_path: Path) -> None:
    # Case 111: 1,024 is on the grid, 1,000 is not; vLLM's arithmetic is applied to neither.
    (folder,) = (shared / "cases").glob("111-*")
    found = written(folder / "input.jsonl", tmp_path, input_format="chat-jsonl")
    assert found["reported_off_grid_requests"] == 1
    assert found['cache_hit_rate{counted_by="log"}'] == 2024 / 2362
    assert not [name for name in found if "simulator" in name or "analyze" in name]
