"""A turn of a conversation as it was logged, and what keeps the next turn from extending it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Turn:
    """One logged request: what of it is known. ``None`` is what the log does not say.

    ``messages`` and ``tools`` as in the request table, decoded; ``prompt`` the rendered text; ``output`` the
    answer's text; ``token_ids`` and ``output_ids`` the prompt's and the answer's tokens; ``lora`` the adapter.
    """

    messages: list[dict[str, Any]] | None = None
    prompt: str | None = None
    output: str | None = None
    token_ids: Sequence[int] | None = None
    output_ids: Sequence[int] | None = None
    tools: list[Any] | None = None
    cache_salt: str | None = None
    lora: str | None = None


@dataclass(frozen=True, slots=True)
class Break:
    """Where and why a later turn does not extend an earlier one.

    ``place`` names the section: ``message 3 (tool)``, ``tools``, ``prompt``, ``tokens`` or ``request``; messages
    count from 0. ``position`` is the first difference, in characters from the section's start (in tokens for
    ``tokens``). ``detail`` is one sentence without text of the prompt.
    """

    kind: str
    place: str
    position: int
    detail: str


def common_prefix(one: Sequence[T], other: Sequence[T]) -> int:
    """Return how many leading characters (or tokens) two texts (or lists) share."""
    low, high = 0, min(len(one), len(other))
    if one[:high] == other[:high]:
        return high
    # Slices are compared by the machine; the half that differs is looked at again.
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def common_suffix(one: Sequence[T], other: Sequence[T]) -> int:
    """Return how many trailing characters (or tokens) two texts (or lists) share."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[len(one) - middle : len(one) - low] == other[len(other) - middle : len(other) - low]:
            low = middle
        else:
            high = middle - 1
    return low
