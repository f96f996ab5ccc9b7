"""Two versions of one text: what was done to the first to make it the second."""

from __future__ import annotations

import itertools
import re
import unicodedata
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from kvtools.diagnosis.turn_json import respelled
from kvtools.diagnosis.turn_model import common_prefix, common_suffix
from kvtools.diagnosis.turn_order import order_moved
from kvtools.normalize.forms import line_ends

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvtools.diagnosis.turn_json import Spelling

_MONTH = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_CLOCK = re.compile(
    rf"""
    \d{{4}}-\d\d-\d\d (?: [T\ ] \d\d:\d\d (?: :\d\d (?: [.,]\d+ )? )? (?: \ ?(?:Z|UTC|GMT|[+-]\d\d:?\d\d) )? )?
    | \d{{4}}/\d{{1,2}}/\d{{1,2}} | \d{{1,2}}[./]\d{{1,2}}[./]\d{{4}} | \d{{4}}年\d{{1,2}}月\d{{1,2}}日
    | (?:(?:Mon|Tues?|Wed(?:nes)?|Thu(?:rs)?|Fri|Sat(?:ur)?|Sun)(?:day)?,?\ )?
      (?: \d{{1,2}}\ {_MONTH}\ \d{{4}} | {_MONTH}\ \d{{1,2}},?\ \d{{4}} )
    | \b(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day\b
    | (?<!\d) [012]?\d:[0-5]\d (?: :[0-5]\d (?: [.,]\d+ )? )? (?: \ ?[AaPp]\.?[Mm]\.? )? (?!\d)
    | (?<!\d) 1\d{{9}} (?: \d{{3}} )? (?: \.\d+ )? (?!\d)
    """,
    re.VERBOSE,
)
"""Dates, times of day and epoch seconds or milliseconds; the values only, nothing around them."""

_THOUGHT = re.compile(
    r"<(think|thinking|reasoning|thought)>(?P<tag>.*?)(?:</\1>\s*|\Z)|\[THINK\](?P<mistral>.*?)(?:\[/THINK\]\s*|\Z)"
    r"|<\|channel\|>analysis<\|message\|>(?P<harmony>.*?)(?:<\|end\|>(?:<\|start\|>assistant)?|\Z)",
    re.DOTALL,
)
"""Reasoning as most families write it, as Mistral does, and as gpt-oss does (with the head of what follows)."""

_SAYS_SHORTENED = re.compile(
    r"\.\.\.|…|truncat|omitted|elided|redacted|removed|cleared|shortened|compacted|snip|more (?:lines|chars)|省略|截断",
    re.IGNORECASE,
)
_MARK_CHARACTERS = 200
_MARGIN_CHARACTERS = 16
"""What stands for a removed piece is at most so long, and shorter than the piece by this much."""

_SEARCHED_CHARACTERS = 256

UNKNOWN = -1
"""``TextChange.matched`` where the end of the earlier text cannot be found in the later one."""


@dataclass(frozen=True, slots=True)
class TextChange:
    """What was done to a text.

    ``position``: characters before the first difference. ``matched``: so many characters of the later text stand
    for the earlier one (``UNKNOWN`` where that cannot be told).
    """

    kind: str
    position: int
    detail: str
    matched: int


def without_thoughts(text: str) -> str:
    """Return ``text`` without its ``<think>`` blocks (one that is left open ends with the text)."""
    return _THOUGHT.sub("", text)


def clock_value_at(text: str, position: int) -> str | None:
    """Return the date or time of day that covers the character at ``position``, or touches it from the left."""
    for match in _CLOCK.finditer(text, max(0, position - 64)):
        if match.start() <= position <= match.end():
            return match.group()
        if match.start() > position:
            break
    return None


def _no_trailing_blanks(text: str) -> str:
    # The blanks before a line's end and at the text's end; which line end it is, is another question.
    return re.sub(r"[ \t\u00a0]++(?=\r|\n|\Z)", "", text).rstrip("\r\n")


def _composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def _one_space(text: str) -> str:
    return " ".join(text.split())


_FORMS: dict[str, tuple[Callable[[str], str], str]] = {
    "line_ends": (line_ends, "line ends"),
    "trailing_blanks": (_no_trailing_blanks, "trailing blanks"),
    "unicode_form": (_composed, "Unicode form"),
    "whitespace": (_one_space, "blanks and line breaks"),
}

_NARROW = ("line_ends", "trailing_blanks", "unicode_form")
_FORM_SETS = (
    *(names for size in (1, 2, 3) for names in itertools.combinations(_NARROW, size)),
    ("whitespace",),
    ("whitespace", "unicode_form"),
)
"""What may differ, least first: several kinds of bytes may have drifted at once."""


def text_change(
    before: str, after: str, role: str = "", *, grown: bool = False, similar: bool = True
) -> TextChange | None:
    """Return what was done to ``before`` to make ``after``, or ``None`` where they are equal.

    With ``grown`` the later text may go on behind the earlier one. ``role`` is the message's: only a tool's output
    is cut without a word. ``similar`` false leaves out the kinds that keep only a part of the text.
    """
    if before == after or (grown and after.startswith(before)):
        return None
    found = _thoughts(before, after, grown=grown) or _form(before, after, grown=grown)
    found = found or _clock(before, after, grown=grown) or _json(before, after, grown=grown)
    if found is None and similar:
        found = (None if grown else _shortened(before, after, role)) or _reordered(before, after)
    if found is None:
        shared = common_prefix(before, after)
        detail = f"The text was changed after {shared:,} of {len(before):,} characters."
        found = TextChange("edited_history", shared, detail, len(after))
    return found


def _matched(before: str, after: str, same: Callable[[str], str], *, grown: bool) -> int | None:
    """Return how many characters of ``after`` are ``before`` when ``same`` is done to both, or ``None``."""
    wanted, whole = same(before), same(after)
    if wanted == whole:
        return len(after)
    if not grown or not wanted or not whole.startswith(wanted):
        return None
    # The shortest beginning that gives as much text.
    low, high = 0, len(after)
    while low < high:
        middle = (low + high) // 2
        if len(same(after[:middle])) >= len(wanted):
            high = middle
        else:
            low = middle + 1
    # A value that the cut goes through is longer than what stands for it: the end lies a little further.
    ends = range(low, min(low + _SEARCHED_CHARACTERS, len(after)) + 1)
    return next((end for end in ends if same(after[:end]) == wanted), UNKNOWN)


def _thoughts(before: str, after: str, *, grown: bool) -> TextChange | None:
    thought = _THOUGHT.search(before)
    if thought is None:
        # A template may also write an empty block into the history that it had not written before.
        return _empty_thought_added(before, after, grown=grown)
    if _THOUGHT.match(after, thought.start()):
        return None
    kept = without_thoughts(before)
    matched = _matched_behind(kept, after, thought.start(), grown=grown)
    if matched is None:
        return None
    shared = common_prefix(before, after)
    if not _thought_of(thought):
        detail = "The template writes an empty thought for the live turn and leaves it out of the history."
        return TextChange("template_not_append_only", shared, detail, matched)
    detail = (
        f"{len(before) - len(kept):,} characters of reasoning were generated and are not in the history; "
        "keeping them costs as much context."
    )
    return TextChange("reasoning_stripped", shared, detail, matched)


def _matched_behind(kept: str, after: str, start: int, *, grown: bool) -> int | None:
    """Return how many characters of ``after`` are ``kept``, whatever blanks stand where the thought stood."""
    if not grown:
        return len(after) if kept.strip() == after.strip() else None
    said, rest = kept[start:].lstrip(), after[start:].lstrip()
    if kept[:start] != after[:start] or not rest.startswith(said):
        return None
    return len(after) - len(rest) + len(said) if said else start


def _thought_of(match: re.Match[str]) -> str:
    return next((text for text in match.groupdict().values() if text), "").strip()


def _empty_thought_added(before: str, after: str, *, grown: bool) -> TextChange | None:
    thought = _THOUGHT.search(after)
    if thought is None or _thought_of(thought) or thought.group() in before:
        return None
    rest = after[: thought.start()] + after[thought.end() :]
    if rest != before and not (grown and rest.startswith(before) and thought.start() <= len(before)):
        return None
    detail = "The template writes an empty thought into the history that the live turn did not have."
    matched = len(before) + len(thought.group())
    return TextChange("template_not_append_only", common_prefix(before, after), detail, matched)


def _form(before: str, after: str, *, grown: bool) -> TextChange | None:
    for names in _FORM_SETS:
        matched = _matched(before, after, partial(_formed, names=names), grown=grown)
        if matched is not None:
            what = " and ".join(_FORMS[name][1] for name in names)
            later = after if matched == UNKNOWN else after[:matched]
            detail = f"The texts differ only in {what}{_code_points(before, later, names)}."
            return TextChange(names[0], common_prefix(before, after), detail, matched)
    return None


def _formed(text: str, names: tuple[str, ...]) -> str:
    for name in names:
        text = _FORMS[name][0](text)
    return text


def _code_points(before: str, after: str, names: tuple[str, ...]) -> str:
    if "unicode_form" not in names:
        return ""
    start = common_prefix(before, after)
    end = min(common_suffix(before, after), min(len(before), len(after)) - start)
    counts = f"{len(before) - end - start:,} code points in one, {len(after) - end - start:,} in the other"
    return f" ({counts}, canonically equivalent)"


def _clock(before: str, after: str, *, grown: bool) -> TextChange | None:
    matched = _matched(before, after, lambda text: _CLOCK.sub("\0", text), grown=grown)
    if matched is None:
        return None
    if (
        grown
        and matched != UNKNOWN
        and (value := _CLOCK.search(after, max(0, matched - 64)))
        and value.start() < matched
    ):
        matched = max(matched, value.end())
    detail = "Only dates or times differ: the text carries another timestamp than before."
    return TextChange("restamped_history", common_prefix(before, after), detail, matched)


_JSON_KINDS: dict[Spelling, tuple[str, str]] = {
    "spacing": ("json_spacing", "The JSON in the texts is equal, written with other spaces or escapes."),
    "keys": ("json_key_order", "The JSON in the texts is equal, with its keys in another order."),
    "schema": (
        "schema_order",
        "The JSON in the texts differs only in the order inside a schema, which a model follows: no fix is proposed.",
    ),
}


def _json(before: str, after: str, *, grown: bool) -> TextChange | None:
    if not ("{" in before or "[" in before):
        return None
    for spelling, (kind, detail) in _JSON_KINDS.items():
        matched = _matched(before, after, partial(respelled, spelling=spelling), grown=grown)
        if matched is not None:
            return TextChange(kind, common_prefix(before, after), detail, matched)
    return None


def _shortened(before: str, after: str, role: str) -> TextChange | None:
    start = common_prefix(before, after)
    end = common_suffix(before[start:], after[start:])
    mark, gone = after[start : len(after) - end], len(before) - start - end
    says = _SAYS_SHORTENED.search(mark) is not None
    is_tool = role in ("tool", "function", "ipython", "observation")
    if len(mark) > _MARK_CHARACTERS or len(mark) + _MARGIN_CHARACTERS > gone:
        return None
    if not (says or (is_tool and start + end > 0)):
        return None
    kind = "truncated_tool_output" if is_tool else "truncated_history"
    detail = f"{gone:,} of {len(before):,} characters were cut, {len(mark):,} stand in their place."
    return TextChange(kind, start, detail, len(after))


def _reordered(before: str, after: str) -> TextChange | None:
    for separator, name in (("\n\n", "paragraphs"), ("\n", "lines")):
        one, other = before.split(separator), after.split(separator)
        moved = order_moved(one, other)
        if moved:
            detail = f"{moved} {name} stand in another order than before; a fixed order changes what the model reads."
            return TextChange("reordered_passages", common_prefix(before, after), detail, len(after))
    return None
