"""A prompt as a list of sections (its messages, or the stretches between role marks), and what was done to the list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from kvtools.diagnosis.turn_json import SPELLINGS, spelled
from kvtools.diagnosis.turn_model import common_prefix
from kvtools.diagnosis.turn_order import in_order_of, order_moved
from kvtools.diagnosis.turn_text import TextChange, text_change

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")

_UNKNOWABLE = frozenset(
    {"edited_history", "reordered_passages", "schema_order", "inserted_message", "moved_message"}
)
"""Kinds after which the earlier section is not what the later prompt would have held."""

_INSERTED_AT_MOST = 3
_LEADING_ROLES = ("system", "developer", "")
_MOVED = "An earlier message stands further back now, behind what came after it."

ANSWERS = frozenset({"assistant", "model", "[/INST]"})
"""Roles in which a model speaks."""


@dataclass(frozen=True, slots=True)
class Section:
    """What of one message reaches a chat template: its text and the rest as JSON texts."""

    role: str
    text: str
    reasoning: str = ""
    calls: tuple[tuple[str, str, Any], ...] = ()
    rest: str = ""

    @property
    def key(self) -> str:
        """A text that is equal where two sections are."""
        calls = [(*call[:2], spelled(call[2], "spacing")) for call in self.calls]
        return "\0".join([self.role, self.text, self.reasoning, self.rest, repr(calls) if calls else ""])


@dataclass(frozen=True, slots=True)
class HistoryChange:
    """What was done to a list of sections.

    ``place`` is the first section that differs. Behind it ``dropped`` sections of the earlier list are gone and
    ``inserted`` ones stand in their place; ``moved`` sections stand in another order (all 0 where the section at
    ``place`` was changed in itself).
    """

    change: TextChange
    place: int
    dropped: int = 0
    inserted: int = 0
    moved: int = 0


def section_change(before: Section, after: Section) -> TextChange | None:
    """Return what was done to a section; ``None`` where both reach the template alike."""
    if before.key == after.key:
        return None
    if before.role != after.role:
        return TextChange("edited_history", 0, "Another role speaks here than before.", len(after.text))
    if before.text != after.text:
        return text_change(before.text, after.text, before.role)
    end = len(before.text)
    if before.reasoning and not after.reasoning:
        detail = (
            f"{len(before.reasoning):,} characters of reasoning were in the history and are left out now; "
            "keeping them costs as much context."
        )
        return TextChange("reasoning_stripped", 0, detail, end)
    return _calls_change(before, after, end)


def _calls_change(before: Section, after: Section, end: int) -> TextChange:
    names = [[call[1] for call in section.calls] for section in (before, after)]
    if names[0] == names[1] and before.calls != () and before.rest == after.rest:
        for spelling in SPELLINGS[1:]:
            one, other = (
                [spelled(call[2], spelling) for call in section.calls] for section in (before, after)
            )
            if one != other:
                continue
            if [call[0] for call in before.calls] != [call[0] for call in after.calls]:
                return TextChange("call_ids", end, "The tool calls are equal, with other ids.", end)
            if spelling == "schema":
                detail = "The arguments of a tool call differ only in the order inside a schema: no fix is proposed."
                return TextChange("schema_order", end, detail, end)
            detail = "The arguments of a tool call are equal as JSON, with their keys in another order."
            return TextChange("json_key_order", end, detail, end)
    return TextChange(
        "edited_history", end, "The text is equal; what the message carries beside it is not.", end
    )


def history_change(before: Sequence[Section], after: Sequence[Section]) -> HistoryChange | None:
    """Return what keeps ``after`` from beginning with ``before``; ``None`` where it does, or continues none of it."""
    one, other = [section.key for section in before], [section.key for section in after]
    place = common_prefix(one, other)
    if place in (len(one), len(other)):
        return None
    moved = order_moved(one[place:], other[place:])
    if moved and not set(one[place:]) - set(other[place:]):
        detail = f"{moved} messages stand in another order than before; a fixed order changes what the model reads."
        change = _at(before, after, place, "reordered_passages", detail)
        return HistoryChange(change, place, moved=moved)
    own = section_change(before[place], after[place])
    if own is None or _explains_all(before, after, place, own):
        return None if own is None else HistoryChange(own, place)
    return _shifted(before, after, place) or _changed_in_itself(before, after, place, own)


def _explains_all(before: Sequence[Section], after: Sequence[Section], place: int, own: TextChange) -> bool:
    """Return whether each section stands where it stood, changed at most by what changes no more than its form."""
    if len(after) < len(before):
        return False
    pairs = list(zip(before[place + 1 :], after[place + 1 :], strict=False))
    if own.kind == "edited_history":
        return bool(pairs) and all(one.key == other.key for one, other in pairs)
    changes = [section_change(one, other) for one, other in pairs]
    return all(change is None or change.kind != "edited_history" for change in changes)


def _shifted(before: Sequence[Section], after: Sequence[Section], place: int) -> HistoryChange | None:
    """Return the sections that were dropped or inserted at ``place``, where all that follows is as it was."""
    one, other = [section.key for section in before], [section.key for section in after]
    for inserted in range(_INSERTED_AT_MOST + 1):
        for dropped in range(len(one) - place):
            kept = one[place + dropped :]
            if dropped == inserted or other[place + inserted : place + inserted + len(kept)] != kept:
                continue
            return _shift(before, after, place, dropped, inserted)
    return None


def _shift(
    before: Sequence[Section], after: Sequence[Section], place: int, dropped: int, inserted: int
) -> HistoryChange:
    if inserted == 0:
        kind = "sliding_window"
        detail = f"{dropped} of {len(before)} earlier messages were dropped from message {place} on."
    elif dropped == 0 and any(section.role in ANSWERS for section in after[place : place + inserted]):
        return HistoryChange(_at(before, after, place, "moved_message", _MOVED), place)
    elif dropped == 0:
        kind, detail = "inserted_message", f"{inserted} messages were put in front of earlier ones."
    else:
        kind = "summarised_history"
        detail = f"{dropped} earlier messages were replaced by {inserted} new ones."
    return HistoryChange(_at(before, after, place, kind, detail), place, dropped, inserted)


def _at(
    before: Sequence[Section], after: Sequence[Section], place: int, kind: str, detail: str
) -> TextChange:
    shared = common_prefix(before[place].text, after[place].text)
    return TextChange(kind, shared, detail, len(after[place].text))


def _changed_in_itself(
    before: Sequence[Section], after: Sequence[Section], place: int, own: TextChange
) -> HistoryChange | None:
    if own.kind != "edited_history":
        return HistoryChange(own, place)
    key = before[place].key
    if key in [section.key for section in after[place + 1 :]]:
        return HistoryChange(_at(before, after, place, "moved_message", _MOVED), place)
    later = {section.key for section in after[place:]}
    continues = any(section.role not in _LEADING_ROLES for section in before[:place])
    if continues and after[place].role in ANSWERS and before[place].role not in ANSWERS:
        dropped = len(before) - place
        detail = (
            f"The last {dropped} messages were sent once: in the history the answer follows without them."
        )
        return HistoryChange(_at(before, after, place, "dropped_message", detail), place, dropped)
    if continues or any(section.key in later for section in before[place:]):
        return HistoryChange(own, place)
    return None


def mended(
    before: Sequence[Section],
    after: Sequence[Section],
    items: tuple[Sequence[T], Sequence[T]],
    found: HistoryChange,
) -> list[T] | None:
    """Return the later list's ``items`` (one per section) without the change; ``None`` where that cannot be known."""
    one, other = items
    kind, place = found.change.kind, found.place
    if found.moved:
        where = {section.key: item for section, item in zip(after, other, strict=True)}
        return [where[key] for key in in_order_of([s.key for s in before], [s.key for s in after])]
    if kind in ("sliding_window", "summarised_history", "dropped_message"):
        return [*one[: place + found.dropped], *other[place + found.inserted :]]
    if kind in _UNKNOWABLE:
        return None
    result = list(other)
    for index in range(place, min(len(before), len(after))):
        change = section_change(before[index], after[index])
        if change is not None and change.kind == kind:
            result[index] = one[index]
    return result
