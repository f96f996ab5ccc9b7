"""The same results in the same order, whoever works; a worker that dies is replaced."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from kvtools.errors import EngineError, UsageError
from kvtools.executors import Work, executor

if TYPE_CHECKING:
    from pathlib import Path

    from kvtools.executors import ExecutorName


def squared(number: int) -> int:
    """Return the square."""
    return number * number


def refused(number: int) -> int:
    """Raise, as a chunk of broken input does."""
    raise ValueError(f"not {number}")


def killed_once(marker: Path, number: int) -> int:
    """Kill the process that runs this, the first time."""
    if not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def killed(number: int) -> int:
    """Kill the process that runs this, each time."""
    os.kill(os.getpid(), signal.SIGKILL)
    return number


@pytest.mark.parametrize("name", ["serial", "processes"])
def test_results_come_in_the_order_of_the_tasks(name: ExecutorName) -> None:
    with executor(Work(executor=name)) as runner:
        pending = [runner.submit(squared, number) for number in range(20)]
        assert [task.result() for task in pending] == [n * n for n in range(20)]


@pytest.mark.parametrize("name", ["serial", "processes"])
def test_what_a_task_raises_is_raised_here(name: ExecutorName) -> None:
    with executor(Work(executor=name)) as runner, pytest.raises(ValueError, match="not 3"):
        runner.submit(refused, 3).result()


def test_tasks_of_a_process_that_was_killed_run_again(tmp_path: Path) -> None:
    with executor(Work(executor="processes", workers=2)) as runner:
        pending = [runner.submit(killed_once, tmp_path / "died", number) for number in range(5)]
        assert [task.result() for task in pending] == [0, 1, 2, 3, 4]


def test_a_task_that_kills_each_process_comes_to_an_end() -> None:
    with (
        executor(Work(executor="processes", workers=1)) as runner,
        pytest.raises(EngineError, match="died 4 times"),
    ):
        runner.submit(killed, 1).result()


@pytest.mark.parametrize(
    ("name", "workers", "scheduler"),
    [
        ("serial", 2, None),
        ("serial", None, "tcp://h:1"),
        ("processes", None, "tcp://h:1"),
        ("dask", 2, "tcp://h:1"),
    ],
)
def test_options_that_do_not_fit_together(
    name: ExecutorName, workers: int | None, scheduler: str | None
) -> None:
    with pytest.raises(UsageError, match="goes with --executor"):
        Work(executor=name, workers=workers, scheduler=scheduler)


def test_a_scheduler_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr("kvtools.executors.dask.CONNECT", "1s")
    with (
        pytest.raises(EngineError, match="no Dask scheduler answers there"),
        executor(Work(executor="dask", scheduler="tcp://127.0.0.1:9")),
    ):
        pass
