"""Text that refers to lines by number or place: such lines are not moved, since the words would point elsewhere."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

_THINGS = r"(?:document|doc|passage|example|source|chunk|snippet|excerpt|article|reference|citation|demonstration)s?"
_ORDER = (
    r"(?:first|second|third|fourth|fifth|last|latest|previous|next|above|below|following|\d+(?:st|nd|rd|th))"
)
_THINGS_ZH = r"(?:文档|文章|段落|例子|示例|资料|片段|来源)"
_PLACES = (
    rf"(?i)\b{_THINGS} ?(?:#|no\.? ?|number )?\d+\b",
    rf"(?i)\b{_ORDER} (?:\w+ )?{_THINGS}\b",
    rf"(?i)\b{_THINGS} (?:\w+ ){{0,2}}(?:above|below|before this|after this)\b",
    r"\[\d{1,3}\]",
    rf"第\s*[0-9一二三四五六七八九十]+\s*(?:个|条|篇|段|份)?{_THINGS_ZH}",
    rf"{_THINGS_ZH}\s*[0-9一二三四五六七八九十]+",
    rf"(?:以上|上述|上面的|下面的|以下|下列)(?:的)?(?:几个|这些|各)?{_THINGS_ZH}",
)

_NO_TEXT = re.compile("[\ud800-\udfff]")


def refers_to_place(text: str) -> bool:
    """Tell whether the text names passages or examples by number or place ("document 2", "the examples above")."""
    # The pattern is of UTF-8, which has no half of a pair: it is no word either.
    return _pattern().search(_NO_TEXT.sub("?", text)) is not None


@cache
def _pattern() -> Any:
    import re2  # noqa: PLC0415 - only where lines move

    return re2.compile("|".join(f"(?:{place})" for place in _PLACES))
