"""The rendered text of two turns: does the later prompt begin with the earlier one and the answer to it.

A text is cut at its role marks into sections; without marks it is one section that the next turn goes on with.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from kvtools.diagnosis.turn_messages import without_end_mark
from kvtools.diagnosis.turn_model import Break, Turn, common_prefix
from kvtools.diagnosis.turn_order import reordered_as
from kvtools.diagnosis.turn_sections import ANSWERS, HistoryChange, Section, history_change, mended
from kvtools.diagnosis.turn_text import UNKNOWN, TextChange, text_change

PLACE = "prompt"

_ROLE_MARK = re.compile(
    r"<\|im_start\|>(\w+)|<\|start_header_id\|>(\w+)<\|end_header_id\|>|<start_of_turn>(\w+)|<\|start\|>(\w+)"
    r"|<\|(system|user|assistant|observation|tool)\|>|<\uff5c(User|Assistant|System)\uff5c>|(\[INST\]|\[/INST\])"
)
_ENDED = re.compile(r".*(?:<\|(?:im_end|eot_id|eom_id|end|return|call)\|>|<end_of_turn>|</s>)", re.DOTALL)
_OTHER_END = "The template writes the end of a message otherwise in the history than for the live turn."
_BOS = (
    "<s>",
    "<|begin_of_text|>",
    "<bos>",
    "<\uff5cbegin\u2581of\u2581sentence\uff5c>",
    "<|startoftext|>",
    "<|endoftext|>",
    "[BOS]",
)


@dataclass(frozen=True, slots=True)
class _Answer:
    """Where the answer's section begins (characters, in both prompts), its text as it ran, and what was done to it."""

    start: int
    live: str
    change: TextChange


def starts_with_two_bos(text: str) -> bool:
    """Return whether a prompt's text begins with the same BOS mark twice: every block behind it is shifted by one."""
    return any(text.startswith(2 * mark) for mark in _BOS)


def prompt_sections(prompt: str) -> list[Section]:
    """Return the stretches of a rendered prompt from one role mark to the next; joined they are the prompt."""
    marks = list(_ROLE_MARK.finditer(prompt))
    starts = [mark.start() for mark in marks]
    roles = [
        next(name for name in mark.groups() if name).lower().replace("[/inst]", "[/INST]") for mark in marks
    ]
    if not marks or starts[0] > 0:
        starts, roles = [0, *starts], ["", *roles]
    ends = [*starts[1:], len(prompt)]
    return [Section(role, prompt[a:b]) for role, a, b in zip(roles, starts, ends, strict=True)]


def _live(earlier: Turn) -> str:
    """Return all the text that the earlier request ran through the model, but for the answer's end mark."""
    return (earlier.prompt or "") + without_end_mark(earlier.output or "")


def prompts_parted(earlier: Turn, later: Turn) -> Break | None:
    """Return what keeps the later prompt from extending the earlier one and its answer."""
    before, after = earlier.prompt or "", later.prompt or ""
    live = _live(earlier)
    place = common_prefix(live, after)
    if place in (len(live), len(after)) or _led_by_blanks(earlier, after):
        return None
    if starts_with_two_bos(before) != starts_with_two_bos(after):
        return Break(
            "double_bos", PLACE, place, "One of the prompts starts with the BOS mark twice, the other once."
        )
    found = _change(earlier, later)
    if found is None:
        return None
    change = found.change
    if isinstance(found, HistoryChange) and _behind_the_end(earlier, later, found):
        return Break("template_not_append_only", PLACE, place, _OTHER_END)
    return Break(change.kind, PLACE, place, change.detail)


def _led_by_blanks(earlier: Turn, after: str) -> bool:
    """Return whether the answer follows the earlier prompt behind blanks: logs trim what the model began with."""
    before, said = earlier.prompt or "", without_end_mark(earlier.output or "")
    return bool(said) and after.startswith(before) and after[len(before) :].lstrip().startswith(said)


def _behind_the_end(earlier: Turn, later: Turn, found: HistoryChange) -> bool:
    """Return whether a section differs only behind the mark that ends its message: no client writes there."""
    before, after = _histories(earlier, later)
    if before is None or found.dropped or found.inserted or found.moved:
        return False
    one, other = before[found.place].text, after[found.place].text
    ended = _ENDED.match(one)
    return ended is not None and other.startswith(ended.group())


def _change(earlier: Turn, later: Turn) -> HistoryChange | _Answer | None:
    one, other = _histories(earlier, later)
    if one is None:
        return _plain(earlier, later)
    before, after = one, other
    return history_change(before, after) or _answer(earlier, later, before)


def _histories(earlier: Turn, later: Turn) -> tuple[list[Section] | None, list[Section]]:
    """Return the sections in front of the answer that the earlier prompt asks for, and all of the later one's."""
    before, after = prompt_sections(earlier.prompt or ""), prompt_sections(later.prompt or "")
    if len(before) < 2 or len(after) < 2:
        return None, after
    return (before[:-1] if before[-1].role in ANSWERS else before), after


def _answer(earlier: Turn, later: Turn, before: list[Section]) -> _Answer | None:
    start = sum(len(section.text) for section in before)
    live, after = _live(earlier)[start:], prompt_sections((later.prompt or "")[start:])[0].text
    if not live or not (later.prompt or "").startswith("".join(section.text for section in before)):
        return None
    change = text_change(live, after, "assistant", grown=True, similar=False)
    if change is None:
        return None
    if change.kind == "edited_history":
        change = _other_answer(earlier, start + change.position, change)
    return _Answer(start, live, change)


def _other_answer(earlier: Turn, place: int, change: TextChange) -> TextChange:
    if place < len(earlier.prompt or ""):
        detail = "The template writes the start of an answer otherwise in the history than for the live turn."
        return TextChange("template_not_append_only", change.position, detail, UNKNOWN)
    detail = f"The history holds another answer than was generated, from character {place:,} on."
    return TextChange("edited_answer", change.position, detail, UNKNOWN)


def _plain(earlier: Turn, later: Turn) -> _Answer | None:
    """Return what was done to a prompt without role marks that the later one goes on with, where that is certain."""
    before, after, live = earlier.prompt or "", later.prompt or "", _live(earlier)
    for text in dict.fromkeys((live, before)):
        change = text_change(text, after, grown=True)
        if change is None:
            return None
        if change.kind != "edited_history":
            return _Answer(0, text, change)
    said = without_end_mark(earlier.output or "").strip()
    if len(said) < 2 or said not in after[common_prefix(before, after) :] or after.startswith(before):
        return None
    change = text_change(before, after, grown=True)
    return None if change is None else _Answer(0, before, change)


def prompts_rebuilt(earlier: Turn, later: Turn, found: Break) -> Turn | None:
    """Return the later turn with the text that its prompt would have without the break."""
    prompt = _rebuilt(earlier, later, found.kind)
    return None if prompt is None else replace(later, prompt=prompt, messages=None, token_ids=None)


def _rebuilt(earlier: Turn, later: Turn, kind: str) -> str | None:
    before, after = earlier.prompt or "", later.prompt or ""
    if kind == "double_bos":
        mark = next(mark for mark in _BOS if before.startswith(mark) and after.startswith(mark))
        return after[len(mark) :] if starts_with_two_bos(after) else mark + after
    change = _change(earlier, later)
    if change is None or kind == "schema_order":
        return None
    if isinstance(change, _Answer):
        return _answered(change, after)
    one, other = _histories(earlier, later)
    texts = [section.text for section in one or []], [section.text for section in other]
    if change.change.kind == "reordered_passages" and not change.moved:
        texts[1][change.place] = reordered_as(texts[0][change.place], texts[1][change.place])
        return "".join(texts[1])
    rebuilt = mended(one or [], other, texts, change)
    return None if rebuilt is None else "".join(rebuilt)


def _answered(found: _Answer, after: str) -> str | None:
    change = found.change
    if change.kind == "reordered_passages":
        return after[: found.start] + reordered_as(found.live, after[found.start :])
    if change.matched == UNKNOWN or change.kind in ("edited_history", "edited_answer", "schema_order"):
        return None
    return after[: found.start] + found.live + after[found.start + change.matched :]
