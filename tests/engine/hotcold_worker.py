"""Run by ``test_hotcold.py`` in a process of its own: one real engine after another on the CPU, in virtual time.

    python hotcold_worker.py JOB.json RESULT.json

A job has ``model`` (a folder), ``settings`` of every engine, and ``engines``: their own ``settings``, ``clock``
(``step_us``, ``token_ns``) and ``requests`` (``id``, ``arrival_us``, ``priority``, ``prompt``, ``output``). A request
comes when its time has come and the step before has ended; a step takes the time that the clock says, whatever this
machine took. It imports nothing of kvtools: vLLM loads the scheduler by its name, as it does when it serves.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

COLD = 3


def main() -> None:
    os.environ |= {
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    job = json.loads(Path(sys.argv[1]).read_text())
    results = {}
    for name, engine in job["engines"].items():
        try:
            results[name] = _run(job["model"], job["settings"] | engine["settings"], engine)
        except Exception as error:  # noqa: BLE001 - what it says is judged by the test
            results[name] = {"refused": f"{type(error).__name__}: {error}"}
    results["another version"] = {"refused": _under_another_version()}
    Path(sys.argv[2]).write_text(json.dumps(results))


def _run(model: str, settings: dict[str, Any], engine: dict[str, Any]) -> dict[str, Any]:
    from vllm import LLM, SamplingParams
    from vllm.distributed import cleanup_dist_env_and_memory

    llm = LLM(
        model=model,
        load_format="dummy",
        skip_tokenizer_init=True,
        dtype="float32",
        enforce_eager=True,
        **settings,
    )
    running, clock = llm.llm_engine, engine["clock"]
    scheduler = running.engine_core.engine_core.scheduler
    seen = _watched(scheduler)
    waiting = list(reversed(engine["requests"]))
    result: dict[str, Any] = {"finish_order": [], "tokens": {}, "reasons": {}, "ended_us": {}}
    now = 0
    while waiting or running.has_unfinished_requests():
        if not running.has_unfinished_requests():
            now = max(now, waiting[-1]["arrival_us"])
        while waiting and waiting[-1]["arrival_us"] <= now:
            request = waiting.pop()
            sampling = SamplingParams(
                max_tokens=request["output"], ignore_eos=True, detokenize=False, temperature=0
            )
            seen["now_us"] = request["arrival_us"]
            running.add_request(
                request["id"],
                {"prompt_token_ids": request["prompt"]},
                sampling,
                arrival_time=request["arrival_us"] / 1e6,
                priority=request["priority"],
            )
        seen["now_us"] = now
        outputs = running.step()
        tokens = seen["tokens"]
        now += clock["step_us"] + tokens * clock["token_ns"] // 1000
        for output in outputs:
            if output.finished:
                (answer,) = output.outputs
                result["finish_order"].append(output.request_id)
                result["tokens"][output.request_id] = list(answer.token_ids)
                result["reasons"][output.request_id] = [answer.finish_reason, answer.stop_reason]
                result["ended_us"][output.request_id] = now
    result |= {name: seen[name] for name in ("cold_by_step", "hot_by_step", "promoted", "preempted")}
    result["class"] = [kind.__name__ for kind in type(scheduler).__mro__[:3]]
    result["left"] = len(scheduler.requests)
    del llm, running, scheduler
    cleanup_dist_env_and_memory()
    return result


def _watched(scheduler: Any) -> dict[str, Any]:
    """Count what runs after each step that the engine plans, and give it the virtual time."""
    seen: dict[str, Any] = {"now_us": 0, "tokens": 0, "cold_by_step": [], "hot_by_step": []}
    seen |= {"promoted": [], "preempted": []}
    planned_by, preempted_by, first = scheduler.schedule, scheduler._preempt_request, {}

    def schedule(*arguments: Any) -> Any:
        output = planned_by(*arguments)
        seen["tokens"] = output.total_num_scheduled_tokens
        cold = sum(request.priority >= COLD for request in scheduler.running)
        seen["cold_by_step"].append(cold)
        seen["hot_by_step"].append(len(scheduler.running) - cold)
        for name, request in scheduler.requests.items():
            if request.priority != first.setdefault(name, request.priority):
                seen["promoted"].append([_asked(name), request.priority, seen["now_us"]])
                first[name] = request.priority
        return output

    def preempt(request: Any, *arguments: Any, **named: Any) -> Any:
        seen["preempted"].append(_asked(request.request_id))
        return preempted_by(request, *arguments, **named)

    scheduler.schedule, scheduler._preempt_request = schedule, preempt
    scheduler._now_s = lambda: seen["now_us"] / 1e6
    return seen


def _asked(name: str) -> str:
    """Return the id that was asked for: vLLM appends one of its own."""
    return name.rpartition("-")[0]


def _under_another_version() -> str:
    import vllm
    from vllm.config import SchedulerConfig

    vllm.__version__ = "0.33.0"
    config = SchedulerConfig(
        max_model_len=64, is_encoder_decoder=False, scheduler_cls="kvtools.vllm_plugin.HotColdScheduler"
    )
    try:
        return f"not refused: {config.get_scheduler_cls()}"
    except Exception as error:  # noqa: BLE001 - what it says is judged by the test
        return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    main()
