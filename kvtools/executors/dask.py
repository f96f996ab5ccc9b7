"""Tasks on a Dask cluster: one that runs already, or processes that are started on this machine."""

from __future__ import annotations

from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from kvtools.errors import EngineError, MissingExtra

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

R = TypeVar("R")

CONNECT = "30s"
"""How long a scheduler is waited for."""


@dataclass(frozen=True, slots=True)
class _Future:
    """A task's future; errors of the cluster itself become errors of ours, those of the task stay what they are."""

    distributed: Any
    inner: Any

    def result(self) -> Any:
        try:
            return self.inner.result()
        except self.distributed.KilledWorker:
            raise EngineError(
                "a chunk was lost with each worker that took it (out of memory?): give the workers more memory."
            ) from None
        except (CancelledError, OSError) as error:
            raise EngineError(
                f"the Dask cluster was lost ({type(error).__name__}): start it again."
            ) from error


@dataclass(frozen=True, slots=True)
class DaskExecutor:
    """The client of a cluster."""

    distributed: Any
    client: Any

    @property
    def window(self) -> int:
        """Two tasks per thread of the cluster: one runs, one is there already."""
        threads: dict[str, int] = self.client.nthreads()
        return 2 * max(1, sum(threads.values()))

    def submit(self, function: Callable[..., Any], *args: Any) -> _Future:
        """Hand over one call. Its arguments travel with it: what only a lost worker held could not be made again."""
        return _Future(self.distributed, self.client.submit(function, *args, pure=False))


@contextmanager
def dask_executor(workers: int, scheduler: str | None) -> Iterator[DaskExecutor]:
    """Yield the executor of a cluster.

    Raises:
        EngineError: there is no scheduler at that address.
        MissingExtra: Dask is not installed.
    """
    try:
        dask, distributed = import_module("dask"), import_module("distributed")
    except ImportError:
        raise MissingExtra("--executor dask: Dask is not installed; pip install 'kvtools[dask]'.") from None
    # A chunk is 8 MiB and travels with its task, which Dask would warn of each time.
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "64MB"}):
        if scheduler is None:
            local = {"threads_per_worker": 1, "processes": True, "dashboard_address": None}
            with (
                distributed.LocalCluster(n_workers=workers, **local) as cluster,
                distributed.Client(cluster) as client,
            ):
                yield DaskExecutor(distributed, client)
            return
        try:
            client = distributed.Client(scheduler, timeout=CONNECT)
        except (OSError, ValueError) as error:
            raise EngineError(
                f"--scheduler {scheduler}: no Dask scheduler answers there ({error}); start one, or leave it out."
            ) from None
        with client:
            yield DaskExecutor(distributed, client)
