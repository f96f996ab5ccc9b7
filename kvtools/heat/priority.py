"""What a label is worth to a gateway and to vLLM: ``X-Priority`` (5 is the most urgent), vLLM's number (0 is)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvtools.heat.rules import Label

HOT, COLD, COLD_ON_DISK = 5, 2, 1
"""``X-Priority`` of hot, of cold, and of cold prompts that are long enough for a disk cache; 3 and 4 are left free.

Hot is 5 because vLLM takes a request that brings no priority for 0, which is 5 here: traffic that passes by the gateway
then waits behind nothing.
"""


def x_priority(label: Label, *, disk_cache: bool = False) -> int:
    """Return ``X-Priority``, 1-5, of a label."""
    if label == "hot":
        return HOT
    return COLD_ON_DISK if disk_cache else COLD


def vllm_priority(priority: int) -> int:
    """Return vLLM's priority of an ``X-Priority``: 5 - X-Priority, as vLLM serves the smallest number first."""
    return 5 - priority


VLLM_GUIDE = f"""\
# Priorities for vLLM

| class | X-Request-Type | X-Priority (5 is the most urgent) | X-Vllm-Priority (0 is the most urgent) |
|---|---|---|---|
| hot | hot | {HOT} | {5 - HOT} |
| cold | cold | {COLD} | {5 - COLD} |
| cold, long enough for a disk cache | cold | {COLD_ON_DISK} | {5 - COLD_ON_DISK} |

X-Vllm-Priority = 5 - X-Priority. X-Priority 3 and 4 are free for rules of your own.

Start the engine with

    vllm serve MODEL --scheduling-policy priority

and let the gateway send `X-Vllm-Priority` (nginx.conf beside this page does). vLLM reads that header itself, and it
overrides a `priority` in the body. `X-Request-Type` and `X-Priority` are for gateways and logs: vLLM reads neither.

What this does: waiting requests are served by priority, then by arrival, and where KV memory runs out the least urgent
running request is preempted. What it does not do: it sets no limit on how many cold requests run at once, and stops no
running cold request to admit a waiting hot one. Cold requests may wait for as long as hot ones keep coming.

vLLM has no disk cache of its own that a request could ask for: the last row only names the requests that are worth
one, for a KV connector or a deployment of their own.
"""
