"""The token ids of two turns: does the later prompt begin with the earlier one and the ids of its answer.

The KV of the very last generated token is never stored (the engine stops before it computes it), so its id may
differ without a loss.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kvtools.diagnosis.turn_model import Break, Turn, common_prefix

if TYPE_CHECKING:
    from collections.abc import Sequence

_REALIGN_TOKENS = 8
_RUN_TOKENS = 16
"""Another tokenization is back in step within so many tokens, and this many equal ids (or all that follow) show it."""

PLACE = "tokens"


def _ids(values: Sequence[int] | None) -> list[int]:
    return [] if values is None else [int(value) for value in values]


def _generated(earlier: Turn) -> list[int]:
    """Return the earlier prompt and what of its answer the engine stored."""
    return _ids(earlier.token_ids) + _ids(earlier.output_ids)[:-1]


def tokens_parted(earlier: Turn, later: Turn, *, same_text: bool = False) -> Break | None:
    """Return what keeps the later ids from extending the earlier ones. ``same_text``: their texts are known to."""
    before, after = _generated(earlier), _ids(later.token_ids)
    place = common_prefix(before, after)
    if place in (len(before), len(after)):
        return None
    if _shifted_by_bos(before, after) or _shifted_by_bos(after, before):
        return Break(
            "double_bos", PLACE, place, "One of the prompts starts with two BOS tokens, the other with one."
        )
    step = _back_in_step(before, after, place)
    if same_text or (step is not None and _may_be_retokenised(earlier, place, step)):
        known = (
            "The text is the same"
            if same_text
            else "All that follows is the same (ids only: taken for one text)"
        )
        detail = (
            f"{known}, but it became other token ids at token {place:,} when the history was encoded again."
        )
        return Break("retokenised_history", PLACE, place, detail)
    if step is None and place == 0:
        return None
    if step is None and place < len(_ids(earlier.token_ids)):
        return None
    return Break(
        "edited_history", PLACE, place, f"The history was changed at token {place:,} of {len(before):,}."
    )


def _may_be_retokenised(earlier: Turn, place: int, step: tuple[int, int]) -> bool:
    """Return whether a difference can be one of encoding: in the answer, and no token for a token, none for some.

    The ids of the prompt came from the encoder already; only generated ids can be other than the encoder's.
    """
    return place >= len(_ids(earlier.token_ids)) - _REALIGN_TOKENS and min(step) > 0 and max(step) > 1


def _shifted_by_bos(single: list[int], double: list[int]) -> bool:
    return (
        len(double) > 2
        and len(single) > 1
        and double[0] == double[1] == single[0] != single[1]
        and double[2] == single[1]
    )


def _back_in_step(before: list[int], after: list[int], place: int) -> tuple[int, int] | None:
    """Return after how many ids of each list both go on alike, the fewest."""
    steps = [(i, j) for i in range(_REALIGN_TOKENS + 1) for j in range(_REALIGN_TOKENS + 1)]
    for i, j in sorted(steps, key=sum):
        one, other = before[place + i :], after[place + j :]
        length = min(len(one), len(other), _RUN_TOKENS)
        if length and one[:length] == other[:length]:
            return i, j
    return None


def tokens_rebuilt(earlier: Turn, later: Turn, found: Break) -> Turn | None:
    """Return the later turn with the generated ids kept as they were; ``None`` where its rest cannot be told."""
    if found.kind == "double_bos":
        ids = _ids(later.token_ids)
        fixed = ids[1:] if ids[:1] == ids[1:2] else [*ids[:1], *ids]
        return replace(later, token_ids=fixed, prompt=None, messages=None)
    if found.kind != "retokenised_history":
        return None
    full, after = _ids(earlier.token_ids) + _ids(earlier.output_ids), _ids(later.token_ids)
    place, behind = 0, 0
    while True:
        shared = common_prefix(full[place:], after[behind:])
        place, behind = place + shared, behind + shared
        if place >= len(full):
            return replace(later, token_ids=[*full, *after[behind:]])
        step = _back_in_step(full[place:], after[behind:], 0)
        if step is None:
            unstored = place == len(full) - 1
            return replace(later, token_ids=[*full[:place], *after[behind:]]) if unstored else None
        place, behind = place + step[0], behind + step[1]
