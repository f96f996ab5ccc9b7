"""The hot/cold scheduler as a server loads it, noting what runs: one JSON line per request and per step in a file."""

from __future__ import annotations

import json
import os
from typing import Any

from kvtools.vllm_plugin import HotColdScheduler


class Noting(HotColdScheduler):
    """Writes ``{"id", "priority"}`` of each request that comes, and ``{"cold", "hot"}`` of what a step runs."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.notes = open(os.environ["HOTCOLD_NOTES"], "a", buffering=1)  # noqa: PTH123, SIM115 - until it ends

    def add_request(self, request: Any) -> None:
        super().add_request(request)
        self.notes.write(json.dumps({"id": request.request_id, "priority": request.priority}) + "\n")

    def schedule(self, throttle_prefills: bool = False) -> Any:
        output = super().schedule(throttle_prefills)
        cold = sum(request.priority >= 3 for request in self.running)
        self.notes.write(json.dumps({"cold": cold, "hot": len(self.running) - cold}) + "\n")
        return output
