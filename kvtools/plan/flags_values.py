"""A flag's value as vLLM reads it: numbers with suffixes, choices, JSON with known keys.

Rules of vLLM 0.32: ``vllm/utils/argparse_utils.py`` (``human_readable_int``) and ``vllm/engine/arg_utils.py``
(``optional_type``, ``union_dict_and_str``, ``_expand_json_human_readable_numbers``).
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvtools.plan.flags import Flag

_HUMAN = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT])")
_HUMAN_IN_JSON = re.compile(r"\b\d+(?:\.\d+)?[kKmMgGtT]\b")
_POWER = {"k": 1, "m": 2, "g": 3, "t": 4}


def value_of(flag: Flag, text: str) -> Any:
    """Return the value that vLLM makes of ``text``.

    Raises:
        ValueError: it refuses the text; the message says why.
    """
    if flag.optional and text in {"", "None"}:
        return None
    value = _converted(flag, text)
    if flag.choices is not None and str(value) not in flag.choices:
        shown = ", ".join(flag.choices[:8]) + (", …" if len(flag.choices) > 8 else "")
        raise ValueError(f"{text!r} is not one of {shown}")
    return value


def _converted(flag: Flag, text: str) -> Any:
    if flag.type == "json" or (flag.type == "json_or_text" and re.fullmatch(r"(?s)\s*\{.*\}\s*", text)):
        return _json(text)
    return _READ[flag.type](flag, text) if flag.type in _READ else text


def _config(flag: Flag, text: str) -> Any:
    value = _json(_expanded(text))
    if isinstance(value, dict) and flag.fields is not None:
        _check_keys(value, flag.fields, "")
    return value


def _human_or_auto(text: str) -> int:
    return -1 if text.strip().lower() in {"auto", "-1"} else human_int(text)


def _number(kind: type[int | float], text: str) -> int | float:
    try:
        return kind(text)
    except ValueError:
        raise ValueError(f"{text!r} is no {'whole number' if kind is int else 'number'}") from None


def human_int(text: str) -> int:
    """Return ``8192``, ``32k`` (thousands) or ``32K`` (times 1,024) as a number.

    Raises:
        ValueError: it is none of these.
    """
    match = _HUMAN.fullmatch(text.strip())
    if match is None:
        return int(_number(int, text))
    number, suffix = match.groups()
    if suffix.islower():
        return int(float(number) * 1000 ** _POWER[suffix])
    if "." in number:
        raise ValueError(f"{text!r} has a decimal with a binary suffix; write {number}{suffix.lower()}")
    return int(number) * int(1024 ** _POWER[suffix.lower()])


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise ValueError(f"{_shortened(text)!r} is not JSON") from None


def _expanded(text: str) -> str:
    """Write ``80m`` in JSON out as a number, outside quotes."""
    parts = re.split(r'("(?:[^"\\]|\\.)*")', text)
    parts[::2] = [_HUMAN_IN_JSON.sub(lambda found: str(human_int(found[0])), part) for part in parts[::2]]
    return "".join(parts)


def _check_keys(value: dict[str, Any], fields: dict[str, Any], above: str) -> None:
    for key, inner in value.items():
        if key not in fields:
            known = ", ".join(sorted(fields)[:6])
            raise ValueError(f"it has no key {above}{key}; it has {known}{', …' if len(fields) > 6 else ''}")
        if isinstance(inner, dict) and isinstance(fields[key], dict):
            _check_keys(inner, fields[key], f"{above}{key}.")


def _shortened(text: str) -> str:
    return text if len(text) <= 30 else f"{text[:30]}…"


_READ: dict[str, Callable[[Flag, str], Any]] = {
    "int": lambda _, text: _number(int, text),
    "float": lambda _, text: _number(float, text),
    "human_int": lambda _, text: human_int(text),
    "human_int_or_auto": lambda _, text: _human_or_auto(text),
    "folded": lambda _, text: text.lower().replace("-", "_"),
    "config": _config,
}
