"""The flags of ``vllm serve``: from the installed vLLM's own parser, or from the dated table that was read off one.

Names are taken as Python's ``argparse`` takes them: whole, or shortened to a beginning that only one flag has.
"""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

Kind: TypeAlias = Literal["value", "switch", "on_off", "append"]

_TABLES = "flags-*.json"


class Flag(msgspec.Struct, frozen=True, kw_only=True):
    """One flag. ``names``: all spellings, ``--no-…`` among them; ``dest``: the engine argument that it sets.

    ``kind``: ``value`` takes values, ``append`` one each time, ``switch`` and ``on_off`` none. ``type``: how a value is
    read (``int``, ``float``, ``text``, ``json``, ``json_or_text``, ``config``, ``human_int``, ``human_int_or_auto``,
    ``folded``); ``optional``: ``None`` is a value. ``fields``: the keys that a config takes, each with those inside it.
    """

    names: tuple[str, ...]
    dest: str
    kind: Kind
    type: str
    optional: bool = False
    nargs: str | None = None
    choices: tuple[str, ...] | None = None
    default: bool | int | float | str | None = None
    fields: dict[str, Any] | None = None
    deprecated: bool = False

    @property
    def name(self) -> str:
        """The long name that vLLM's documentation uses."""
        return next((name for name in self.names if name.startswith("--")), self.names[0])


class FlagTable(msgspec.Struct, frozen=True, kw_only=True):
    """All flags of one version of vLLM. ``made``: the day on which they were read (ISO), empty where it is today.

    ``environment``: the variables ``VLLM_…`` that it reads; ``quantization``: methods for ``--quantization``.
    """

    vllm: str
    flags: tuple[Flag, ...]
    environment: tuple[str, ...]
    quantization: tuple[str, ...]
    deprecated_quantization: tuple[str, ...]
    made: str = ""

    def by_name(self) -> dict[str, Flag]:
        """Return each spelling with its flag."""
        return {name: flag for flag in self.flags for name in flag.names}


class Match(msgspec.Struct, frozen=True, kw_only=True):
    """What a word of the command line names: a ``flag`` by its ``spelling``, with the ``value`` behind ``=``.

    ``candidates``: the flags that it could be, where they are several; then there is no ``flag``.
    """

    flag: Flag | None = None
    spelling: str = ""
    value: str | None = None
    candidates: tuple[str, ...] = ()


def committed_table() -> FlagTable:
    """Return the table that kvtools ships: the flags of one version of vLLM, as its own parser told them."""
    newest = max(Path(__file__).parent.glob(_TABLES))
    return msgspec.json.decode(newest.read_bytes(), type=FlagTable)


def match(names: dict[str, Flag], word: str) -> Match:
    """Return which flag ``word`` names, as argparse (Python 3.11) decides; ``names`` as ``FlagTable.by_name``."""
    if word in names:
        return Match(flag=names[word], spelling=word)
    before, equals, value = word.partition("=")
    explicit = value if equals else None
    if equals and before in names:
        return Match(flag=names[before], spelling=before, value=explicit)
    if word.startswith("--"):
        found = {name: explicit for name in names if name.startswith(before)}
    else:
        found = {name: explicit for name in names if name.startswith(word)}
        if word[:2] in names:
            found[word[:2]] = word[2:]
    if len(found) == 1:
        spelling, explicit = found.popitem()
        return Match(flag=names[spelling], spelling=spelling, value=explicit)
    return Match(candidates=tuple(found))


def nearest(names: Iterable[str], word: str) -> str | None:
    """Return the long flag that is spelt most like ``word``, ``None`` where none is near."""
    long_names = [name for name in names if name.startswith("--")]
    close = difflib.get_close_matches(word.partition("=")[0], long_names, n=1, cutoff=0.75)
    return close[0] if close else None
