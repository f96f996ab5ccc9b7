"""Recorded values rendered with the templates of a folder: the same requests, as the templates make them now.

``values.jsonl`` is what ``normalize --learn`` writes, or any file of lines with ``template`` and ``values``. Templates
may come from a pull request of a stranger: they run in jinja2's immutable sandbox, with the recorded values alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from itertools import groupby
from typing import TYPE_CHECKING, Any

import msgspec

from kvtools.errors import InputError
from kvtools.normalize.given_templates import ROLES, SUFFIXES
from kvtools.normalize.manifest import read_manifest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from jinja2 import Template

_ROLE = "{# role:"
_CHAT_ROLES = ("system", "user", "tool")


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """The values of one section. Sections of one ``line`` with a ``message`` (its place) are one request."""

    template: str
    values: dict[str, Any]
    line: int | None = None
    message: int | None = None
    id: str | None = None
    ts: str | float | None = None
    route: str | None = None


@dataclass(frozen=True, slots=True)
class ValuesRead:
    """A file of recorded values: its entries, each with its line in the file, and the SHA-256 of its bytes."""

    path: Path
    entries: list[tuple[int, Recorded]]
    sha256: str


@dataclass(frozen=True, slots=True)
class GivenTemplate:
    """A template of the folder. ``role`` is that of the message it makes; ``route`` that of its requests, if known."""

    name: str
    path: Path
    source: str
    sha256: str
    role: str
    route: str | None
    compiled: Template = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Rendered:
    """One request as a line of chat JSONL; ``template`` is the first that it is made of."""

    data: bytes
    template: str


def read_values(path: Path) -> ValuesRead:
    """Return the recorded values of a file.

    Raises:
        InputError: the file cannot be read, is empty, or a line is no entry. None is skipped: a gate that judges fewer
            requests than were recorded would judge others.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); name the recorded values.") from None
    decoder, entries = msgspec.json.Decoder(Recorded), []
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            entries.append((number, decoder.decode(line)))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise InputError(
                f'{path}:{number}: not recorded values ({error}); a line is {{"template": …, "values": {{…}}}}.'
            ) from None
    if not entries:
        raise InputError(
            f"{path}: no recorded values; record some: kvtools normalize LOG -o OUT --learn DIR."
        )
    return ValuesRead(path, entries, sha256(data).hexdigest())


def read_given(directory: Path, values: ValuesRead) -> dict[str, GivenTemplate]:
    """Return the templates that the values name, by name.

    Raises:
        InputError: the folder or a template is missing, cannot be read or does not parse.
    """
    if not directory.is_dir():
        raise InputError(f"{directory}: no such folder; name the one that holds the templates.")
    manifest = read_manifest(directory)
    listed = {} if manifest is None else {one.file: one for one in manifest.templates}
    found: dict[str, GivenTemplate] = {}
    for number, entry in values.entries:
        if entry.template in found:
            continue
        path = _path(directory, entry.template, f"{values.path}:{number}")
        known = listed.get(path.name)
        found[entry.template] = _given(entry.template, path, known.role if known else None,
                                       known.route if known else None)  # fmt: skip
    return found


def _path(directory: Path, name: str, where: str) -> Path:
    stem = directory / name
    if not name or name.startswith("/") or ".." in stem.parts or "\0" in name:
        raise InputError(f"{where}: {name!r} is no name of a template in {directory}; correct it.")
    for suffix in SUFFIXES:
        path = directory / f"{name}{suffix}"
        if path.is_file():
            return path
    raise InputError(f"{where}: template {name} is not in {directory}; put {name}.j2 there.")


def _given(name: str, path: Path, role: str | None, route: str | None) -> GivenTemplate:
    from jinja2 import StrictUndefined, TemplateSyntaxError  # noqa: PLC0415 - only where templates are rendered
    from jinja2.sandbox import ImmutableSandboxedEnvironment  # noqa: PLC0415

    try:
        data = path.read_bytes()
        source = data.decode()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the file.") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8; save it as UTF-8.") from None
    sandbox = ImmutableSandboxedEnvironment(undefined=StrictUndefined, autoescape=False)
    try:
        compiled = sandbox.from_string(source)
    except TemplateSyntaxError as error:
        raise InputError(
            f"{path}:{error.lineno}: not a jinja2 template ({error.message}); repair it."
        ) from None
    except (RecursionError, ValueError, OverflowError, SyntaxError):
        raise InputError(f"{path}:1: a template that is too deep or too long; shorten it.") from None
    return GivenTemplate(
        name, path, source, sha256(data).hexdigest(), role or _role_said(source, path), route, compiled
    )


def _role_said(source: str, path: Path) -> str:
    if not source.startswith(_ROLE):
        return "system"
    role = source[len(_ROLE) :].partition("#}")[0].strip()
    if role not in ROLES:
        raise InputError(f"{path}:1: the role {role!r} is none of {', '.join(ROLES)}; name one of these.")
    return role


def rendered_requests(values: ValuesRead, templates: dict[str, GivenTemplate]) -> Iterator[Rendered]:
    """Yield each recorded request, rendered.

    Raises:
        InputError: a template refuses its values.
    """
    numbered = enumerate(values.entries)
    groups = groupby(numbered, lambda one: _request(one[0], one[1][1]))
    for number, (_, group) in enumerate(groups, 1):
        yield _line([entry for _, entry in group], templates, values.path, number)


def _request(index: int, entry: Recorded) -> tuple[str, int]:
    """Return what entries of one request have in common; a prompt that is one text is a request by itself."""
    one_text = entry.message is None or entry.line is None
    return ("entry", index) if one_text else ("line", entry.line or 0)


def _line(
    group: Sequence[tuple[int, Recorded]], templates: dict[str, GivenTemplate], path: Path, number: int
) -> Rendered:
    texts = [
        (templates[entry.template], _text(templates[entry.template], entry, f"{path}:{at}"))
        for at, entry in group
    ]
    first = group[0][1]
    body: dict[str, Any] = {"id": first.id or f"r{number}"}
    if first.ts is not None:
        body["timestamp"] = first.ts
    route = first.route or texts[0][0].route
    if route is not None:
        body["route"] = route
    if first.message is None:
        body["prompt"] = texts[0][1]
    else:
        body["messages"] = [
            {"role": one.role if one.role in _CHAT_ROLES else "user", "content": text} for one, text in texts
        ]
    return Rendered(msgspec.json.encode(body) + b"\n", first.template)


def _text(template: GivenTemplate, entry: Recorded, where: str) -> str:
    from jinja2 import TemplateError, UndefinedError  # noqa: PLC0415 - only where templates are rendered

    try:
        return template.compiled.render(entry.values)
    except UndefinedError as error:
        raise InputError(
            f"{template.path}: {error.message} in the values recorded at {where}; record it, or give it a default."
        ) from None
    except (TemplateError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError,
            MemoryError) as error:  # fmt: skip
        raise InputError(
            f"{template.path}: refuses the values recorded at {where} ({type(error).__name__}); repair the template."
        ) from None
