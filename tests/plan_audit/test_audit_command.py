"""``kvtools plan audit`` from the command line: forms of the result, exit codes, errors of one sentence."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kvtools.cli import main
from kvtools.plan.flags_installed import is_installed
from kvtools.report import plan_audit

BYTES = ("--tokenizer", "bytes", "--chat-template", "plain", "--flags-from", "table")


Run = Callable[..., str]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command in this process and return its standard output."""

    def audit(*arguments: str | Path, code: int = 0, error: str = "") -> str:
        monkeypatch.setattr(sys, "argv", ["kvtools", "plan", "audit", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        assert ended.value.code == code, err
        assert error in err
        return out

    return audit


def test_findings_do_not_change_the_exit_code(run: Run, heads_log: Path) -> None:
    out = run(
        heads_log, *BYTES, "--serve-args", "vllm serve m --no-enable-prefix-caching --cold-max-num-seqs 8"
    )
    assert out.startswith("2 faults in this configuration for this log: 2 high.\n")
    assert "100 requests · 0.0 % of prompt tokens hit (prefix caching is off)" in out
    assert "HIGH    --cold-max-num-seqs: a flag that vLLM does not have" in out
    assert "7,200 of 10,000 prompt tokens (72.0 %) would hit with it on" in out
    assert max(map(len, out.splitlines())) <= 80


def test_json_has_the_documented_keys(run: Run, heads_log: Path) -> None:
    report = json.loads(run(heads_log, *BYTES, "--serve-args", "vllm serve m --flag", "--format", "json"))
    kinds: dict[str, Any] = {
        "": plan_audit.AuditReport, "audit": plan_audit.Audit, "not_judged": plan_audit.NotAudited,
        "block_sizes": plan_audit.BlockSize, "flags": plan_audit.Flags, "configuration": plan_audit.Configured,
    }  # fmt: skip
    metrics = (Path(__file__).parents[2] / "docs/metrics.md").read_text()
    for name, kind in kinds.items():
        held = report[name] if name else report
        entry = held[0] if isinstance(held, list) else held
        fields = {field.encode_name for field in msgspec.structs.fields(kind)}
        assert set(entry) == fields
        assert all(field in metrics for field in fields)
    assert report["flags"] == {
        "source": "table",
        "vllm": "0.32.0",
        "made": report["flags"]["made"],
        "count": 317,
    }
    assert report["audit"][0]["flag"] == "--flag"


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ((), 2, "give the configuration once"),
        (("--serve-args", "vllm serve m", "--serve-config", "x.yaml"), 2, "give the configuration once"),
        (("--serve-args", "vllm bench"), 2, "starts no vLLM server"),
        (("--serve-config", "missing.yaml"), 3, "missing.yaml: cannot be read"),
        (("--serve-args", "vllm serve m", "--kv-memory", "20GiB"), 2, "give its --model-config"),
        (("--serve-args", "vllm serve m", "--gpu-memory", "lots"), 2, "--gpu-memory lots: not a size"),
        (("--serve-args", "vllm serve m", "--model-config", "none.json"), 3, "none.json: cannot be read"),
    ],
)
def test_wrong_calls(run: Run, heads_log: Path, options: tuple[str, ...], code: int, said: str) -> None:
    run(heads_log, *BYTES, *options, code=code, error=said)


@pytest.mark.parametrize("text", ["- a\n- b\n", "just text\n", "a: [1\n", "{}\n", "1: 2\n"])
def test_a_file_that_holds_no_flags(run: Run, heads_log: Path, tmp_path: Path, text: str) -> None:
    config = tmp_path / "serve.yaml"
    config.write_text(text)
    run(heads_log, *BYTES, "--serve-config", config, code=3, error=str(config))


@pytest.mark.skipif(is_installed(), reason="vLLM is installed here: tests/engine asks it")
def test_an_installed_parser_that_is_not_there(run: Run, heads_log: Path) -> None:
    options = ("--tokenizer", "bytes", "--flags-from", "installed", "--serve-args", "vllm serve m")
    run(heads_log, *options, code=4, error="vLLM is not installed")


def test_a_trace_of_block_ids(run: Run, data: Path) -> None:
    arguments = ("--flags-from", "table", "--format", "json", "--serve-args", "vllm serve m --block-size 32")
    report = json.loads(run(data / "canonical.mooncake.jsonl", *arguments))
    expected = json.loads((data / "canonical.expected.json").read_text())
    assert report["requests"] == 6, expected.keys()
    # Ids cannot be cut anew: the figures are those of the trace's own blocks, and the line's size is not judged.
    assert {one["rule"] for one in report["not_judged"]} >= {"block-size"}
    assert len(report["block_sizes"]) == 1


def test_a_log_of_lengths_alone(run: Run, data: Path) -> None:
    arguments = ("--flags-from", "table", "--serve-args", "vllm serve m")
    run(data / "canonical.azure.csv", *arguments, code=3, error="no request with a prompt")


def test_long_conversations_by_tier(run: Run, tmp_path: Path) -> None:
    """One conversation of three turns: 1,600, 3,200 and 6,400 tokens, each the one before and as much again."""
    log = tmp_path / "turns.jsonl"
    turns = ["x" * 1_600, "x" * 1_600 + "y" * 1_600, "x" * 1_600 + "y" * 1_600 + "z" * 3_200]
    lines = [{"id": f"t{n}", "ts": n, "session_id": "s", "prompt": turn} for n, turn in enumerate(turns, 1)]
    log.write_text("\n".join(map(json.dumps, lines)))
    report = json.loads(run(log, *BYTES, "--serve-args", "vllm serve m", "--format", "json"))
    found = {one["rule"]: one for one in report["audit"]}
    # The first turn computes all 1,600 less what its own repetition does not save: a block is hit by later turns only.
    assert found["sessions-above-2000"]["measured"].startswith("1 request, 50.0 % of their 3,200 tokens hit")
    assert found["sessions-above-6000"]["measured"].startswith("1 request, 50.0 % of their 6,400 tokens hit")
    assert found["sessions-above-6000"]["value"] == 0.5  # 3,200 of the 6,400 that are computed
    assert found["sessions-above-6000"]["severity"] == "info"
