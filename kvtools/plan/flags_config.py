"""A vLLM config file (``--config FILE``, YAML) as the words that vLLM makes of it.

Rules of vLLM 0.32: ``FlexibleArgumentParser.load_config_file``. ``true`` gives the flag; ``false`` gives
``--no-<key>`` only where a flag is spelt exactly so, and else nothing: a key with
underscores is never switched off.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kvtools.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from kvtools.plan.flags import Flag


@dataclass(frozen=True, slots=True)
class ConfigWords:
    """The ``words`` of a config file, and its keys that are ``dropped``: set to false, and vLLM does nothing of it."""

    words: tuple[str, ...]
    dropped: tuple[str, ...]


def read_config(path: Path) -> dict[str, Any]:
    """Return the flags in a config file, YAML or JSON.

    Raises:
        InputError: it cannot be read, or holds no mapping of flags.
    """
    import yaml  # noqa: PLC0415 - only where there is a file

    try:
        held = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path.") from None
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        mark = getattr(error, "problem_mark", None)
        place = path if mark is None else f"{path}:{mark.line + 1}"
        raise InputError(f"{place}: neither YAML nor JSON; write flags as in vllm serve --config.") from None
    if not isinstance(held, dict) or not held or not all(isinstance(key, str) for key in held):
        raise InputError(f"{path}: holds no flags; write one a line, such as max-model-len: 8192.")
    return held


def words_of(
    held: Mapping[str, Any], names: Mapping[str, Flag], *, engine_arguments: bool = False
) -> ConfigWords:
    """Return what vLLM makes of the file; ``names`` are all spellings of flags.

    ``engine_arguments``: the file is not for ``--config`` but holds arguments as Python takes them: false is false.
    """
    words: list[str] = []
    dropped: list[str] = []
    for key, value in held.items():
        flag = f"--{key}"
        if value is False:
            off = f"--no-{key.replace('_', '-') if engine_arguments else key}"
            if off in names:
                words.append(off)
            elif f"--no-{key.replace('_', '-')}" in names:
                dropped.append(key)
        elif not (engine_arguments and value is None):
            words += _words(flag, value)
    return ConfigWords(tuple(words), tuple(dropped))


def _words(flag: str, value: Any) -> Iterator[str]:
    if value is True:
        yield flag
    elif isinstance(value, list):
        yield from (flag, *map(str, value)) if value else ()
    elif isinstance(value, dict):
        yield from (flag, json.dumps(value))
    else:
        yield from (flag, str(value))
