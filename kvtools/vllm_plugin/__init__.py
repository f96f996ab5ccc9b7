"""Hot before cold on a real vLLM: a scheduler for ``--scheduler-cls``, an ASGI middleware for ``--middleware``.

Nothing of vLLM is imported before its scheduler is asked for: the middleware runs without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvtools.vllm_plugin.middleware import PriorityMiddleware
    from kvtools.vllm_plugin.scheduler import AsyncHotColdScheduler, HotColdScheduler

__all__ = ["AsyncHotColdScheduler", "HotColdScheduler", "PriorityMiddleware"]


def __getattr__(name: str) -> Any:
    if name == "PriorityMiddleware":
        from kvtools.vllm_plugin.middleware import PriorityMiddleware  # noqa: PLC0415 - see above

        return PriorityMiddleware
    if name in {"HotColdScheduler", "AsyncHotColdScheduler"}:
        from kvtools.vllm_plugin.versions import require_tested  # noqa: PLC0415 - see above

        require_tested()  # before the import, which another version may not even survive
        from kvtools.vllm_plugin import scheduler  # noqa: PLC0415 - see above

        return getattr(scheduler, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
