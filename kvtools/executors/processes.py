"""Tasks in processes of this machine; one that dies (out of memory, killed) is replaced, and its tasks run again."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from kvtools.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future
    from types import TracebackType

R = TypeVar("R")

MOST_LOSSES = 3
"""So often processes may die in a run: a task that kills each of its workers must come to an end."""


@dataclass(slots=True)
class Processes:
    """A pool of ``count`` processes; they are started anew, not forked: a fork would copy locks that threads hold."""

    count: int
    _pool: ProcessPoolExecutor = field(init=False, repr=False)
    _losses: int = 0

    def __post_init__(self) -> None:
        self._pool = self._started()

    @property
    def window(self) -> int:
        """One task per process, and one more that waits for each."""
        return 2 * self.count

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=kind is None, cancel_futures=True)

    def submit(self, function: Callable[..., R], *args: Any) -> _Task[R]:
        """Hand over one call."""
        task = _Task(self, function, args)
        task.begin()
        return task

    def begin(
        self, function: Callable[..., R], args: tuple[Any, ...]
    ) -> tuple[Future[R], ProcessPoolExecutor]:
        """Hand a call to the pool; return its future, and the pool that has it."""
        try:
            return self._pool.submit(function, *args), self._pool
        except BrokenProcessPool:
            self.replaced(self._pool)
            return self._pool.submit(function, *args), self._pool

    def replaced(self, broken: ProcessPoolExecutor) -> None:
        """Take a new pool in place of a broken one, once however many tasks were lost with it.

        Raises:
            EngineError: processes died too often.
        """
        if broken is not self._pool:
            return
        self._losses += 1
        broken.shutdown(wait=False, cancel_futures=True)
        if self._losses > MOST_LOSSES:
            raise EngineError(
                f"worker processes died {self._losses} times (out of memory?): "
                "take fewer --workers, or --executor serial."
            )
        self._pool = self._started()

    def _started(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(self.count, mp_context=multiprocessing.get_context("spawn"))


@dataclass(slots=True)
class _Task(Generic[R]):
    """A call, for as long as its result is not there: it is made again where its process was lost."""

    processes: Processes
    function: Callable[..., R]
    args: tuple[Any, ...]
    _future: Future[R] = field(init=False)
    _pool: ProcessPoolExecutor = field(init=False)

    def begin(self) -> None:
        self._future, self._pool = self.processes.begin(self.function, self.args)

    def result(self) -> R:
        while True:
            try:
                return self._future.result()
            except BrokenProcessPool:
                self.processes.replaced(self._pool)
                self.begin()
