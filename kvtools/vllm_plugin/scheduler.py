"""vLLM's scheduler with a limit on running cold requests, preemption of cold for hot, and timeouts of cold ones.

What it does between two steps is what ``kvtools.plan.schedule_guards`` does with policy ``hotcold``, in that order;
everything else is vLLM's own scheduler, by priority. Ask ``kvtools.vllm_plugin`` for it: that checks vLLM's version.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any

from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.interface import PauseState
from vllm.v1.core.sched.request_queue import SchedulingPolicy
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.engine import EngineCoreOutput, EngineCoreOutputs
from vllm.v1.request import RequestStatus

from kvtools.errors import UsageError
from kvtools.plan.schedule_policies import cold_seats
from kvtools.vllm_plugin.lanes import HotColdQueue
from kvtools.vllm_plugin.settings import KEY, HotColdSettings, read_settings
from kvtools.vllm_plugin.versions import require_held, require_tested

if TYPE_CHECKING:
    from vllm.v1.request import Request

_log = logging.getLogger("vllm.kvtools")  # below vLLM's own logger, so that its handlers write it


class HotColdScheduler(Scheduler):  # type: ignore[misc]
    """For engines without asynchronous scheduling (``--no-async-scheduling``, and always on a CPU).

    ``settings``, ``cold_limit`` (seats of cold requests), ``promoted`` and ``aborted`` (how many cold requests waited
    too long) may be read.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Take what vLLM gives every scheduler.

        Raises:
            EngineError: vLLM is a version or build that was not tested.
            UsageError: vLLM's settings or those of ``HotColdSettings`` do not fit.
        """
        require_tested()
        super().__init__(*args, **kwargs)
        require_held(self)
        _require_settings(self)
        extra = self.vllm_config.additional_config
        self.settings = read_settings(HotColdSettings, extra.get(KEY) if isinstance(extra, dict) else None)
        self.cold_limit = self.settings.cold_limit or cold_seats(self.max_num_active_reqs)
        self.waiting = HotColdQueue(self.settings.hot_below, self._has_seat)
        self.promoted = self.aborted = 0
        self._timers: deque[tuple[float, str]] = deque()
        self._ended: list[Request] = []
        _log.info("hot/cold: at most %d cold requests run at once; %s", self.cold_limit, self.settings)

    def add_request(self, request: Request) -> None:
        """Let a request wait in its lane; a cold one has a time until which it does."""
        known = request.request_id in self.requests
        super().add_request(request)
        if not known and self._is_cold(request) and self.settings.cold_timeout_s:
            self._timers.append((self._now_s() + self.settings.cold_timeout_s, request.request_id))

    def schedule(self, throttle_prefills: bool = False) -> Any:  # noqa: FBT001, FBT002 - vLLM's signature
        """Plan a step: first end or promote who waited too long, then make way for hot requests."""
        if self.pause_state == PauseState.UNPAUSED:
            self._time_out()
            if not throttle_prefills:
                self._make_way()
        return super().schedule(throttle_prefills)

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> Any:
        """Return what vLLM's own does, and the ends of the requests that were aborted: their clients wait for it."""
        outputs = super().update_from_output(scheduler_output, model_runner_output)
        for request in self._ended:
            mine = outputs.setdefault(request.client_index, EngineCoreOutputs(outputs=[]))
            mine.outputs.append(
                EngineCoreOutput(
                    request_id=request.request_id,
                    new_token_ids=[],
                    finish_reason=request.get_finished_reason(),
                    stop_reason="cold request waited too long",
                    events=request.take_events(),
                    trace_headers=request.trace_headers,
                )
            )
        self._ended.clear()
        return outputs

    def _now_s(self) -> float:
        return time.monotonic()

    def _is_cold(self, request: Request) -> bool:
        return bool(request.priority >= self.settings.hot_below)

    def _taken(self, *, cold: bool) -> int:
        """Count the seats of a class: who waits for KV blocks that it already holds has one."""
        seated = (*self.running, *self.kv_holding_waiting) if self.kv_holding_waiting else self.running
        return sum(self._is_cold(request) == cold for request in seated)

    def _has_seat(self, cold: bool) -> bool:  # noqa: FBT001 - one of two classes
        limit = self.cold_limit if cold else self.settings.hot_limit
        return limit is None or self._taken(cold=cold) < limit

    def _time_out(self) -> None:
        """Promote or abort cold requests that have waited too long and never ran."""
        late, now = [], self._now_s()
        while self._timers and self._timers[0][0] <= now:
            request = self.requests.get(self._timers.popleft()[1])
            if request is not None and self._is_cold(request) and _never_ran(request):
                late.append(request)
        if not late:
            return
        if self.settings.on_timeout == "abort":
            self.aborted += len(late)
            self._ended += self.finish_requests(
                [request.request_id for request in late], RequestStatus.FINISHED_ABORTED
            )
            return
        self.promoted += len(late)
        self.waiting.remove_requests(late)
        for request in late:
            request.priority = self.settings.promoted_priority
            self.waiting.add_request(request)

    def _make_way(self) -> None:
        """Preempt running cold requests, the last first, until waiting hot ones have seats and the first has blocks."""
        if not self.waiting.hot or not self._has_seat(cold=False):
            return
        running_cold = [request for request in self.running if self._is_cold(request)]
        if not running_cold:
            return
        # More than could ever have a seat in this step need not be looked at.
        most = len(running_cold) + max(self._free_seats(), 0)
        ready = list(islice((request for request in self.waiting.hot if self._is_ready(request)), most))
        wanted = len(ready)
        if self.settings.hot_limit is not None:
            wanted = min(wanted, self.settings.hot_limit - self._taken(cold=False))
        # The last is the one that vLLM, too, would take for blocks.
        running_cold.sort(key=lambda request: (request.priority, request.arrival_time))
        while running_cold and self._free_seats() < wanted and self._preempted(running_cold[-1]):
            running_cold.pop()
        while running_cold and wanted > 0 and not self._fits(ready[0]) and self._preempted(running_cold[-1]):
            running_cold.pop()

    def _free_seats(self) -> int:
        return int(self.max_num_active_reqs - len(self.running) - self.num_waiting_for_streaming_input)

    def _is_ready(self, request: Request) -> bool:
        """Tell whether a waiting request would run in this step if it had a seat and blocks: no way is made else."""
        if request.status == RequestStatus.WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR:
            return bool(self._handle_blocked_waiting_request(request))
        in_line = request.status in (RequestStatus.WAITING, RequestStatus.PREEMPTED)
        return in_line and (not request.num_stale_output_tokens or request.drop_stale_output)

    def _preempted(self, request: Request) -> bool:
        """Move a running request back to its lane as vLLM does for want of blocks; False if that has to wait."""
        if not self._request_blocks_can_be_freed(request):
            return False
        self.running.remove(request)
        self._preempt_request(request, time.monotonic(), drop_stale_output=self.requires_kv_delivery)
        return True

    def _fits(self, request: Request) -> bool:
        """Tell whether the blocks for all tokens of a waiting request are free, as vLLM's admission asks."""
        manager = self.kv_cache_manager
        blocks, found = manager.empty_kv_cache_blocks.blocks, 0
        if manager.prefix_cache_lookup_enabled(request):
            blocks, found, _ = manager.coordinator.find_longest_cache_hit(
                request.block_hashes, request.num_tokens - 1
            )
        tokens = min(request.num_tokens, self.max_model_len)
        needed = manager.coordinator.get_num_blocks_to_allocate(
            request_id=request.request_id,
            num_tokens=tokens,
            new_computed_blocks=blocks,
            num_encoder_tokens=0,
            total_computed_tokens=found,
            num_local_computed_tokens=found,
            num_tokens_main_model=tokens,
            apply_admission_cap=True,
            prefill_end=max(request.num_prompt_tokens, request.num_tokens - 1),
        )
        spare = manager.watermark_blocks if self.running else 0
        return bool(needed + spare <= manager.block_pool.get_num_free_blocks())


class AsyncHotColdScheduler(HotColdScheduler, AsyncScheduler):  # type: ignore[misc]
    """For engines with asynchronous scheduling, vLLM's default on a GPU; it runs without, too."""


def _never_ran(request: Request) -> bool:
    statuses = (RequestStatus.WAITING, RequestStatus.WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR)
    return request.status in statuses and not request.num_preemptions and not request.num_computed_tokens


def _require_settings(scheduler: HotColdScheduler) -> None:
    """Raise UsageError where vLLM's own settings do not go with hot and cold."""
    config = scheduler.vllm_config
    if scheduler.policy != SchedulingPolicy.PRIORITY:
        raise UsageError(
            "the hot/cold scheduler parts requests by priority: add --scheduling-policy priority."
        )
    if config.scheduler_config.async_scheduling and not isinstance(scheduler, AsyncScheduler):
        raise UsageError(
            "asynchronous scheduling is on: take --scheduler-cls kvtools.vllm_plugin.AsyncHotColdScheduler, or add "
            "--no-async-scheduling."
        )
    for name, flag in (
        ("kv_transfer_config", "a KV connector"),
        ("ec_transfer_config", "an encoder connector"),
        ("lora_config", "LoRA"),
    ):
        if getattr(config, name) is not None:
            raise UsageError(
                f"the hot/cold scheduler is not tested with {flag}: start vLLM without one of the two."
            )
