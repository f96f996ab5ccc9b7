"""Tasks one after another, here: no process is started, nothing is copied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class _Later(Generic[R]):
    function: Callable[..., R]
    args: tuple[Any, ...]

    def result(self) -> R:
        return self.function(*self.args)


@dataclass(frozen=True, slots=True)
class Serial:
    """Runs a task when its result is asked for: once, as each result is."""

    window: int = 0

    def submit(self, function: Callable[..., R], *args: Any) -> _Later[R]:
        """Keep the call until its result is asked for."""
        return _Later(function, args)
