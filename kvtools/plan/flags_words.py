"""What vLLM does to the words of a command line before argparse sees them.

Rules of vLLM 0.32: ``FlexibleArgumentParser.parse_args``. Underscores in a flag's name become hyphens, ``-O3`` becomes
``--optimization-level 3``, and dotted flags (``--compilation-config.mode 3``) are gathered into one JSON value each.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from kvtools.plan.flags_values import human_int

_NAME = re.compile(r"(?<=--)[^\.]*")
_LEVELS = frozenset({"0", "1", "2", "3"})


@dataclass(frozen=True, slots=True)
class Word:
    """A word as argparse gets it, as it was ``written``, and the file that it is ``from_file`` (empty: the line)."""

    text: str
    written: str
    from_file: str = ""


def prepared(words: list[Word]) -> list[Word]:
    """Return the words that argparse gets."""
    return _gathered(list(_renamed(words)))


def _renamed(words: list[Word]) -> list[Word]:
    done: list[Word] = []
    for place, word in enumerate(words):
        text = word.text
        if text.startswith("--"):
            name, equals, value = text.partition("=")
            name = _NAME.sub(lambda found: found[0].replace("_", "-"), name, count=1)
            done.append(Word(f"{name}{equals}{value}", word.written, word.from_file))
        elif text.startswith("-O") and text != "-O":
            level = text[3:] if text[2] == "=" else text[2:]
            done += [Word("--optimization-level", word.written), Word(level, word.written)]
        elif text == "-O" and place + 1 < len(words) and words[place + 1].text in _LEVELS:
            done.append(Word("--optimization-level", word.written))
        else:
            done.append(word)
    return done


def _gathered(words: list[Word]) -> list[Word]:
    kept: list[Word] = []
    dotted: dict[str, tuple[dict[str, Any], Word]] = {}
    place = 0
    while place < len(words):
        word = words[place]
        name, equals, value = word.text.partition("=")
        place += 1
        if not name.startswith("-") or "." not in name or _is_number(name):
            kept.append(word)
            continue
        if not equals:
            value = words[place].text if place < len(words) else ""
            place += 1
        flag, *keys = name.removesuffix("+").split(".")
        found, _ = dotted.setdefault(flag, ({}, word))
        _merge(found, keys, value.split(",") if name.endswith("+") else _plain(value))
    for flag, (found, word) in dotted.items():
        kept += [
            Word(flag, word.written, word.from_file),
            Word(json.dumps(found), word.written, word.from_file),
        ]
    return kept


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-\d*\.\d+", text) is not None


def _plain(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return human_int(text)
    except ValueError:
        return text


def _merge(found: dict[str, Any], keys: list[str], value: Any) -> None:
    for key in keys[:-1]:
        inner = found.setdefault(key, {})
        if not isinstance(inner, dict):
            inner = found[key] = {}
        found = inner
    last = keys[-1]
    if isinstance(value, list) and isinstance(found.get(last), list):
        found[last] += value
    else:
        found[last] = value
