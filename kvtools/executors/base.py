"""What an executor is: it takes tasks one by one and gives their results when they are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")


class Pending(Protocol[R_co]):
    """A task that was handed over."""

    def result(self) -> R_co:
        """Return what the task returned, once it is done; raise what it raised."""


class Executor(Protocol):
    """Runs tasks. ``window`` is how many should be handed over before the first result is asked for."""

    @property
    def window(self) -> int:
        """Tasks in flight that keep all workers busy."""

    def submit(self, function: Callable[..., R], *args: Any) -> Pending[R]:
        """Hand over one call of a function that a worker can import."""
