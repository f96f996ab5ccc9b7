"""RAGPulse prompts as sections: the component ids of a trace with the lengths from the files beside it.

A trace alone says how long a prompt is, not its components; their lengths in tokens stand in one file per kind
(``1_sys_prompt.jsonl`` to ``5_web_search.jsonl``, an id and ``token_length`` a line). Format:
github.com/flashserve/RAGPulse, ``data/``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from kvtools.errors import InputError
from kvtools.readers.lines import lines
from kvtools.readers.ragpulse import RagPulseRecord, components
from kvtools.readers.records import Rejected, decode
from kvtools.readers.sources import unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from kvtools.readers.lines import Line

_SYSTEM = "sys_prompt"
_LABELS = {
    "passages_ids": "passages",
    "history": "history",
    "web_search": "web search",
    "user_input": "user input",
}
_LENGTH_FILES = {
    "1_sys_prompt.jsonl": "sys_prompt_id",
    "2_passages.jsonl": "passage_id",
    "3_history.jsonl": "history_id",
    "4_user_input.jsonl": "user_input_id",
    "5_web_search.jsonl": "web_search_id",
}


@dataclass(frozen=True, slots=True, eq=False)
class RagPulseSections:
    """The requests of a trace, in its order.

    ``sections``: ``system part 1`` and so on, then the other kinds, in prompt order. ``requests``: per request one
    list of component ids for each section. ``length_of``: tokens of each id. ``rejects``: records that could not
    be used, as rows of the table of rejects.
    """

    sections: tuple[str, ...]
    requests: list[list[list[int]]]
    length_of: Mapping[int, int]
    rejects: list[tuple[str, str, str]]


def ragpulse_sections(trace: Path) -> RagPulseSections:
    """Read a trace and the lengths of its components.

    Raises:
        InputError: the trace or a file of lengths is missing, cannot be read, or a length is none.
    """
    length_of = _lengths(trace.parent)
    kept: list[dict[str, list[int]]] = []
    rejects: list[tuple[str, str, str]] = []
    decoder = msgspec.json.Decoder(RagPulseRecord)
    for line in _lines(trace):
        try:
            held = components(decode(line, decoder))
            _check_lengths(held, length_of)
        except Rejected as fault:
            rejects.append((f"{trace}:{line.number}", fault.reason, fault.detail))
        else:
            kept.append(held)
    parts = max((len(held[_SYSTEM]) for held in kept), default=0)
    sections = (*(f"system part {place + 1}" for place in range(parts)), *_LABELS.values())
    return RagPulseSections(sections, [_by_section(held, parts) for held in kept], length_of, rejects)


def _check_lengths(held: dict[str, list[int]], length_of: Mapping[int, int]) -> None:
    for ids in held.values():
        for one in ids:
            if one not in length_of:
                raise Rejected("no_length", f"component {one} stands in no file of lengths")


def _by_section(held: dict[str, list[int]], parts: int) -> list[list[int]]:
    system = held[_SYSTEM]
    return [*(system[place : place + 1] for place in range(parts)), *(held[kind] for kind in _LABELS)]


def _lengths(folder: Path) -> dict[int, int]:
    length_of: dict[int, int] = {}
    decoder = msgspec.json.Decoder(dict[str, Any])
    for name, key in _LENGTH_FILES.items():
        for line in _lines(folder / name):
            try:
                record = decode(line, decoder)
            except Rejected as fault:
                raise InputError(f"{folder / name}:{line.number}: {fault.detail}; repair the file.") from None
            one, length = record.get(key), record.get("token_length")
            if type(one) is not int or type(length) is not int or length < 0:
                raise InputError(
                    f"{folder / name}:{line.number}: no {key} with a token_length of 0 or more; repair the file."
                )
            length_of[one] = length
    return length_of


def _lines(path: Path) -> Iterator[Line]:
    try:
        with path.open("rb") as stream:
            yield from lines(stream)
    except OSError as error:
        raise unreadable(str(path), error) from None
