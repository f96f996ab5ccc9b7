"""Seeded generators of demo logs."""

from collections.abc import Callable, Iterator

from kvtools.samples.mixed_traffic import mixed_traffic
from kvtools.samples.shop_assistant import shop_assistant

SAMPLES: dict[str, Callable[..., Iterator[bytes]]] = {
    "shop-assistant": shop_assistant,
    "mixed-traffic": mixed_traffic,
}
"""Every sample by name; a generator yields the log's lines as bytes, equal for equal arguments."""
