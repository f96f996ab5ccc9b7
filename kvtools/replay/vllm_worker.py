"""The process that runs vLLM for ``vllm_engine``: a job file in, one JSON line per finished request out.

It imports nothing of kvtools: vLLM's CPU build scans every loaded module when it starts and breaks on numba's
(``vllm/triton_utils/dispatcher.py`` takes llvmlite's library wrapper for a namespace).

Run as ``python -m kvtools.replay.vllm_worker JOB.json``. The lines: ``{"version", "max_model_len"}`` once the engine
is up, ``{"index", "queried_tokens", "hit_tokens", "refused"}`` per request, ``{"counters"}`` at the end, or
``{"failed", "kind"}``.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

CPU_BLOCK_TOKENS = 32


class _Failed(Exception):  # noqa: N818 - names what happened
    def __init__(self, kind: str, sentence: str) -> None:
        super().__init__(sentence)
        self.kind = kind


def main() -> None:
    """Run the job named on the command line."""
    # vLLM and its libraries print to standard output; the protocol keeps the real one for itself.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as lines:
        os.dup2(2, 1)

        def say(**record: Any) -> None:
            lines.write(json.dumps(record) + "\n")
            lines.flush()

        try:
            with open(sys.argv[1], encoding="utf-8") as file:  # noqa: PTH123 - nothing but what is needed
                _run(json.load(file), say)
        except _Failed as failure:
            say(failed=str(failure), kind=failure.kind)
        except Exception as error:  # noqa: BLE001 - the parent turns it into one sentence
            say(failed=_first_line(error), kind="engine")


def _run(job: dict[str, Any], say: Any) -> None:
    import numpy as np  # noqa: PLC0415

    for name, value in job["environment"].items():
        os.environ.setdefault(name, value)  # before vLLM is imported, which reads it
    tokens = np.load(job["tokens"])
    values, offsets = tokens["values"], tokens["offsets"]
    llm, version = _started(job["settings"])
    limit = llm.llm_engine.model_config.max_model_len
    say(version=version, max_model_len=limit)
    if not llm.reset_prefix_cache():
        raise _Failed("engine", "vLLM does not empty its prefix cache: the replay would not start cold")
    before = _counters(llm)
    for group in job["groups"]:
        fitting = []
        for index in group:
            prompt_tokens = int(offsets[index + 1] - offsets[index])
            if 0 < prompt_tokens <= limit - job["lengths"][index]:
                fitting.append(index)
            else:
                say(index=index, queried_tokens=0, hit_tokens=0, refused=True)
        prompts = [_prompt(job, index, values[offsets[index] : offsets[index + 1]]) for index in fitting]
        for index, hit_tokens in zip(fitting, _generate(llm, job, fitting, prompts), strict=True):
            queried_tokens = int(offsets[index + 1] - offsets[index])
            say(index=index, queried_tokens=queried_tokens, hit_tokens=hit_tokens, refused=False)
    after = _counters(llm)
    say(counters={name: after[name] - before[name] for name in after})


def _started(settings: dict[str, Any]) -> tuple[Any, str]:
    try:
        import vllm  # noqa: PLC0415 - an extra, and half a minute of imports
        from vllm.platforms import current_platform  # noqa: PLC0415
    except ImportError as error:
        raise _Failed("missing", str(error)) from None
    block_size = settings["block_size"]
    if current_platform.is_cpu() and block_size % CPU_BLOCK_TOKENS:
        raise _Failed("usage", f"vLLM's CPU engine takes blocks of multiples of {CPU_BLOCK_TOKENS} tokens")
    return vllm.LLM(**settings), vllm.__version__


def _prompt(job: dict[str, Any], index: int, ids: Any) -> dict[str, Any]:
    prompt: dict[str, Any] = {"prompt_token_ids": ids.tolist()}
    if job["salts"] is not None:
        prompt["cache_salt"] = job["salts"][index]
    return prompt


def _generate(llm: Any, job: dict[str, Any], indices: list[int], prompts: list[dict[str, Any]]) -> list[int]:
    from vllm import SamplingParams  # noqa: PLC0415 - an extra

    sampling = [
        SamplingParams(max_tokens=job["lengths"][index], ignore_eos=True, temperature=0.0, detokenize=False)
        for index in indices
    ]
    priority = [job["priority"][index] for index in indices] if job["priority"] is not None else None
    outputs = llm.generate(prompts, sampling, use_tqdm=False, priority=priority) if prompts else []
    return [int(output.num_cached_tokens or 0) for output in outputs]


def _counters(llm: Any) -> dict[str, int]:
    values = {metric.name: getattr(metric, "value", 0) for metric in llm.get_metrics()}
    names = {"queries": "prefix_cache_queries", "hits": "prefix_cache_hits", "preemptions": "num_preemptions"}
    return {short: int(values.get(f"vllm:{name}", 0)) for short, name in names.items()}


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


if __name__ == "__main__":
    main()
