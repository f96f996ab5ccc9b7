"""The policies of ``plan schedule``, each as settings of one simulation: lanes, limits and guards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvtools.errors import UsageError
from kvtools.plan.schedule_state import Guards

if TYPE_CHECKING:
    from collections.abc import Callable

FCFS, PRIORITY, HOTCOLD, BREAKER, DYNAMIC, PARTITIONED = (
    "fcfs",
    "priority",
    "hotcold",
    "breaker",
    "dynamic",
    "partitioned",
)

COLD_PART = 3
"""Hot to cold slots are 2:1 (article B): a third of the seats is cold."""

_SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class PolicyLimits:
    """What can be set of the policies; the constants are article B's where it has one.

    ``hot_seqs``, ``cold_seqs``: requests that run at once (``None``: no limit, and a third of ``max_num_seqs``).
    ``cold_timeout_s``: a cold request that waits so long and never ran is made hot, or ended with ``timeout_ends``.
    ``hot_reserve``: part of the KV blocks (0..1) that cold requests never hold. ``retries``: further tries after a 503,
    each after a wait drawn evenly from ``retry_after_s`` by ``seed``.
    """

    hot_seqs: int | None = None
    cold_seqs: int | None = None
    cold_timeout_s: float = 30.0
    timeout_ends: bool = False
    hot_reserve: float = 0.15
    memory_line: float = 0.85
    interrupted_line: float = 0.05
    slow_s: float = 2.0
    cold_share_line: float = 0.15
    release_line: float = 0.9
    check_s: float = 1.0
    cold_output_tokens: int = 1024
    dynamic_timeout_s: float = 3.0
    cold_step_tokens: int = 256
    least_step_tokens: int = 64
    retries: int = 3
    retry_after_s: tuple[float, float] = (3.0, 5.0)
    seed: int = 0

    def __post_init__(self) -> None:
        shares = (self.hot_reserve, self.memory_line, self.interrupted_line, self.release_line)
        if not all(0 <= share <= 1 for share in (*shares, self.cold_share_line)):
            raise UsageError("shares of blocks and requests are 0 to 1: give one in that range.")
        if any(seats is not None and seats < 1 for seats in (self.hot_seqs, self.cold_seqs)):
            raise UsageError("--hot-seqs and --cold-seqs are at least 1: a class without a seat never ends.")
        if self.retries < 0 or not 0 <= self.retry_after_s[0] <= self.retry_after_s[1]:
            raise UsageError("--retries and the wait before them are at least 0: give larger ones.")


@dataclass(frozen=True, slots=True)
class Policy:
    """How the scheduler behaves. ``lanes``: cold requests wait in a lane of their own.

    ``hot_first``: waiting hot requests go before waiting cold ones; ``spare_hot``: cold ones are preempted first.
    ``cold_share_of_blocks``: what cold requests may hold; ``drop_cold``: what they leave is not kept.
    """

    name: str
    by_priority: bool = False
    lanes: bool = False
    hot_first: bool = False
    spare_hot: bool = False
    drop_cold: bool = False
    hot_seqs: int | None = None
    cold_seqs: int | None = None
    cold_share_of_blocks: float = 1.0
    guards: Guards = Guards()  # noqa: RUF009 - immutable


def cold_seats(max_num_seqs: int) -> int:
    """Return the seats that cold requests get where none were given."""
    return max(max_num_seqs // COLD_PART, 1)


def _fcfs(_limits: PolicyLimits, _seats: int) -> Policy:
    return Policy(FCFS)


def _priority(_limits: PolicyLimits, _seats: int) -> Policy:
    return Policy(PRIORITY, by_priority=True)


def _hotcold(limits: PolicyLimits, seats: int) -> Policy:
    return Policy(
        HOTCOLD,
        lanes=True,
        hot_first=True,
        spare_hot=True,
        hot_seqs=limits.hot_seqs,
        cold_seqs=limits.cold_seqs or cold_seats(seats),
        guards=Guards(
            make_way=True,
            timeout_us=round(limits.cold_timeout_s * _SECOND),
            timeout_ends=limits.timeout_ends,
        ),
    )


def _breaker(limits: PolicyLimits, _seats: int) -> Policy:
    return Policy(
        BREAKER,
        lanes=True,
        guards=Guards(
            breaker=True,
            retries=limits.retries,
            check_us=round(limits.check_s * _SECOND),
            memory=round(1000 * limits.memory_line),
            interrupted=round(1000 * limits.interrupted_line),
            slow_us=round(limits.slow_s * _SECOND),
            cold_output=limits.cold_output_tokens,
        ),
    )


def _dynamic(limits: PolicyLimits, seats: int) -> Policy:
    return Policy(
        DYNAMIC,
        lanes=True,
        hot_first=True,
        spare_hot=True,
        cold_seqs=limits.cold_seqs or cold_seats(seats),
        guards=Guards(
            dynamic=True,
            check_us=round(limits.check_s * _SECOND),
            memory=round(1000 * limits.memory_line),
            cold_share=round(1000 * limits.cold_share_line),
            release=round(1000 * limits.release_line),
            timeout_us=round(limits.dynamic_timeout_s * _SECOND),
            timeout_ends=True,
            cold_output=limits.cold_output_tokens,
            cold_step_tokens=limits.cold_step_tokens,
            least_step_tokens=limits.least_step_tokens,
        ),
    )


def _partitioned(limits: PolicyLimits, _seats: int) -> Policy:
    return Policy(
        PARTITIONED,
        lanes=True,
        drop_cold=True,
        cold_share_of_blocks=1 - limits.hot_reserve,
    )


POLICIES: dict[str, Callable[[PolicyLimits, int], Policy]] = {
    FCFS: _fcfs,
    PRIORITY: _priority,
    HOTCOLD: _hotcold,
    BREAKER: _breaker,
    DYNAMIC: _dynamic,
    PARTITIONED: _partitioned,
}


def policy_of(name: str, limits: PolicyLimits, max_num_seqs: int) -> Policy:
    """Return a policy by its name.

    Raises:
        UsageError: there is no such policy.
    """
    if name not in POLICIES:
        raise UsageError(f"--policy {name}: there is none of that name; take from {', '.join(POLICIES)}.")
    return POLICIES[name](limits, max_num_seqs)
