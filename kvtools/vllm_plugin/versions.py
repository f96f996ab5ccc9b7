"""Which vLLM the scheduler was tested with, and the seams of it that it relies on: checked before it starts.

vLLM says of ``--scheduler-cls`` that the interface is not public. A version that is not in ``TESTED`` is refused, and
so is a build that has the number of a tested one and other code.
"""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

from kvtools.errors import EngineError, MissingExtra

TESTED = ("0.32.0",)
"""What ``make test-vllm`` and ``make test-oracle`` have passed with; a part after ``+`` names a build."""

_CORE = "vllm.v1.core"
SEAMS = {
    f"{_CORE}.sched.scheduler:Scheduler.schedule": "throttle_prefills",
    f"{_CORE}.sched.scheduler:Scheduler.add_request": "request",
    f"{_CORE}.sched.scheduler:Scheduler.update_from_output": "scheduler_output model_runner_output",
    f"{_CORE}.sched.scheduler:Scheduler.finish_requests": "request_ids finished_status",
    f"{_CORE}.sched.scheduler:Scheduler._preempt_request": "request timestamp drop_stale_output",
    f"{_CORE}.sched.scheduler:Scheduler._request_blocks_can_be_freed": "request",
    f"{_CORE}.sched.scheduler:Scheduler._handle_blocked_waiting_request": "request",
    f"{_CORE}.sched.scheduler:Scheduler._holds_kv_blocks": "request",
    f"{_CORE}.sched.scheduler:Scheduler.pause_state": "",
    f"{_CORE}.sched.async_scheduler:AsyncScheduler.schedule": "throttle_prefills",
    f"{_CORE}.sched.request_queue:RequestQueue.prepend_requests": "requests",
    f"{_CORE}.sched.request_queue:RequestQueue.remove_requests": "requests",
    f"{_CORE}.sched.request_queue:PriorityRequestQueue.peek_request": "",
    f"{_CORE}.sched.request_queue:SchedulingPolicy.PRIORITY": "",
    f"{_CORE}.sched.interface:PauseState.UNPAUSED": "",
    f"{_CORE}.kv_cache_manager:KVCacheManager.prefix_cache_lookup_enabled": "request",
    f"{_CORE}.kv_cache_coordinator:KVCacheCoordinator.find_longest_cache_hit": (
        "block_hashes max_cache_hit_length"
    ),
    f"{_CORE}.kv_cache_coordinator:KVCacheCoordinator.get_num_blocks_to_allocate": (
        "request_id num_tokens new_computed_blocks num_encoder_tokens total_computed_tokens "
        "num_local_computed_tokens num_tokens_main_model apply_admission_cap prefill_end"
    ),
    f"{_CORE}.block_pool:BlockPool.get_num_free_blocks": "",
    "vllm.v1.engine:EngineCoreOutput": "request_id new_token_ids finish_reason stop_reason events trace_headers",
    "vllm.v1.engine:EngineCoreOutputs.outputs": "",
    "vllm.v1.request:RequestStatus.FINISHED_ABORTED": "",
    "vllm.v1.request:RequestStatus.WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR": "",
}
"""``module:name`` and the parameters that are given to it, in any place of its signature."""

HELD = (
    "kv_cache_manager",
    "kv_holding_waiting",
    "max_model_len",
    "max_num_active_reqs",
    "num_waiting_for_streaming_input",
    "policy",
    "requests",
    "requires_kv_delivery",
    "running",
    "vllm_config",
    "waiting",
)
"""Attributes of a started scheduler; ``kv_cache_manager`` has those of ``HELD_BY_MANAGER``."""

HELD_BY_MANAGER = ("coordinator", "block_pool", "watermark_blocks", "empty_kv_cache_blocks")


def require_tested(tested: tuple[str, ...] = TESTED) -> None:
    """Check the version of the installed vLLM and the seams in it.

    Raises:
        EngineError: vLLM is another version, or lacks a seam.
        MissingExtra: vLLM is not installed.
    """
    try:
        version = str(import_module("vllm").__version__)
    except ImportError:
        raise MissingExtra("the hot/cold scheduler runs in vLLM: pip install 'kvtools[vllm]'.") from None
    if version.partition("+")[0] not in tested:
        raise EngineError(
            f"vLLM {version}: the hot/cold scheduler is tested with {', '.join(tested)} only; install that, or start "
            "vLLM without --scheduler-cls."
        )
    for seam, parameters in SEAMS.items():
        require_seam(seam, parameters, version)


def require_seam(seam: str, parameters: str, version: str) -> None:
    """Check that ``module:name`` is there and takes ``parameters``, listed with blanks between.

    Raises:
        EngineError: it is not there, or takes others.
    """
    place, _, name = seam.partition(":")
    try:
        found: Any = import_module(place)
        for part in name.split("."):
            found = getattr(found, part)
        taken = inspect.signature(found).parameters if parameters else {}
    except (ImportError, AttributeError, ValueError, TypeError):
        raise _changed(seam, version) from None
    if set(parameters.split()) - set(taken):
        raise _changed(seam, version)


def require_held(scheduler: Any) -> None:
    """Check that a started scheduler has the attributes that are used of it.

    Raises:
        EngineError: one is missing.
    """
    version = str(import_module("vllm").__version__)
    manager = getattr(scheduler, "kv_cache_manager", None)
    for owner, names in ((scheduler, HELD), (manager, HELD_BY_MANAGER)):
        for name in names:
            if not hasattr(owner, name):
                raise _changed(f"{type(owner).__name__}.{name}", version)


def _changed(seam: str, version: str) -> EngineError:
    return EngineError(
        f"vLLM {version}: {seam} is not what the hot/cold scheduler was tested with; install an unchanged "
        f"{' or '.join(TESTED)}, or start vLLM without --scheduler-cls."
    )
