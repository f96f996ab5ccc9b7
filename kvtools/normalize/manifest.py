"""Learned templates in a folder: what ``--learn`` writes.

``manifest.json`` lists them; ``NAME.j2`` is the form for a service, ``logged/NAME.j2`` the form that the log has, and
``values.jsonl`` holds the values with which the latter gives each logged section again.
"""

from __future__ import annotations

import re
import secrets
import shutil
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from kvtools.errors import InputError, UsageError
from kvtools.fields.patterns import Granularity
from kvtools.fields.template import Shape
from kvtools.normalize.jinja_files import logged_source, served_source

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from kvtools.fields.template import SectionTemplate
    from kvtools.normalize.hoist import Moves
    from kvtools.normalize.rewriting import Rewritten

VERSION = 1
MANIFEST, VALUES, LOGGED = "manifest.json", "values.jsonl", "logged"

_ENCODE = msgspec.json.Encoder().encode
FILE_NAME = re.compile(r"[\w-]+\.j2", re.ASCII)


@dataclass(frozen=True, slots=True)
class TemplateFile:
    """A template with its moves, and what is known of it: ``None`` where it is not.

    ``name`` is that of its files, without suffix. ``requests`` have a section made from it, nearly all from ``route``;
    ``stable_tokens`` lead the rewritten section and never change; ``hit_rate_if_moved`` (0..1) is that of the whole
    log. The values of ``one_line`` hold no line feed.
    """

    name: str
    moves: Moves
    route: str | None = None
    requests: int | None = None
    stable_tokens: int | None = None
    hit_rate_if_moved: float | None = None
    one_line: frozenset[str] = frozenset()


class FieldEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One gap, in the order of the text. ``placeholder`` is what stands there once its value has moved."""

    name: str
    kind: str
    granularity: Granularity | None
    shape: Shape
    placeholder: str
    moved: bool
    one_line: bool


class TemplateEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One template: its files, its section, and what is known of it."""

    file: str
    logged: str
    role: str
    route: str | None
    requests: int | None
    stable_tokens: int | None
    hit_rate_if_moved: float | None
    fields: list[FieldEntry]


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file; ``kvtools_templates`` is the version of its form."""

    kvtools_templates: int
    templates: list[TemplateEntry]


class _Version(msgspec.Struct):
    kvtools_templates: int | None = None


def template_name(template: SectionTemplate) -> str:
    """Return the name of a learned template's files: its role and its id, ``system-1a2b3c4d``."""
    return f"{template.role}-{template.template_id}"


@dataclass(frozen=True, slots=True)
class ValuesFile:
    """Writes the values of rewritten sections, one JSON line each.

    ``names`` are those of given templates; the others have the names of learned ones. ``holds_lines`` has for each
    template that was used its fields, and whether a value of it held a line feed.
    """

    file: BinaryIO
    names: Mapping[SectionTemplate, str] = field(default_factory=dict)
    holds_lines: dict[str, dict[str, bool]] = field(default_factory=dict)

    def section(self, line: int, message: int | None, one: Rewritten) -> None:
        """Write all values of a section on ``line`` of the log, in its message (``None``: no message); if any moved."""
        if one.moves is None or one.moved is None:
            return
        template = one.moves.template
        values = template.match(one.formed)
        if values is None:
            return
        name = self.names.get(template) or template_name(template)
        held = {gap.name: value for gap, value in zip(template.gaps, values, strict=True)}
        entry = {"line": line, "message": message, "template": name, "values": held}
        self.file.write(_ENCODE(entry) + b"\n")
        lines = self.holds_lines.setdefault(name, {})
        for gap, value in held.items():
            lines[gap] = lines.get(gap, False) or "\n" in value

    def one_line(self, name: str) -> frozenset[str]:
        """Return the fields of a template that had values, none of which held a line feed."""
        return frozenset(gap for gap, lines in self.holds_lines.get(name, {}).items() if not lines)


def files_of(entries: Sequence[TemplateFile]) -> dict[str, bytes]:
    """Return the files of templates by their place in the folder: equal bytes for equal entries.

    Raises:
        ValueError: a name is no plain file name, or two templates have the same.
    """
    files: dict[str, bytes] = {}
    listed = []
    for entry in entries:
        file = f"{entry.name}.j2"
        if not FILE_NAME.fullmatch(file) or file in files:
            raise ValueError(f"{entry.name!r} cannot name a template file, or names two")
        listed.append(_entry(entry, file))
        files[file] = served_source(entry.moves, entry.one_line).encode()
        files[f"{LOGGED}/{file}"] = logged_source(entry.moves.template).encode()
    manifest = Manifest(VERSION, listed)
    return {MANIFEST: msgspec.json.format(_ENCODE(manifest), indent=2) + b"\n", **files}


def _entry(entry: TemplateFile, file: str) -> TemplateEntry:
    moves = entry.moves
    fields = [
        FieldEntry(
            gap.name,
            gap.kind.name,
            gap.kind.granularity,
            gap.shape,
            moves.marks[number],
            number in moves.gaps,
            gap.name in entry.one_line,
        )
        for number, gap in enumerate(moves.template.gaps)
    ]
    return TemplateEntry(
        file,
        f"{LOGGED}/{file}",
        moves.template.role,
        entry.route,
        entry.requests,
        entry.stable_tokens,
        entry.hit_rate_if_moved,
        fields,
    )


def write_templates(directory: Path, entries: Sequence[TemplateFile]) -> None:
    """Write templates and manifest into ``directory``: beside it, then renamed; an older set of ours goes as a whole.

    Raises:
        UsageError: the folder holds other files.
        InputError: it cannot be written.
        ValueError: see ``files_of``.
    """
    with _replaced(directory, files_of(entries)):
        pass


@contextmanager
def templates_written(directory: Path, entries: Sequence[TemplateFile]) -> Iterator[ValuesFile]:
    """Do what ``write_templates`` does when the block ends without an error, with the values that it writes.

    Fields none of whose values held a line feed are written as ``one_line``.
    """
    names = {entry.moves.template: entry.name for entry in entries}
    with _replaced(directory, files_of(entries)) as beside:
        with (beside / VALUES).open("wb") as file:
            values = ValuesFile(file, names)
            yield values
        seen = [replace(entry, one_line=values.one_line(entry.name)) for entry in entries]
        _write(directory, beside, files_of(seen))


@contextmanager
def _replaced(directory: Path, files: Mapping[str, bytes]) -> Iterator[Path]:
    """Write ``files`` into a new folder beside ``directory`` and put it there when the block ends without an error."""
    _check_ours(directory)
    target = directory.resolve()
    beside, old = (target.parent / f".kvtools-{secrets.token_hex(8)}.part" for _ in range(2))
    try:
        try:
            (beside / LOGGED).mkdir(parents=True)
        except OSError as error:
            raise _unwritable(directory, error) from None
        _write(directory, beside, files)
        yield beside
        try:
            if target.exists():
                target.rename(old)
            beside.rename(target)
        except OSError as error:
            if old.exists() and not target.exists():
                old.rename(target)
            raise _unwritable(directory, error) from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def _write(directory: Path, beside: Path, files: Mapping[str, bytes]) -> None:
    try:
        for name, data in files.items():
            (beside / name).write_bytes(data)
    except OSError as error:
        raise _unwritable(directory, error) from None


def _check_ours(directory: Path) -> None:
    if not directory.exists():
        return
    if not directory.is_dir():
        raise UsageError(f"{directory}: is a file; name a folder for the templates.")
    held = sorted(
        path.relative_to(directory).as_posix() for path in directory.rglob("*") if not path.is_dir()
    )
    manifest = read_manifest(directory)
    ours = set() if manifest is None else {MANIFEST, VALUES, *listed_files(manifest)}
    strange = next((name for name in held if name not in ours), None)
    if strange is not None:
        raise UsageError(
            f"{directory}: holds {strange}, which kvtools did not write; name a new or empty folder."
        )


def listed_files(manifest: Manifest) -> set[str]:
    """Return the template files that a manifest names."""
    return {name for entry in manifest.templates for name in (entry.file, entry.logged)}


def _unwritable(path: Path, error: OSError) -> InputError:
    return InputError(f"{path}: cannot be written ({error.strerror}); choose another place.")


def read_manifest(directory: Path) -> Manifest | None:
    """Return the manifest of a folder, ``None`` where it has none or the file is something else's.

    Raises:
        InputError: it cannot be read, is of another version, or is damaged.
    """
    path = directory / MANIFEST
    if not path.is_file():
        return None
    try:
        data = path.read_bytes()
        version = msgspec.json.decode(data, type=_Version).kvtools_templates
        if version is None:
            return None
        if version != VERSION:
            raise InputError(
                f"{path}: version {version} of kvtools templates, not {VERSION}; learn them again."
            )
        return msgspec.json.decode(data, type=Manifest)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the file.") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(
            f"{path}: not a manifest of kvtools templates ({error}); learn them again."
        ) from None
