"""The flags that kvtools ships are vLLM's own, and a command line is taken apart as vLLM's own parser does it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from conftest import kvtools

from kvtools.plan.flags import committed_table
from kvtools.plan.flags_installed import ask_installed
from kvtools.plan.flags_parse import parse_line
from kvtools.plan.serve_args import read_line

CONFIG_HYPHENS = "enable-prefix-caching: false\nmax-model-len: 8192\ncompilation-config: {mode: 3}\n"
CONFIG_UNDERSCORES = "enable_prefix_caching: false\nmax_model_len: 8192\nenforce_eager: true\n"

OTHER = frozenset({"model", "lora_modules"})

LINES = [
    "vllm serve m --port 8000",
    "vllm serve --port 8000 m",
    "vllm serve m n",
    "vllm serve m -- n",
    "vllm serve --model m --port 1",
    "vllm serve m --config hyphens.yaml --max-model-len 4096",
    "vllm serve m --config underscores.yaml",
    "vllm serve m --config=underscores.yaml",
    "vllm serve m --conf underscores.yaml",
    "vllm serve m --max-num 8",
    "vllm serve m --gpu-memory 0.9 --no-enable-prefix",
    "vllm serve m --enable-chunked-prefill True",
    "vllm serve m --enable-chunked-prefill=True",
    "vllm serve m --no_enable_prefix_caching",
    "vllm serve m -tp2",
    "vllm serve m -tp=2",
    "vllm serve m -t 2 -qawq",
    "vllm serve m --max-model-len 32k --max-num-batched-tokens=8K",
    "vllm serve m --max-model-len 1.5K",
    "vllm serve m --max-model-len -1",
    "vllm serve m --max-model-len auto",
    "vllm serve m --max-num-seqs 1k",
    "vllm serve m --max-num-seqs abc --host 0.0.0.0",
    "vllm serve m -cc.mode 3",
    "vllm serve m --compilation-config.nonsense 3",
    "vllm serve m --compilation-config.pass_config.nonsense true",
    "vllm serve m --compilation_config.pass_config.fuse_norm_quant true",
    "vllm serve m --speculative-config {bad",
    "vllm serve m -O3",
    "vllm serve m -O 2 --port 1",
    "vllm serve m --kv-cache-dtype fp16",
    "vllm serve m --kv-cache-dtype fp8 --quantization foo",
    "vllm serve m --cold-max-num-seqs 8",
    "vllm serve m --swap-space 4 --enable-prefix-cache-sharing",
    "vllm serve m --task embed",
    "vllm serve m --served-model-name a b --block-size 64",
    "vllm serve m --block-size None",
    "vllm serve m --kv-offloading-size None",
    "vllm serve m --hf-overrides '{\"a\": 1}' --moe-backend flashinfer-cutlass",
    "vllm serve m --override-generation-config.temperature 0.5",
    "vllm serve m -q",
    "vllm serve m --dtype",
    "vllm serve m --port 8000 --port 8001",
    "vllm serve m --hf-token --port 1",
    "vllm serve m --lora-modules a=b c=d",
    "python -m vllm.entrypoints.openai.api_server --model m --max-num-seqs 8",
    "python -m vllm.entrypoints.openai.api_server --model m --warmup-tokens 8",
]

ORACLE = """
import argparse, contextlib, io, json, os, sys
os.environ["VLLM_LOGGING_LEVEL"] = "ERROR"
lines = json.load(sys.stdin)
out = os.fdopen(os.dup(1), "w"); os.dup2(2, 1)
from vllm.utils.argparse_utils import FlexibleArgumentParser
from vllm.entrypoints.launchers.cli_args import make_arg_parser
serve = FlexibleArgumentParser(prog="vllm")
inner = make_arg_parser(serve.add_subparsers(dest="subparser").add_parser("serve"))
alone = make_arg_parser(FlexibleArgumentParser(prog="api_server"))
answers = []
for program, argv in lines:
    parser, argv = (serve, ["serve", *argv]) if program == "serve" else (alone, argv)
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            held = vars(parser.parse_args(argv))
        plain = {k: v for k, v in held.items() if type(v) in (bool, int, float, str, list, dict)}
        answers.append(plain)
    except (SystemExit, Exception):
        answers.append(None)
json.dump(answers, out, default=str)
"""


def test_the_table_is_the_installed_parsers() -> None:
    installed = ask_installed("serve", ["m", "--cold-max-num-seqs", "8"])
    assert msgspec.structs.replace(committed_table(), made="") == installed.table
    assert installed.refused == "unrecognized arguments: --cold-max-num-seqs 8"


def test_the_audit_says_what_the_installed_parser_says(data: Path) -> None:
    # A connector without its role: the keys are right, only vLLM's own check of the config knows better.
    line = "vllm serve m --kv-transfer-config.kv_connector X"
    report = json.loads(
        kvtools("plan", "audit", data / "canonical.tokens.jsonl", "--serve-args", line, "--format", "json")
    )
    assert report["flags"] == {
        "source": "installed",
        "vllm": committed_table().vllm,
        "made": None,
        "count": 317,
    }
    found = [one for one in report["audit"] if one["severity"] in {"high", "medium"}]
    assert [one["rule"] for one in found] == ["refused"]
    assert "kv_role" in found[0]["measured"] or "kv_transfer_config" in found[0]["measured"]


@pytest.fixture(scope="session")
def answers(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any] | None]]:
    """What vLLM's parser makes of each line, ``None`` where it refuses it, in a folder with both config files."""
    folder = tmp_path_factory.mktemp("flags")
    (folder / "hyphens.yaml").write_text(CONFIG_HYPHENS)
    (folder / "underscores.yaml").write_text(CONFIG_UNDERSCORES)
    read = [read_line(line) for line in LINES]
    asked = json.dumps([(line.program, line.argv) for line in read])
    command = [sys.executable, "-c", ORACLE]
    done = subprocess.run(command, input=asked, capture_output=True, text=True, cwd=folder, check=True)
    return folder, json.loads(done.stdout)


@pytest.mark.parametrize("line", LINES)
def test_a_line_is_taken_apart_as_vllm_does(
    line: str, answers: tuple[Path, list[dict[str, Any] | None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, told = answers
    monkeypatch.chdir(folder)
    parsed = parse_line(read_line(line), committed_table())
    expected = told[LINES.index(line)]
    # What is only said of, the parser takes.
    fatal = {one.kind for one in parsed.faults} - {"twice", "config_ignored", "config_dropped", "deprecated"}
    assert bool(fatal) == (expected is None), parsed.faults
    if expected is None:
        return
    assert parsed.model == (expected.get("model_tag") or expected["model"])
    # Adapters become objects of vLLM's; the model has been looked at.
    compared = {
        dest: one.value for dest, one in parsed.given.items() if dest in expected and dest not in OTHER
    }
    assert compared == {dest: expected[dest] for dest in compared}
    changed = {
        "enable_prefix_caching",
        "max_model_len",
        "max_num_seqs",
        "port",
        "tensor_parallel_size",
        "quantization",
    }
    assert {dest for dest in changed & set(expected) if dest in parsed.given} >= {
        dest
        for dest in changed & set(expected)
        if expected[dest] != {"port": 8000, "tensor_parallel_size": 1}.get(dest)
    }
