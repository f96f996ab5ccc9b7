"""Settings of the scheduler and of the middleware, from vLLM's ``--additional-config`` or the environment.

vLLM hands neither of them arguments. Each setting has the environment variable ``KVTOOLS_`` and its name in capitals;
for the scheduler, ``--additional-config '{"kvtools": {"cold_limit": 4}}'`` goes before it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal, TypeVar

import msgspec

from kvtools.errors import UsageError
from kvtools.heat.priority import COLD, vllm_priority

KEY = "kvtools"
"""The key in ``--additional-config``."""


class HotColdSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What may be set of the scheduler.

    A request is hot if its vLLM priority is below ``hot_below``. ``cold_limit``, ``hot_limit``: requests that run at
    once (``None``: a third of the seats, and no limit). ``cold_timeout_s``: a cold request that never ran and waits so
    long is promoted to hot or aborted (``on_timeout``); 0 is never.
    """

    hot_below: int = vllm_priority(COLD)
    cold_limit: int | None = None
    hot_limit: int | None = None
    cold_timeout_s: float = 30.0
    on_timeout: Literal["promote", "abort"] = "promote"

    def __post_init__(self) -> None:
        if any(limit is not None and limit < 1 for limit in (self.cold_limit, self.hot_limit)):
            raise ValueError("cold_limit and hot_limit are at least 1: a class without a seat never ends")
        if not 0 <= self.cold_timeout_s < float("inf"):
            raise ValueError("cold_timeout_s is 0 (never) or a number of seconds")

    @property
    def promoted_priority(self) -> int:
        """The priority in vLLM of a cold request that became hot."""
        return min(0, self.hot_below - 1)


class PrioritySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What may be set of the middleware.

    ``rules``: a file of ``kvtools rules``. ``trust_requests``: what a request says of itself counts; else only rules
    do. ``route_header``: where the rules' route stands (``path``: it is the path). ``tokens_header``: a header with the
    number of prompt tokens. ``bytes_per_token``: where nothing else says it, prompt tokens are estimated from the bytes
    of text; 0 is never. ``max_body_bytes``: a larger body is passed on unread, and rules do not see it.
    """

    rules: str | None = None
    trust_requests: bool = True
    route_header: str | None = None
    tokens_header: str | None = None
    bytes_per_token: float = 0.0
    max_body_bytes: int = 8 << 20

    def __post_init__(self) -> None:
        if not 0 <= self.bytes_per_token < float("inf") or self.max_body_bytes < 0:
            raise ValueError("bytes_per_token and max_body_bytes are 0 or more")


_Settings = TypeVar("_Settings", HotColdSettings, PrioritySettings)


def read_settings(kind: type[_Settings], given: object = None) -> _Settings:
    """Return the settings of the environment, overruled by ``given``.

    Raises:
        UsageError: a name or value is none that can be set.
    """
    if given is not None and not isinstance(given, Mapping):
        raise UsageError(f'--additional-config: "{KEY}" holds an object of settings, not {given!r:.60}.')
    named = {f"KVTOOLS_{name.upper()}": name for name in kind.__struct_fields__}
    found = {named[key]: value for key, value in os.environ.items() if key in named and value != ""}
    texts = _converted(kind, found, "the environment", strict=False)
    stated = {name: getattr(texts, name) for name in found}
    return _converted(kind, stated | dict(given or {}), f'--additional-config, "{KEY}"', strict=True)


def _converted(kind: type[_Settings], values: dict[str, Any], place: str, *, strict: bool) -> _Settings:
    try:
        return msgspec.convert(values, kind, strict=strict)
    except (msgspec.ValidationError, ValueError) as error:
        raise UsageError(f"{place}: {error}; it takes {', '.join(kind.__struct_fields__)}.") from None
