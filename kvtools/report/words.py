"""The words of terminal and page in each language: English is the key, so that a word that is missing is readable.

A phrase may have holes, ``{now} of prompt tokens hit``, which keep their names in every language. Renderers write
``say("{now} of prompt tokens hit", now=…)`` inside ``with spoken(lang)``. A report is always made in English, and JSON
is never translated: sentences that stand in it finished are recognised by their phrase (``told``).
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Final

import msgspec

from kvtools.errors import UsageError
from kvtools.resources import bundled_templates

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LANGUAGES: Final = {"en": "en", "zh": "zh-Hans"}
"""Languages of reports, each with its tag in HTML."""

_spoken: ContextVar[str] = ContextVar("_spoken", default="en")
_HOLE = re.compile(r"\{(\w+)\}")
_LEAST_OWN_CHARS = 6
_LONGEST_SENTENCE = 1_000
"""Characters; a longer text is a log's own, not a sentence of ours."""


@cache
def _catalogue(lang: str) -> dict[str, str]:
    if lang == "en":
        return {}
    path = bundled_templates() / "report" / f"words.{lang}.json"
    return msgspec.json.decode(path.read_bytes(), type=dict[str, str])


def words(lang: str) -> Callable[[str], str]:
    """Return what turns an English phrase without holes into ``lang``.

    Raises:
        UsageError: a language that reports are not written in.
    """
    if lang not in LANGUAGES:
        raise UsageError(f"--lang {lang}: the page is written in {', '.join(LANGUAGES)}.")
    catalogue = _catalogue(lang)
    return lambda phrase: catalogue.get(phrase, phrase)


@contextmanager
def spoken(lang: str) -> Iterator[None]:
    """Let ``say`` and ``told`` speak ``lang`` inside.

    Raises:
        UsageError: a language that reports are not written in.
    """
    words(lang)
    before = _spoken.set(lang)
    try:
        yield
    finally:
        _spoken.reset(before)


def in_english() -> bool:
    """Return whether English is spoken."""
    return _spoken.get() == "en"


def say(text: str, /, **values: object) -> str:
    """Return a phrase in the language that is spoken, its holes filled with ``values`` as they are."""
    found = _catalogue(_spoken.get()).get(text, text)
    return found.format(**values) if values else found


def phrase(text: str) -> str:
    """Return ``text``: marks a phrase that is said elsewhere, so that a test finds it."""
    return text


def told(sentence: str) -> str:
    """Return a finished English sentence of ours in the language that is spoken; another text as it is.

    What filled its holes is told in turn: ``3 blocks``, or ``user id, date``, whose parts are told one by one.
    """
    lang = _spoken.get()
    if lang == "en" or len(sentence) > _LONGEST_SENTENCE:
        return sentence
    catalogue = _catalogue(lang)
    for form in (sentence, f"{sentence}s" if sentence.startswith("1 ") else sentence):
        if form in catalogue:
            return catalogue[form]
        for pattern, translation in _patterns(lang):
            match = pattern.fullmatch(form)
            if match is not None:
                return translation.format(**{name: _part(value) for name, value in match.groupdict().items()})
    return sentence


def told_line(line: str) -> str:
    """Return a finished line in the language that is spoken: its indent stays, and parts between `` · `` are told."""
    text = line.lstrip(" ")
    return line[: len(line) - len(text)] + " · ".join(map(told, text.split(" · ")))


def _part(value: str) -> str:
    parts = value.split(", ")
    listed = [told(part) for part in parts]
    if len(parts) > 1 and all(part != found for part, found in zip(parts, listed, strict=True)):
        return "、".join(listed)
    return told(value)


@cache
def _patterns(lang: str) -> list[tuple[re.Pattern[str], str]]:
    """Return the phrases with holes as patterns, those with most text of their own first.

    A phrase with hardly any, ``{rate} at {size}``, would be found in texts that are not ours: only ``say`` says it.
    """
    holed = [(key, text) for key, text in _catalogue(lang).items() if _holds_enough(key)]
    holed.sort(key=lambda entry: (-len(_HOLE.sub("", entry[0])), "{count}" not in entry[0], entry[0]))
    return [(_pattern(key), text) for key, text in holed]


def _holds_enough(key: str) -> bool:
    holes = _HOLE.findall(key)
    return bool(holes) and (holes == ["count"] or len(_HOLE.sub("", key)) >= _LEAST_OWN_CHARS)


def _pattern(key: str) -> re.Pattern[str]:
    """Return what matches a filled phrase; ``count`` holds digits, and a name that comes again the same text."""
    parts = _HOLE.split(key)
    written, seen = [re.escape(parts[0])], set[str]()
    for name, text in zip(parts[1::2], parts[2::2], strict=True):
        held = r"[\d,]+" if name == "count" else ".+?"
        written += [f"(?P={name})" if name in seen else f"(?P<{name}>{held})", re.escape(text)]
        seen.add(name)
    return re.compile("".join(written))
