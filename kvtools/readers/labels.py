"""What a line of a log says around the prompt: which call it was, when, from where, in which conversation."""

from __future__ import annotations

from typing import Any

import msgspec

TIME_NAMES = ("ts_epoch", "timestamp", "ts", "time", "arrival_time", "start_time", "created_at", "created")
ID_NAMES = ("id", "request_id")
ROUTE_NAMES = ("tenant", "route", "app", "endpoint")
SESSION_NAMES = ("session_id", "conversation_id")


class Labels(msgspec.Struct, gc=False):
    """The names that logs use for the same few things, for the first of which that is set to be taken.

    Records are trees, so that the garbage collector need not look at them (``gc=False``).
    """

    id: Any = None
    request_id: Any = None
    ts_epoch: Any = None
    timestamp: Any = None
    ts: Any = None
    time: Any = None
    arrival_time: Any = None
    start_time: Any = None
    created_at: Any = None
    created: Any = None
    tenant: Any = None
    route: Any = None
    app: Any = None
    endpoint: Any = None
    session_id: Any = None
    conversation_id: Any = None
    model: Any = None
