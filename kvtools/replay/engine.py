"""What an engine is: one method that replays a log and says what was hit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvtools.model import CacheSpec, ReplayResult, SchedulerSpec
    from kvtools.replay.journal import Journal
    from kvtools.replay.log import ReplayLog


@dataclass(frozen=True, slots=True)
class Needs:
    """What an engine needs of a log besides block keys."""

    tokens: bool = False
    bodies: bool = False


@dataclass(slots=True)
class Run:
    """One replay as an engine is told of it: the cache, the scheduler, where finished requests are noted."""

    cache: CacheSpec
    scheduler: SchedulerSpec
    journal: Journal
    advance: Callable[[int], None] = field(default=lambda _: None)


class Engine(Protocol):
    """An engine replays a log: the simulator, vLLM in this process, or a server."""

    @property
    def name(self) -> str:
        """The name for ``--engine``."""

    @property
    def needs(self) -> Needs:
        """What it needs of the log."""

    def replay(self, log: ReplayLog, run: Run) -> ReplayResult:
        """Replay ``log`` and return what was hit.

        Raises:
            EngineError: the engine is missing or failed; what was finished stands in ``run.journal``.
            UsageError: the engine cannot run with these settings.
            InputError: the log lacks what the engine needs.
        """
