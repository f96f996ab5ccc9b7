"""One class or two? Two take a valley of density on the line between the means of the two halves.

A criterion of fit (BIC) does not answer it: it cuts one log-normal stream into two to five pieces. A valley does:
where the density between two means never falls well below that of the lower mean, there is one crowd, cut in two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

VALLEY_LIMIT = 0.75
"""Deepest density between the means over that of the lower mean. Measured: one stream 0.89 and more, mixes less."""

MERGED_VALLEY_LIMIT = 0.5
"""The same between merged components, of which there are more to look at. Measured: one stream whose prefixes have a
Zipf popularity 0.65 and more, three crowds in a row 0.29 and less."""

LEAST_SHARE = 0.01
"""The smaller class holds at least this share of the requests."""

LEAST_STABILITY = 0.8
"""Adjusted Rand index of the labels under resampling."""

LEAST_REQUESTS = 100
"""Fewer requests than this say nothing of a density."""

LEAST_WIDTH = 0.25
"""Smallest kernel width, in the units of the axes (natural logarithms): what differs by less than a factor of about
two is one crowd, whatever gaps a handful of routes or round lengths leave between them."""

_GRID = 1024
_KERNEL_REACH = 4


@dataclass(frozen=True, slots=True)
class Line:
    """The line from the mean of one half to that of the other: place 0 is the first mean, place 1 the second."""

    origin: NDArray[np.float64]
    direction: NDArray[np.float64]

    @classmethod
    def between(cls, points: NDArray[np.float64], second: NDArray[np.bool_]) -> Line:
        """Return the line between the means of ``points`` (rows) that are not and that are ``second``."""
        origin = points[~second].mean(axis=0)
        return cls(origin, points[second].mean(axis=0) - origin)

    @property
    def length(self) -> float:
        """Distance of the two means."""
        return float(np.sqrt(np.square(self.direction).sum()))

    def places(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return where each point falls on the line, by its perpendicular."""
        scale = float(np.square(self.direction).sum())
        # Column by column: a matrix product may add in another order for another number of rows.
        offsets = sum(
            (points[:, axis] - self.origin[axis]) * part for axis, part in enumerate(self.direction.tolist())
        )
        return np.asarray(offsets) / scale


def valley(points: NDArray[np.float64], second: NDArray[np.bool_]) -> float:
    """Return the lowest density between the two means over the density at the lower mean (0..1; 1: no valley).

    A Gaussian kernel of Silverman's width (Density Estimation, 1986, eq. 3.31), at least ``LEAST_WIDTH``.
    """
    line = Line.between(points, second)
    if not line.length:
        return 1.0
    places = line.places(points) * line.length
    quarters = np.percentile(places, [25, 75])
    spread = min(float(places.std()), float(quarters[1] - quarters[0]) / 1.34) or float(places.std())
    width = max(0.9 * spread * len(places) ** -0.2, LEAST_WIDTH)
    low = float(places.min()) - _KERNEL_REACH * width
    high = float(places.max()) + _KERNEL_REACH * width
    counts, edges = np.histogram(places, bins=_GRID, range=(low, high))
    step = edges[1] - edges[0]
    reach = min(int(_KERNEL_REACH * width / step) + 1, (_GRID - 1) // 2)
    kernel = np.exp(-0.5 * np.square(np.arange(-reach, reach + 1) * step / width))
    density = np.convolve(counts, kernel, "same")
    first, last = (int((mean - low) / step) for mean in (0.0, line.length))
    lower = min(density[first], density[last])
    return float(density[first : last + 1].min() / lower) if lower else 1.0
