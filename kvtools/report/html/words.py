"""The words of the page in each language; English is the key, so that a word that is missing is still readable."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import msgspec

from kvtools.errors import UsageError
from kvtools.resources import bundled_templates

if TYPE_CHECKING:
    from collections.abc import Callable

LANGUAGES = {"en": "en", "zh": "zh-Hans"}
"""Languages of the page, each with its tag in HTML."""


@cache
def _catalogue(lang: str) -> dict[str, str]:
    if lang == "en":
        return {}
    path = bundled_templates() / "report" / f"words.{lang}.json"
    return msgspec.json.decode(path.read_bytes(), type=dict[str, str])


def words(lang: str) -> Callable[[str], str]:
    """Return what turns an English phrase of the page into ``lang``.

    Raises:
        UsageError: a language that the page is not written in.
    """
    if lang not in LANGUAGES:
        raise UsageError(f"--lang {lang}: the page is written in {', '.join(LANGUAGES)}.")
    catalogue = _catalogue(lang)
    return lambda phrase: catalogue.get(phrase, phrase)
