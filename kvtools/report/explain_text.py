"""The report on one request on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len

from kvtools.prefixes.parting import RUN_TOKENS
from kvtools.report.numbers import counted
from kvtools.report.words import say, spoken, told, told_line

if TYPE_CHECKING:
    from kvtools.report.explain import CacheFigures, Explanation, Parting, RequestName, Shown
    from kvtools.report.model import Coverage, Settings

ID_CHARS = 40
WHOLE = "prompt"
"""The section of a prompt that is one text: naming it says nothing new."""

_VALUE_CELLS, _BEFORE_CELLS, _EXCERPT_CELLS = 32, 12, 60


def render_explanation(report: Explanation, *, again: str | None = None, lang: str = "en") -> str:
    """Return the report as text in ``lang``; ``again``: the command that made it, to build the next step from."""
    lines = [headline(report), *_parting(report), *_behind(report), *_hits(report), _which(report)]
    lines += basis(report.settings, report.cache, report.coverage)
    lines = in_language(lines, lang)
    if (
        again is not None
        and report.parting is not None
        and report.parting.masked
        and _has_text(report.parting)
    ):
        with spoken(lang):
            lines += ["", f"{say('Next: ')}{again} --show-text"]
    return "\n".join(lines) + "\n"


def in_language(lines: list[str], lang: str) -> list[str]:
    """Return finished lines in ``lang``; an excerpt of a prompt stays as it is."""
    with spoken(lang):
        return [_told_excerpt(line) if "▌" in line else told_line(line) for line in lines]


def _told_excerpt(line: str) -> str:
    """Return the excerpt as it is, with its name behind it told: ``this request`` or an id."""
    excerpt, gap, name = line.rpartition("▐")
    between = name.rpartition("   ")
    return excerpt + gap + between[0] + between[1] + told(between[2])


def shown_name(request: RequestName) -> str:
    """Return the id of a request as one line, its place where it has none."""
    name = printable(request.id or request.source)
    if len(name) <= ID_CHARS:
        return name
    # Of a place the end tells most: the file and the line.
    return name[: ID_CHARS - 1] + "…" if request.id else "…" + name[1 - ID_CHARS :]


def printable(text: str) -> str:
    """Return text for a terminal: line ends and control characters as escapes, so that none of them acts."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def where(parting: Parting, length: int, block_size: int) -> str:
    """Say where two prompts part, in the units that are known."""
    first = parting.block * block_size
    if parting.token is None:
        place = f"in block {parting.block:,} (tokens {first:,}-{first + block_size - 1:,} of {length:,})"
    else:
        place = f"at token {parting.token:,} of {length:,}"
    if parting.media:
        return f"{place}, in a block whose picture or sound differs"
    return place if parting.character is None else f"{place}, character {parting.character:,} of the prompt"


def excerpt_lines(parting: Parting, names: tuple[str, str]) -> list[str]:
    """Return both values with a bit of context, and their sections."""
    values = [
        (_excerpt(shown), name) for shown, name in zip((parting.this, parting.that), names, strict=True)
    ]
    width = max(cell_len(excerpt or "") for excerpt, _ in values)
    lines = [
        f"   {excerpt}{' ' * (width - cell_len(excerpt))}   {name}"
        for excerpt, name in values
        if excerpt is not None
    ]
    if parting.this.section == parting.that.section == WHOLE:
        return lines
    this, that = _section(parting.this), _section(parting.that)
    if this == that and this:
        lines.append(f"In {this}.")
    elif this or that:
        lines.append(
            f"In {this or 'the text of the template'} here, {that or 'the text of the template'} there."
        )
    return lines


def headline(report: Explanation) -> str:
    """Say first what parted, or that nothing did."""
    if report.nearest is None:
        others = report.place - 1
        if not others:
            return "First request of the log: the cache is empty, so nothing can hit."
        return (
            f"First of its kind: none of the {counted(others, 'request')} before it has its model, adapter and "
            "salt, so nothing can hit."
        )
    name = f"{shown_name(report.nearest)}{_earlier(report.earlier_us)}"
    length = report.request.prompt_tokens
    if report.outcome == "contained":
        return f"Nothing parted: all {counted(length, 'token')} stand at the beginning of {name}."
    if report.outcome == "continues":
        new = length - report.shared_tokens
        return (
            f"Nothing parted: it continues {name} and adds {counted(new, 'token')}, seen for the first time."
        )
    if report.parting is None or not report.shared_tokens:
        start = "no earlier request begins with the same " + (
            "token" if report.parting and report.parting.token is not None else "block"
        )
        return f"Parted from the first token on: {start}; compared with the latest, {name}."
    return f"Parted from {name} {where(report.parting, length, report.cache.block_size)}."


def _earlier(earlier_us: int | None) -> str:
    if earlier_us is None:
        return ""
    seconds = earlier_us / 1e6
    if seconds < 1:
        return " (less than 1 s earlier)"
    if seconds < 120:
        return f" ({seconds:,.0f} s earlier)"
    return f" ({seconds / 60:,.0f} min earlier)" if seconds < 7200 else f" ({seconds / 3600:,.1f} h earlier)"


def _parting(report: Explanation) -> list[str]:
    if report.parting is None:
        return []
    lines = excerpt_lines(report.parting, ("this request", "that one"))
    field = report.parting.field
    return lines if field is None else [*lines, f"Field: {field.replace('_', ' ')}."]


def _behind(report: Explanation) -> list[str]:
    behind = report.identical_tokens_behind
    if report.parting is not None and report.parting.media:
        return [
            "What is equal behind it is not counted: placeholder tokens are equal whatever a picture shows."
        ]
    if behind is None:
        return (
            ["What is equal behind it cannot be told: the log holds block ids, not tokens."]
            if report.parting
            else []
        )
    if not behind:
        return [f"Behind it no run of {RUN_TOKENS} tokens is the same in both."] if report.parting else []
    return [f"Behind it {counted(behind, 'identical token')} were computed again."]


def _hits(report: Explanation) -> list[str]:
    size = report.cache.capacity_blocks
    cache = "an unlimited cache" if size is None else counted(size, "block")
    if not report.queried_tokens:
        skipped = "It does no lookup (prompt_logprobs), or does not fit into the cache: nothing is counted as queried."
        return [skipped]
    lines = [
        f"{report.hit_tokens:,} of {counted(report.queried_tokens, 'token')} hit in {cache} ({_reason(report)})."
    ]
    if report.ceiling_hit_tokens > report.hit_tokens:
        lost = report.ceiling_hit_tokens - report.hit_tokens
        lines.append(f"{counted(lost, 'token')} more would hit in an unlimited cache: evicted before.")
    if report.reported_hit_tokens is not None:
        lines.append(f"The server reported {report.reported_hit_tokens:,}.")
    return lines


def _reason(report: Explanation) -> str:
    unit = f"only full blocks of {report.cache.block_size:,} tokens"
    if report.cache.rules == "trace":
        return f"blocks of {report.cache.block_size:,} tokens"
    return f"{unit}, and one token is always computed" if report.outcome == "contained" else unit


def _which(report: Explanation) -> str:
    order = "by arrival" if report.settings.order == "arrival" else "as logged"
    return f"  request {report.place:,} of {report.requests:,} ({order}) · {printable(report.request.source)}"


def basis(settings: Settings, cache: CacheFigures, coverage: Coverage) -> list[str]:
    """Return what the figures rest on: tokenizer and template, cache, and how much of the log was read."""
    template = "" if settings.tokenizer_check == "not needed" else f", {settings.chat_template} template"
    rejected = f", {coverage.rejected:,} rejected" if coverage.rejected else ""
    size = "unlimited cache" if cache.capacity_blocks is None else counted(cache.capacity_blocks, "block")
    return [
        f"  {settings.tokenizer}{template} · {cache.model}, block {cache.block_size:,} · {size}",
        f"  read {coverage.read:,} records{rejected}",
    ]


def _section(shown: Shown) -> str | None:
    if shown.section is None:
        return None
    name = printable(shown.section)
    return name if shown.section_character is None else f"{name}, character {shown.section_character:,}"


def _excerpt(shown: Shown) -> str | None:
    """Return the value between bars with as much around it as a line holds; wide characters take two cells."""
    if shown.value is None:
        return None
    value, gone = _first_cells(printable(shown.value), _VALUE_CELLS)
    before, more = _first_cells(printable(shown.before or "")[::-1], _BEFORE_CELLS)
    room = _EXCERPT_CELLS - cell_len(value) - cell_len(before)
    after, _ = _first_cells("" if gone else printable(shown.after or ""), room)
    head = "…" if more or shown.before else ""
    return f"{head}{before[::-1]}▌{value}{'…' if gone or shown.cut else ''}▐{after}{'…' if after else ''}"


def _first_cells(text: str, cells: int) -> tuple[str, bool]:
    """Return the beginning of ``text`` that fits, and whether something was left out."""
    width = 0
    for place, char in enumerate(text):
        width += cell_len(char)
        if width > cells:
            return text[:place], True
    return text, False


def _has_text(parting: Parting) -> bool:
    return parting.this.value is not None
