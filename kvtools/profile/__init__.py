"""The log as a fold: map a chunk to what later rooms need of it, merge in log order, finish.

Laws (tests/laws): an empty profile changes nothing, merging is associative, and any partition of a log into
chunks gives an equal result. State holds integers, so that equality is exact.
"""

from kvtools.profile.finish import PrefixSimilarity, prefix_similarity, replay_order
from kvtools.profile.keying import Keyed, Keying
from kvtools.profile.state import Counts, LogProfile, RequestColumns, map_chunk
from kvtools.profile.traffic import TrafficColumns

__all__ = [
    "Counts",
    "Keyed",
    "Keying",
    "LogProfile",
    "PrefixSimilarity",
    "RequestColumns",
    "TrafficColumns",
    "map_chunk",
    "prefix_similarity",
    "replay_order",
]
