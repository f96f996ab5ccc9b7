"""What a line of a log says around the prompt: which call it was, when, from where, in which conversation."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

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


def column_of(
    names: Collection[str], choose: Callable[[Any], Any], as_is: tuple[type, ...] = (str,)
) -> Callable[[list[Any]], list[Any]]:
    """Return what ``choose`` (``first_of`` or ``text_of`` these names) makes of each record, empty where of none.

    Where all records set the same name to a value of one type that ``choose`` takes ``as_is``, they are not looked
    at one by one.
    """
    getters = [attrgetter(name) for name in names]

    def column(records: list[Any]) -> list[Any]:
        for get in getters:
            values = list(map(get, records))
            kinds = set(map(type, values))
            if len(kinds) == 1 and kinds.issubset(as_is) and "" not in values:
                return values
            if kinds != {type(None)}:
                return list(map(choose, records))
        return []

    return column
