"""Changes in a series of hit rates: one sustained drop is told once, with what changed in the prompts at that point."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DropClass: TypeAlias = Literal["minor", "major", "cliff"]

LEAST_SAMPLES = 2
"""A median of fewer earlier samples is no baseline."""

_ROUNDING = 1e-9
_CLASSES: tuple[tuple[float, DropClass], ...] = ((0.5, "cliff"), (0.2, "major"), (0.05, "minor"))


@dataclass(frozen=True, slots=True)
class Sample:
    """A hit rate (0..1) of one ``key`` (thread, model), and digests of what its prompts are made of, by name."""

    key: str
    rate: float
    marks: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Drop:
    """A drop at ``index`` from the ``baseline``, the median before it; ``causes`` are the marks that changed there."""

    index: int
    key: str
    baseline: float
    rate: float
    drop_class: DropClass
    causes: tuple[str, ...]


def drops(samples: Sequence[Sample]) -> list[Drop]:
    """Return the drops in ``samples``, in their order.

    The baseline is the median of a key's samples since its last drop; keys are never mixed. After a drop it
    begins anew, so that a lower level that lasts is told once.
    Classes: minor from 0.05 on, major from 0.2, cliff from 0.5.
    """
    level: dict[str, list[float]] = defaultdict(list)
    last: dict[str, Sample] = {}
    found = []
    for index, sample in enumerate(samples):
        known = level[sample.key]
        if len(known) >= LEAST_SAMPLES:
            base = median(known)
            drop_class = next(
                (name for least, name in _CLASSES if base - sample.rate >= least - _ROUNDING), None
            )
            if drop_class is not None:
                changed = _changed(last[sample.key].marks, sample.marks)
                found.append(Drop(index, sample.key, base, sample.rate, drop_class, changed))
                known.clear()
        known.append(sample.rate)
        last[sample.key] = sample
    return found


def _changed(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(name for name in now if now[name] != before.get(name))
