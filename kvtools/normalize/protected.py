"""Where blanks and line ends are content: code, preformatted text and diffs, as spans of characters.

Fences, indented blocks and code between backticks are told as CommonMark 0.31 tells them (sections 4.4, 4.5, 6.1);
where a reader could see more code than that, more is protected. Lines end in LF, CRLF or a lone CR alike, and a
no-break space counts as a blank. No rule of ``forms`` changes what decides about a span: the rules
are stable on a second pass.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

Span: TypeAlias = tuple[int, int]
"""First character and the one behind the last. A span of lines ends before the line end of its last line."""

_LINE = re.compile(r"([^\r\n]*)(?:\r\n?|\n|\Z)")
_BREAK_OR_TICKS = re.compile(r"(?:\r\n?|\n)[ \t]*(?=[\r\n])|`+")
_INDENT = re.compile(r" {0,3}\t| {4}")
_TICKS_OR_TILDES = r"(`{3,}(?=[^`]*$)|~{3,})"
_CLOSING = r"(`{3,}|~{3,})[ \t]*$"
_FENCES = (
    (re.compile(r" {0,3}" + _TICKS_OR_TILDES), re.compile(r" {0,3}" + _CLOSING)),
    # Inside lists and quotes, whose depth we don't follow.
    (
        re.compile(r"[ \t]*(?:(?:>|[-*+]|\d{1,9}[.)])[ \t]*)*" + _TICKS_OR_TILDES),
        re.compile(r"[ \t>]*" + _CLOSING),
    ),
)
_TAG = re.compile(r"<(pre|code|script|style|textarea)(?=[\s/>]|$)", re.IGNORECASE | re.ASCII)
_TAG_END = {
    tag: re.compile(f"</{tag}(?=[\\s>]|$)", re.IGNORECASE | re.ASCII)
    for tag in ("pre", "code", "script", "style", "textarea")
}
_DIFF_LINES = (
    *(" ", "+", "-", "\\", "@@", "diff -", "index ", "new file ", "deleted file ", "old mode ", "new mode "),
    *("similarity index ", "dissimilarity index ", "rename ", "copy ", "Binary files ", "GIT binary patch"),
)
_URL = re.compile(r"(?:://|www\.|mailto:)\S*")
_BRACKETS = re.compile(r'[{}\[\]"]|\\.', re.DOTALL)
_OPEN_BRACKET = re.compile(r"[{\[]")
_JSON_HEAD = re.compile(r'\{\s*"|\[\s*[\[{"]')
_STRAY_BRACKETS = 100
"""So many brackets may stay open; then the rest of the text is taken for JSON."""


def outside(text: str, spans: Iterable[Span], rewrite: Callable[[str], str]) -> str:
    """Return ``text`` with what lies between the spans rewritten, piece by piece."""
    pieces: list[str] = []
    place = 0
    for begin, end in spans:
        pieces += (rewrite(text[place:begin]), text[begin:end])
        place = end
    return "".join((*pieces, rewrite(text[place:])))


def verbatim_spans(text: str) -> list[Span]:
    """Return where even line ends stay: fenced code, preformatted HTML and unified diffs; what is open runs to the end.

    ``<code>``, ``<script>``, ``<style>`` and ``<textarea>`` count as ``<pre>`` does: prompts use them as fences.
    """
    if not _may_be_verbatim(text):
        return []
    text = _plain(text)
    return _merged(_verbatim(text, _lines(text)))


def code_spans(text: str) -> list[Span]:
    """Return where blanks and blank lines stay: the verbatim spans, and indented blocks with the lines inside them."""
    text = _plain(text)
    indented = "    " in text or "\t" in text
    verbatim = _may_be_verbatim(text)
    if not indented and not verbatim:
        return []
    lines = _lines(text)
    spans = list(_indented(text, lines))
    if verbatim:
        # A hunk may end in context lines that lost their blank: their number stays, whatever their line ends.
        spans += (*_verbatim(text, lines), *_diffs(text, lines, blank_end=True))
    return _merged(spans)


def machine_spans(text: str) -> list[Span]:
    """Return where characters stay: the code spans, code between backticks, JSON, and URLs up to the next blank."""
    text = _plain(text)
    urls = (match.span() for match in _URL.finditer(text))
    return _merged([*code_spans(text), *_inline_code(text), *_json(text), *urls])


def _plain(text: str) -> str:
    return text.replace("\u00a0", " ")


def _may_be_verbatim(text: str) -> bool:
    return "```" in text or "~~~" in text or "@@" in text or "+++" in text or "diff -" in text or "<" in text


def _lines(text: str) -> list[Span]:
    return [match.span(1) for match in _LINE.finditer(text)]


def _merged(spans: Iterable[Span]) -> list[Span]:
    merged: list[Span] = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((begin, end))
    return merged


def _verbatim(text: str, lines: Sequence[Span]) -> Iterator[Span]:
    if "```" in text or "~~~" in text:
        for opening, closing in _FENCES:
            yield from _fences(text, lines, opening, closing)
    if "<" in text:
        yield from _tags(text, lines)
    yield from _diffs(text, lines)


def _fences(
    text: str, lines: Sequence[Span], opening: re.Pattern[str], closing: re.Pattern[str]
) -> Iterator[Span]:
    mark, start = "", 0
    for begin, end in lines:
        if not mark:
            if opened := opening.match(text, begin, end):
                mark, start = opened.group(1), begin
        elif (closed := closing.match(text, begin, end)) and closed.group(1).startswith(mark):
            yield start, end
            mark = ""
    if mark:
        yield start, len(text)


def _tags(text: str, lines: Sequence[Span]) -> Iterator[Span]:
    """Yield the whole lines from an opening tag to its closing one."""
    starts = [begin for begin, _ in lines]
    place = 0
    while opened := _TAG.search(text, place):
        begin = lines[bisect_right(starts, opened.start()) - 1][0]
        closed = _TAG_END[opened.group(1).lower()].search(text, opened.end())
        if closed is None:
            yield begin, len(text)
            return
        place = closed.end()
        yield begin, lines[bisect_right(starts, closed.start()) - 1][1]


def _diffs(text: str, lines: Sequence[Span], *, blank_end: bool = False) -> Iterator[Span]:
    """Yield the lines of diffs, with ``blank_end`` the empty lines behind them too."""
    start: int | None = None
    last = 0
    for number, (begin, end) in enumerate(lines):
        if start is None:
            if _opens_diff(text, lines, number):
                start, last = begin, end
        elif text.startswith(_DIFF_LINES, begin) or (blank_end and begin == end):
            last = end
        elif begin < end:
            yield start, last
            start = None
    if start is not None:
        yield start, last


def _opens_diff(text: str, lines: Sequence[Span], number: int) -> bool:
    begin = lines[number][0]
    if text.startswith(("@@", "diff -"), begin):
        return True
    after = lines[number + 1][0] if number + 1 < len(lines) else len(text)
    return text.startswith("--- ", begin) and text.startswith("+++ ", after)


def _indented(text: str, lines: Sequence[Span]) -> Iterator[Span]:
    start: int | None = None
    last = 0
    for begin, end in lines:
        if _INDENT.match(text, begin, end):
            start, last = begin if start is None else start, end
        elif start is not None and text[begin:end].strip(" \t"):
            yield start, last
            start = None
    if start is not None:
        yield start, last


def _inline_code(text: str) -> Iterator[Span]:
    """Yield code between backticks: a run of them closes with the next run as long, in the same paragraph."""
    runs: list[Span] = []
    for match in _BREAK_OR_TICKS.finditer(text):
        if match.group()[0] == "`":
            runs.append(match.span())
        else:
            yield from _paired(runs)
            runs = []
    yield from _paired(runs)


def _paired(runs: Sequence[Span]) -> Iterator[Span]:
    following: list[int | None] = [None] * len(runs)
    seen: dict[int, int] = {}
    for number in range(len(runs) - 1, -1, -1):
        length = runs[number][1] - runs[number][0]
        following[number], seen[length] = seen.get(length), number
    number = 0
    while number < len(runs):
        closing = following[number]
        if closing is not None:
            yield runs[number][0], runs[closing][1]
        number = (number if closing is None else closing) + 1


def _json(text: str) -> Iterator[Span]:
    """Yield what stands in braces, and in brackets with a string or braces inside; strings are read as JSON's.

    What looks like JSON and stays open runs to the end.
    """
    place = stray = 0
    while match := _OPEN_BRACKET.search(text, place):
        begin = match.start()
        end = _closed(text, begin)
        if end is not None:
            if text[begin] == "{" or '"' in text[begin:end] or "{" in text[begin:end]:
                yield begin, end
            place = end
        elif stray >= _STRAY_BRACKETS or _JSON_HEAD.match(text, begin):
            yield begin, len(text)
            return
        else:
            stray += 1
            place = begin + 1


def _closed(text: str, begin: int) -> int | None:
    """Return the place behind the bracket that closes the one at ``begin``."""
    depth, quoted = 0, False
    for match in _BRACKETS.finditer(text, begin):
        sign = match.group()
        if sign == '"':
            quoted = not quoted
        elif not quoted and sign in "{[":
            depth += 1
        elif not quoted and sign in "}]":
            depth -= 1
            if depth == 0:
                return match.end()
    return None
