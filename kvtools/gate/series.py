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

LEAST_DROP = 0.05
"""From so many points of hit rate (0..1) on it is a drop."""

_ROUNDING = 1e-9
_CLASSES: tuple[tuple[float, DropClass], ...] = ((0.5, "cliff"), (0.2, "major"), (LEAST_DROP, "minor"))


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


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a key stands with its newest sample, at ``index``.

    ``baseline`` is the median of the samples before it since the last drop, ``None`` where there are fewer than two;
    ``drop`` is the key's last one, at ``index`` itself where the newest sample fell.
    """

    index: int
    key: str
    rate: float
    baseline: float | None
    drop: Drop | None

    @property
    def fell(self) -> bool:
        """Whether the newest sample is the drop."""
        return self.drop is not None and self.drop.index == self.index


def drops(samples: Sequence[Sample]) -> list[Drop]:
    """Return the drops in ``samples``, in their order.

    The baseline is the median of a key's samples since its last drop; keys are never mixed. After a drop it
    begins anew, so that a lower level that lasts is told once.
    Classes: minor from 0.05 on, major from 0.2, cliff from 0.5.
    """
    return [one.drop for one in _walked(samples) if one.drop is not None and one.fell]


def standings(samples: Sequence[Sample]) -> list[Standing]:
    """Return where each key stands, in the order in which the keys came first."""
    return list({one.key: one for one in _walked(samples)}.values())


def _walked(samples: Sequence[Sample]) -> list[Standing]:
    level: dict[str, list[float]] = defaultdict(list)
    last: dict[str, Sample] = {}
    fallen: dict[str, Drop] = {}
    found = []
    for index, sample in enumerate(samples):
        known = level[sample.key]
        base = median(known) if len(known) >= LEAST_SAMPLES else None
        fall = 0.0 if base is None else base - sample.rate
        drop_class = next((name for least, name in _CLASSES if fall >= least - _ROUNDING), None)
        if base is not None and drop_class is not None:
            changed = _changed(last[sample.key].marks, sample.marks)
            fallen[sample.key] = Drop(index, sample.key, base, sample.rate, drop_class, changed)
            known.clear()
        known.append(sample.rate)
        last[sample.key] = sample
        found.append(Standing(index, sample.key, sample.rate, base, fallen.get(sample.key)))
    return found


def _changed(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(name for name in now if now[name] != before.get(name))
