"""Two requests side by side, as a report shows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvtools.chat.sections import section_at
from kvtools.fields.catalogue import Catalogue
from kvtools.flow.section_map import section_of_token
from kvtools.prefixes.parting import common_length, excerpts, first_difference, identical_tokens, masked
from kvtools.report.explain import Parting, RequestName, Shown

if TYPE_CHECKING:
    from kvtools.flow.requests import Prompt, Requests
    from kvtools.flow.section_map import TokenSection
    from kvtools.prefixes.parting import Excerpt

UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two: which request it is, its prompt (``None``: not read), the sections that its trace lists."""

    index: int
    prompt: Prompt | None
    sections: list[TokenSection]


@dataclass(frozen=True, slots=True)
class Compared:
    """How far two requests are equal, where they part (``None``: one is all of the other's beginning), what follows."""

    shared_tokens: int
    shared_blocks: int
    parting: Parting | None
    identical_behind: int | None


def compare_prompts(
    requests: Requests, one: Side, other: Side, block_size: int, *, show_text: bool
) -> Compared:
    """Compare two requests token by token, or block by block where only block ids are known."""
    blocks = common_length(requests.keys.row(one.index), requests.keys.row(other.index))
    mine, theirs = (None if side.prompt is None else side.prompt.tokens for side in (one, other))
    lengths = [int(requests.columns["prompt_tokens"][side.index]) for side in (one, other)]
    if mine is None or theirs is None:
        shared = min(blocks * block_size, *lengths)
        whole = blocks == min(len(requests.keys.row(side.index)) for side in (one, other))
        parting = None if whole else _parted(one, other, shared, blocks, tokens=False, show_text=show_text)
        return Compared(shared, blocks, parting, None)
    equal = common_length(mine, theirs)
    # Equal tokens under different keys: a picture or sound that shows something else, or another namespace.
    full = min(equal // block_size, len(requests.keys.row(one.index)), len(requests.keys.row(other.index)))
    media = blocks < full and requests.same_namespace(one.index, other.index)
    shared = blocks * block_size if media else equal
    # Placeholder tokens are equal whatever a picture shows: behind one, equal tokens prove nothing.
    behind = None if media else identical_tokens(mine[shared:], theirs[shared:])
    if shared == min(lengths):
        return Compared(shared, blocks, None, behind)
    at = shared // block_size
    parting = _parted(one, other, shared, at, tokens=True, media=media, show_text=show_text)
    return Compared(shared, blocks, parting, behind)


def request_name(requests: Requests, index: int) -> RequestName:
    """Return a request as it stands in a report."""
    arrival = int(requests.columns["arrival_us"][index])
    return RequestName(
        id=requests.ids[index].as_py(),
        source=requests.place(index),
        arrival_us=None if arrival == UNKNOWN else arrival,
        prompt_tokens=int(requests.columns["prompt_tokens"][index]),
    )


def _parted(
    one: Side,
    other: Side,
    token: int,
    block: int,
    *,
    tokens: bool,
    show_text: bool,
    media: bool = False,
) -> Parting:
    texts = [None if side.prompt is None else side.prompt.text for side in (one, other)]
    character: int | None = None
    pair: tuple[Excerpt | None, Excerpt | None] = (None, None)
    if texts[0] is not None and texts[1] is not None and not media:
        character = first_difference(texts[0], texts[1])
        pair = excerpts(texts[0], texts[1], character)
    return Parting(
        token=token if tokens else None,
        block=block,
        character=character,
        media=media,
        field=_kind(pair[0], pair[1]),
        masked=not show_text,
        this=_shown(one, token, character, pair[0], show_text=show_text),
        that=_shown(other, token, character, pair[1], show_text=show_text),
    )


def _kind(one: Excerpt | None, other: Excerpt | None) -> str | None:
    """Return what kind of value the two prompts part in, ``None`` where it is just text."""
    if one is None or other is None or not (one.value and other.value):
        return None
    kind = Catalogue.bundled().kind_of([one.value, other.value], one.before, one.after).name
    return None if kind in {"text", "number"} else kind


def _shown(
    side: Side, token: int, character: int | None, excerpt: Excerpt | None, *, show_text: bool
) -> Shown:
    place: tuple[str, int | None] | None = None
    if character is not None and side.prompt is not None:
        place = section_at(side.prompt.sections, character)
    elif side.sections:
        section = section_of_token(side.sections, token)
        place = None if section is None else (section, None)
    shown = excerpt if excerpt is None or show_text else masked(excerpt)
    return Shown(
        section=None if place is None else place[0],
        section_character=None if place is None else place[1],
        before=None if shown is None else shown.before,
        value=None if shown is None else shown.value,
        after=None if shown is None else shown.after,
        cut=False if shown is None else shown.cut,
    )
