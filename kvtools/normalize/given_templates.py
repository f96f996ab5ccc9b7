"""Templates that are given in a folder: learned ones with their manifest, or logged forms that were written by hand.

They may come from strangers: each is read as text and placeholders alone, and none is run.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kvtools.errors import InputError
from kvtools.fields.patterns import Kind
from kvtools.fields.sections import FLAT, WRITTEN_ROLES
from kvtools.fields.template import Gap, SectionTemplate
from kvtools.normalize.hoist import Moves
from kvtools.normalize.jinja_files import parsed
from kvtools.normalize.manifest import FILE_NAME, LOGGED, MANIFEST, TemplateFile, listed_files, read_manifest

if TYPE_CHECKING:
    from pathlib import Path

    from kvtools.normalize.manifest import TemplateEntry

SUFFIXES = (".j2", ".jinja2", ".jinja")

FREE_TEXT = ("text", "question", "history", "content")
"""Placeholders of hand-written templates that hold free text and stay; so do those that begin with ``text_``."""

ROLES = (*dict.fromkeys(WRITTEN_ROLES.values()), FLAT)

_ROLE = re.compile(r"\{#-?\s*role\s*:\s*([^\s#}-]*)\s*-?#\}[ \t]*(\r\n|\r|\n)?")


def read_templates(directory: Path) -> list[TemplateFile]:
    """Return the templates of a folder, in the order of its manifest, else of their paths. None of them is run.

    A gap's ``run`` is its number. Hidden files and folders are left out.

    Raises:
        InputError: the folder or a file cannot be read; there is no template; one is more than text and
            placeholders, or has no stable text; the manifest is of another version or does not fit its files.
    """
    found = _template_paths(directory)
    manifest = read_manifest(directory)
    if manifest is None:
        entries = [_by_hand(directory / name, name) for name in found]
    else:
        listed = listed_files(manifest)
        strange = next((name for name in found if name not in listed), None)
        if strange is not None:
            raise InputError(f"{directory / strange}: not in {MANIFEST}; move it to a folder of its own.")
        entries = [_listed(directory, entry) for entry in manifest.templates]
    if not entries:
        raise InputError(f"{directory}: no template in it; put a {', '.join(SUFFIXES)} file there.")
    names = [entry.name for entry in entries]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"{directory / twice}: two templates have this name; rename one.")
    return entries


def _template_paths(directory: Path) -> list[str]:
    """Return the template files below the folder, hidden ones left out, sorted."""
    if not directory.is_dir():
        raise InputError(f"{directory}: no such folder; name the one that holds the templates.")
    paths = (path.relative_to(directory) for path in directory.rglob("*") if path.suffix in SUFFIXES)
    return sorted(path.as_posix() for path in paths if not any(part.startswith(".") for part in path.parts))


def _listed(directory: Path, entry: TemplateEntry) -> TemplateFile:
    manifest = directory / MANIFEST
    # Nothing outside of the folder is read, whoever wrote the manifest.
    if (
        not FILE_NAME.fullmatch(entry.file)
        or entry.logged != f"{LOGGED}/{entry.file}"
        or entry.role not in ROLES
    ):
        raise InputError(
            f"{manifest}: the entry {entry.file!r} has another file, logged file or role than kvtools writes; "
            "learn the templates again."
        )
    path = directory / entry.logged
    literals, names = _stable(parsed(_text(path), path), path)
    if names != tuple(one.name for one in entry.fields):
        raise InputError(f"{path}: its placeholders are not those of {MANIFEST}; learn the templates again.")
    gaps = tuple(
        Gap(one.name, Kind(one.kind, one.granularity), one.shape, run) for run, one in enumerate(entry.fields)
    )
    moved = tuple(number for number, one in enumerate(entry.fields) if one.moved)
    moves = Moves(SectionTemplate(entry.role, literals, gaps), moved)
    if moves.marks != tuple(one.placeholder for one in entry.fields):
        raise InputError(
            f"{manifest}: the placeholders of {entry.file} were changed; learn the templates again."
        )
    return TemplateFile(
        entry.file.removesuffix(".j2"),
        moves,
        entry.route,
        entry.requests,
        entry.stable_tokens,
        entry.hit_rate_if_moved,
        frozenset(one.name for one in entry.fields if one.one_line),
    )


def _by_hand(path: Path, name: str) -> TemplateFile:
    source, role, first_line = _text(path), "system", 1
    comment = _ROLE.match(source)
    if comment:
        role = comment.group(1)
        if role not in ROLES:
            raise InputError(f"{path}:1: the role {role!r} is none of {', '.join(ROLES)}; name one of these.")
        source = source[comment.end() :]
        first_line += comment.group().count("\n") or bool(comment.group(2))
    literals, names = _stable(parsed(source, path, first_line), path)
    gaps = tuple(
        Gap(one, Kind("text"), "text" if one in FREE_TEXT or one.startswith("text_") else "field", run)
        for run, one in enumerate(names)
    )
    moved = tuple(number for number, gap in enumerate(gaps) if gap.shape != "text")
    return TemplateFile(name.rpartition(".")[0], Moves(SectionTemplate(role, literals, gaps), moved))


def _stable(
    template: tuple[tuple[str, ...], tuple[str, ...]], path: Path
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if not any(map(str.isalnum, "".join(template[0]))):
        raise InputError(
            f"{path}:1: no stable text, so every prompt would fit; write the text around the placeholders."
        )
    return template


def _text(path: Path) -> str:
    try:
        return _bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise InputError(f"{path}:{line}: not UTF-8; save the file as UTF-8.") from None


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the file.") from None
