"""nginx's consistent hash, so that a routed request is predicted to the replica that nginx would choose.

As in ``ngx_http_upstream_hash_module.c`` (nginx 1.22): a server has 160 points on a ring of 32 bits, each the CRC-32 of
host, a zero byte, port and the point before it; a key goes to the first point at or behind its own CRC-32. Adding a
server moves about one key in N (Karger et al., STOC 1997; the points are those of ketama).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_POINTS = 160
_WITH_PORT = re.compile(r"(.*):([0-9]*)")  # [::1] has none


class Ring:
    """``servers`` as they stand in an nginx ``upstream`` block, each ``host:port`` of weight 1."""

    def __init__(self, servers: Sequence[str]) -> None:
        places: dict[int, int] = {}
        for number, server in enumerate(servers):
            point = 0
            parted = _WITH_PORT.fullmatch(server)
            head = f"{parted[1]}\0{parted[2]}" if parted else f"{server}\0"
            for _ in range(_POINTS):
                point = crc32(head.encode() + point.to_bytes(4, "little"))
                places.setdefault(point, number)
        self._points = np.array(sorted(places), dtype=np.uint32)
        self._servers = np.array([places[point] for point in sorted(places)], dtype=np.int64)

    def servers_of(self, hashes: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Return the place of the server for each key, given the CRC-32 of the key's bytes."""
        at = np.searchsorted(self._points, hashes) % len(self._points)
        return self._servers[at]


def key_hashes(numbers: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """Return the CRC-32 of each number as a router sends it: 16 hexadecimal digits."""
    distinct, places = np.unique(numbers, return_inverse=True)
    hashes = np.array([crc32(b"%016x" % number) for number in distinct.tolist()], dtype=np.uint32)
    return hashes[places]
