"""Places of a template that vary and hold no value: one text in several byte forms, and classes of requests.

A class is what few values select that come again and again ("mode 1", "mode 2"): each has a prefix of its own that is
reused. To move the value would gain its first computation and nothing behind it, and would take a word that selects
the meaning out of its sentence.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kvtools.normalize.forms import TEXT_RULES, OneForm, one_form
from kvtools.table import digest64

if TYPE_CHECKING:
    from kvtools.fields import Learned

CLASS_VALUES = 8
"""More values than this are no few."""

CLASS_REQUESTS = 3
"""Each value of a class stands in so many requests: two may meet by chance."""

_CLASS_KINDS = frozenset({"text", "number"})
"""Kinds that say nothing of how often they change. A time, an id or a name goes on to change, however few were seen."""

_RULES = tuple(TEXT_RULES)


def is_class(learned: Learned, unit: tuple[int, ...]) -> bool:
    """Return whether the values of a unit of gaps tell a few classes apart: all are short and come again and again."""
    gaps = [learned.template.gaps[gap] for gap in unit]
    if any(gap.kind.name not in _CLASS_KINDS or gap.shape != "field" for gap in gaps):
        return False
    requests = Counter[tuple[str, ...]]()
    for text, row in zip(learned.texts, learned.values, strict=True):
        requests[tuple(row[gap] for gap in unit)] += text.requests
        if len(requests) > CLASS_VALUES:
            return False
    return min(requests.values()) >= CLASS_REQUESTS


def byte_forms(learned: Learned, unit: tuple[int, ...]) -> tuple[str, ...]:
    """Return the fewest rules that make the values of a unit one; nothing where they differ in more than byte forms.

    Such a place holds no value: it is one text, written in several ways, and to move it would only hide that.
    """
    base = list(learned.values[0])
    texts: list[str] = []
    for value in sorted({tuple(row[gap] for gap in unit) for row in learned.values}):
        for gap, part in zip(unit, value, strict=True):
            base[gap] = part
        # In its text, for the rules leave code and the like as it is.
        texts.append(learned.template.render(base))
        if one_form(texts[-1], _RULES) != one_form(texts[0], _RULES):
            return ()
    rules = _RULES if len(texts) > 1 else ()
    for rule in rules:
        fewer = tuple(kept for kept in rules if kept != rule)
        if len({one_form(text, fewer) for text in texts}) == 1:
            rules = fewer
    return rules


def one_form_of(learned: Learned, rules: tuple[str, ...]) -> OneForm:
    """Return what makes one form, by these rules, of the texts of a template and of no others."""
    texts = frozenset(digest64(one_form(text.text, rules)) for text in learned.texts)
    return OneForm(learned.template.role, rules, texts)
