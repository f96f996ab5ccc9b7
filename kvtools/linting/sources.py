"""From paths to templates: files, folders, and ``tokenizer_config.json`` files that hold chat templates."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvtools.errors import InputError
from kvtools.readers.sources import discard, expand

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kvtools.readers.sources import Source as File

SUFFIXES = (".j2", ".jinja", ".jinja2", ".txt")
CONFIG = "tokenizer_config.json"
MAX_BYTES = 1 << 18
"""A larger file is no template: the largest chat template of 40 real ones has 18 kB."""
_MARKS = ("{{", "{%")
_TOKENS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


@dataclass(frozen=True, slots=True)
class Source:
    """One template: ``name`` is its path, with ``#name`` where a configuration file holds it."""

    name: str
    text: str
    special_tokens: Mapping[str, str] = field(default_factory=dict)
    chat: bool = False


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A file that was to be a template and could not be read, and why."""

    name: str
    reason: str
    line: int = 1


@dataclass(frozen=True, slots=True)
class Sources:
    """What was found, by name: templates, unreadable files, and files of a folder that are none."""

    templates: tuple[Source, ...]
    unreadable: tuple[Unreadable, ...]
    skipped: tuple[str, ...]


def read_templates(paths: Sequence[str]) -> Sources:
    """Return the templates that ``paths`` name; the order of the paths does not matter.

    Of a folder all files with a template's suffix count, ``.txt`` only with ``{{`` or ``{%`` inside, and every
    ``tokenizer_config.json`` with a chat template. A file that is named counts whatever it holds.

    Raises:
        InputError: a path does not exist, or a file that is named has no template's suffix.
    """
    # A file that is named itself goes before the folder that holds it: it counts in any case.
    ordered = sorted(set(paths), key=lambda path: (Path(path).is_dir(), path))
    files = expand(ordered)
    templates: list[Source] = []
    unreadable: list[Unreadable] = []
    skipped: list[str] = []
    try:
        for file in files:
            _sort_in(file, templates, unreadable, skipped)
    finally:
        discard(files)
    return Sources(
        tuple(sorted(templates, key=lambda one: one.name)),
        tuple(sorted(unreadable, key=lambda one: one.name)),
        tuple(sorted(skipped)),
    )


def _sort_in(file: File, templates: list[Source], unreadable: list[Unreadable], skipped: list[str]) -> None:
    suffix, config = Path(file.name).suffix.lower(), Path(file.name).name == CONFIG
    if not config and suffix not in SUFFIXES and not file.spooled:
        if file.explicit:
            raise InputError(
                f"{file.name}: not a template file ({', '.join(SUFFIXES)} or {CONFIG}); rename it or name another."
            )
        skipped.append(file.name)
        return
    try:
        text = _text(file)
        found = list(_of_config(file, text)) if config else [_of_file(file, text)]
    except _Fault as fault:
        unreadable.append(Unreadable(file.name, fault.reason, fault.line))
        return
    plain = suffix == ".txt" and not any(mark in text for mark in _MARKS)
    if file.explicit and not found:
        unreadable.append(Unreadable(file.name, "it holds no chat_template"))
    elif not found or (plain and not file.explicit):
        skipped.append(file.name)
    templates.extend(found if file.explicit or not plain else [])


class _Fault(Exception):  # noqa: N818 - names what is wrong with a file
    def __init__(self, reason: str, line: int = 1) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line


def _text(file: File) -> str:
    try:
        if not file.path.is_file():
            raise _Fault("it is no ordinary file")
        with file.path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES and file.path.name != CONFIG:
            raise _Fault(f"it is larger than {MAX_BYTES >> 10} KiB")
        return (data if len(data) <= MAX_BYTES else file.path.read_bytes()).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise _Fault("it is not UTF-8 text", line) from None
    except OSError as error:
        raise _Fault(f"it cannot be read ({error.strerror})") from None


def _of_file(file: File, text: str) -> Source:
    return Source(file.name, text, _special_tokens(file.path))


def _of_config(file: File, text: str) -> Iterator[Source]:
    try:
        held = json.loads(text)
    except json.JSONDecodeError as error:
        raise _Fault(f"it is not JSON ({error.msg})", error.lineno) from None
    except RecursionError:
        raise _Fault("it is nested too deeply") from None
    template: Any = held.get("chat_template") if isinstance(held, dict) else None
    if isinstance(template, str):
        yield Source(f"{file.name}#chat_template", template, _special_tokens(file.path), chat=True)
    for entry in template if isinstance(template, list) else []:
        if isinstance(entry, dict) and isinstance(entry.get("template"), str):
            name = f"{file.name}#{entry.get('name', 'chat_template')}"
            yield Source(name, entry["template"], _special_tokens(file.path), chat=True)


def _special_tokens(path: Path) -> Mapping[str, str]:
    """Return the special tokens of the model folder that the file lies in, as far as they are known.

    Read here and not by ``chat.load``, which compiles the folder's template: no stranger's template is compiled in this
    process.
    """
    try:
        held = json.loads((path.parent / CONFIG).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    tokens = {name: held.get(name) for name in _TOKENS} if isinstance(held, dict) else {}
    texts = {
        name: token.get("content") if isinstance(token, dict) else token for name, token in tokens.items()
    }
    return {name: text for name, text in texts.items() if isinstance(text, str)}
