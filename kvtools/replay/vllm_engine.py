"""vLLM itself, offline, in a process of its own.

A real model folder, or random weights made on the spot: a hit does not depend on them. A process of its own
keeps vLLM's environment, its memory and its crashes out of ours (``vllm_worker``).
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, ClassVar

import msgspec
import numpy as np

from kvtools.errors import EngineError, InputError, MissingExtra, UsageError
from kvtools.model import ReplayResult
from kvtools.replay.engine import Needs
from kvtools.replay.journal import Finished
from kvtools.replay.workload import output_lengths

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvtools.replay.engine import Run
    from kvtools.replay.log import ReplayLog

_WORKER = "kvtools.replay.vllm_worker"
_PAGE_BYTES_PER_TOKEN = 2 * 64 * 4  # keys and values of one head of 64 floats: the random model below
_GIB = 1 << 30

_RANDOM_MODEL: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "head_dim": 64,
    "intermediate_size": 64,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
    "num_hidden_layers": 1,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "tie_word_embeddings": True,
    "bos_token_id": None,
    "eos_token_id": None,
}


@dataclass(frozen=True, slots=True)
class VllmEngine:
    """``model``: a model folder; ``None`` makes a one-layer model with random weights for the log's own ids."""

    model: Path | None = None
    name: ClassVar[str] = "vllm"
    needs: ClassVar[Needs] = Needs(tokens=True)

    def replay(self, log: ReplayLog, run: Run) -> ReplayResult:
        """Replay the log; see ``Engine.replay``."""
        if log.tokens is None:
            raise InputError(
                "the log holds block ids, no prompts: vLLM cannot run it; replay with --engine simulator."
            )
        if run.scheduler.arrivals == "log":
            raise UsageError(
                "--arrivals log needs a clock: replay with --engine simulator or --engine server."
            )
        if run.cache.rules != "vllm" or run.cache.outputs == "text":
            raise UsageError(
                "vLLM replays with --rules vllm and --outputs one or lengths: it writes its own answers."
            )
        lengths = output_lengths(log, run.cache)
        with tempfile.TemporaryDirectory(prefix="kvtools-vllm-") as folder:
            job = self._job(Path(folder), log, run, lengths)
            told = _Told()
            _work(job, run, told)
        return _result(log, run, told)

    def _job(self, folder: Path, log: ReplayLog, run: Run, lengths: NDArray[np.int64]) -> Path:
        tokens = log.tokens
        assert tokens is not None  # noqa: S101 - replay() has checked it
        longest = int((log.prompt_tokens + lengths).max(initial=1))
        blocks = run.cache.capacity_blocks or _never_full(log, run, longest)
        model = self.model or _random_model(folder, int(tokens.values.max(initial=0)), longest)
        np.savez(folder / "tokens.npz", values=tokens.values, offsets=tokens.offsets)
        salted = len(np.unique(log.namespace)) > 1
        indices = list(range(len(log)))
        job = {
            "tokens": str(folder / "tokens.npz"),
            "environment": _environment(blocks * run.cache.block_size),
            "settings": _settings(model, run, blocks, longest),
            "groups": [indices] if run.scheduler.arrivals == "closed" else [[index] for index in indices],
            "lengths": lengths.tolist(),
            "priority": log.priority.tolist() if run.scheduler.policy == "priority" else None,
            # Namespaces never share; a salt of their own does the same in the engine and tells it nothing of them.
            "salts": [f"{namespace:016x}" for namespace in log.namespace.tolist()] if salted else None,
        }
        path = folder / "job.json"
        path.write_text(json.dumps(job))
        return path


@dataclass(slots=True)
class _Told:
    """What the worker said besides the finished requests."""

    version: str = ""
    counters: dict[str, int] = field(default_factory=dict)


def _work(job: Path, run: Run, told: _Told) -> None:
    with tempfile.TemporaryFile("w+b") as errors:
        command = [sys.executable, "-m", _WORKER, str(job)]
        worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors)  # noqa: S603
        try:
            assert worker.stdout is not None  # noqa: S101 - a pipe was asked for
            for line in worker.stdout:
                _take(msgspec.json.decode(line), run, told)
            code = worker.wait()
        finally:
            worker.kill()
            worker.wait()
            if worker.stdout is not None:
                worker.stdout.close()
        if code or not told.counters:
            raise EngineError(f"vLLM ended early (exit {code}): {_last_line(errors)}")


def _take(record: dict[str, Any], run: Run, told: _Told) -> None:
    if "index" in record:
        run.journal.note(msgspec.convert(record, Finished))
        run.advance(1)
    elif "version" in record:
        told.version = record["version"]
    elif "counters" in record:
        told.counters = record["counters"]
    elif record["kind"] == "missing":
        raise MissingExtra(
            "vLLM is not installed; pip install 'kvtools[vllm]', or replay with --engine simulator."
        )
    elif record["kind"] == "usage":
        raise UsageError(f"{record['failed']}: give another --block-size.")
    else:
        raise EngineError(f"vLLM failed: {record['failed']}")


def _result(log: ReplayLog, run: Run, told: _Told) -> ReplayResult:
    finished = [run.journal.finished[index] for index in range(len(log))]
    hits = np.array([request.hit_tokens for request in finished], dtype=np.int64)
    notes = []
    if told.counters["hits"] != hits.sum():
        notes.append(
            f"vLLM's counter says {told.counters['hits']:,} hit tokens, its requests {hits.sum():,}."
        )
    return ReplayResult(
        engine=f"vllm {told.version}",
        spec=run.cache,
        start_state="cold",
        queried_tokens=np.array([request.queried_tokens for request in finished], dtype=np.int64),
        hit_tokens=hits,
        refused=np.array([request.refused for request in finished], dtype=np.bool_),
        evictions=None,
        preemptions=told.counters["preemptions"],
        notes=tuple(notes),
    )


def _random_model(folder: Path, largest_id: int, longest: int) -> Path:
    sizes = {"vocab_size": -(-(largest_id + 2) // 64) * 64, "max_position_embeddings": longest + 1}
    (folder / "config.json").write_text(json.dumps(_RANDOM_MODEL | sizes))
    return folder


def _never_full(log: ReplayLog, run: Run, longest: int) -> int:
    """Return a number of blocks in which this log never evicts: every distinct block, and what is held at once."""
    at_once = 1 if run.scheduler.arrivals == "sequential" else min(run.scheduler.max_num_seqs, len(log))
    return len(np.unique(log.keys.values)) + at_once * (longest // run.cache.block_size + 1)


def _environment(cache_tokens: int) -> dict[str, str]:
    """Return what vLLM reads from its environment; what the user has set there wins."""
    return {
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_LOGGING_LEVEL": "ERROR",
        "HF_HUB_OFFLINE": "1",
        # One thread makes a step of a tiny model several times faster than a team of them.
        "OMP_NUM_THREADS": "1",
        "VLLM_CPU_KVCACHE_SPACE": str(1 + cache_tokens * _PAGE_BYTES_PER_TOKEN // _GIB),
    }


def _settings(model: Path, run: Run, blocks: int, longest: int) -> dict[str, Any]:
    scheduler = run.scheduler
    return {
        "model": str(model),
        "load_format": "auto" if any(model.glob("*.safetensors")) else "dummy",
        "skip_tokenizer_init": True,
        "dtype": "float32",
        "enforce_eager": True,
        "disable_log_stats": False,
        "enable_prefix_caching": True,
        "block_size": run.cache.block_size,
        "num_gpu_blocks_override": blocks + 1,  # the null block
        "max_model_len": scheduler.max_model_len or longest + 1,
        "max_num_seqs": scheduler.max_num_seqs,
        "max_num_batched_tokens": scheduler.max_num_batched_tokens,
        "scheduling_policy": scheduler.policy,
        "long_prefill_token_threshold": scheduler.long_prefill_token_threshold,
    }


def _last_line(errors: IO[bytes]) -> str:
    errors.seek(0)
    lines = [line.strip() for line in errors.read().decode(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"
