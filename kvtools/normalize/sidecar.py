"""What ``restore`` needs: for each rewritten line the pieces of the logged one, beside the output or inside each line.

The file ``OUT.kvtools`` is JSON lines: a head, ``{"line": n, "steps": [pieces, …]}`` for each changed line (each step
takes back one rewriting, the last one first), and a foot with the digest of OUT: another file is not restored by it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from kvtools.errors import InputError
from kvtools.normalize.places import address_of
from kvtools.normalize.splicing import Piece, restored

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

VERSION = 1
SUFFIX = ".kvtools"
_BOM = b"\xef\xbb\xbf"

Steps = list[tuple[Piece, ...]]

_ENCODE = msgspec.json.Encoder().encode


class Entry(msgspec.Struct, omit_defaults=True):
    """One line of the file: head, changed line or foot, told apart by what is set."""

    kvtools_sidecar: int = 0
    line: int = 0
    steps: list[list[list[int] | str]] | None = None
    lines: int | None = None
    sha256: str | None = None


class _Metadata(msgspec.Struct):
    kvtools: msgspec.Raw = msgspec.Raw(b"")


class _Inline(msgspec.Struct):
    metadata: msgspec.Raw = msgspec.Raw(b"")


_DECODE = msgspec.json.Decoder(Entry).decode
_OUTER, _METADATA = msgspec.json.Decoder(_Inline), msgspec.json.Decoder(_Metadata)


@dataclass(slots=True)
class SidecarWriter:
    """Writes the pieces of each changed line; ``written`` takes every line of OUT, changed or not, for the digest."""

    file: BinaryIO
    lines: int = 0
    _open: bool = False
    _digest: Any = field(default_factory=hashlib.sha256)

    def __post_init__(self) -> None:
        self.file.write(_ENCODE({"kvtools_sidecar": VERSION}) + b"\n")

    def written(self, raw: bytes, steps: Steps | None) -> None:
        """Take one line of OUT (or a part of one) as it is written, and how it becomes the logged one."""
        self.lines += not self._open
        self._open = not raw.endswith(b"\n")
        self._digest.update(raw)
        if steps:
            self.file.write(_ENCODE({"line": self.lines, "steps": steps}) + b"\n")

    def close(self) -> None:
        """Write the foot."""
        self.file.write(_ENCODE({"lines": self.lines, "sha256": self._digest.hexdigest()}) + b"\n")


def restored_file(out: Path, sidecar: Path) -> Iterator[bytes]:
    """Yield the logged lines, their ends included, from a rewritten file and its sidecar.

    Raises:
        InputError: the sidecar is none, is cut off, or belongs to another file.
    """
    digest, number = hashlib.sha256(), 0
    with out.open("rb") as lines, sidecar.open("rb") as notes:
        entries = _entries(notes, sidecar)
        entry = next(entries)
        for raw in lines:
            number += 1
            digest.update(raw)
            if entry.line == number:
                core, before, behind = core_of(raw)
                try:
                    logged = taken_back(core, entry.steps or [])
                except ValueError:
                    raise InputError(
                        f"{sidecar}: its line for line {number} does not fit {out}; take the file beside OUT."
                    ) from None
                yield before + logged + behind
                entry = next(entries)
            else:
                yield raw
    if entry.lines != number or entry.sha256 != digest.hexdigest():
        raise InputError(
            f"{sidecar}: belongs to another file than {out}; restore needs OUT as normalize wrote it, with every line."
        )


def restored_inline(out: Path) -> Iterator[bytes]:
    """Yield the logged lines, their ends included, from a file whose lines hold what restores them.

    Raises:
        InputError: none of them does, or one does not fit.
    """
    found = False
    with out.open("rb") as lines:
        for number, raw in enumerate(lines, 1):
            core, before, behind = core_of(raw)
            try:
                data = from_inline(core)
            except ValueError as error:
                raise InputError(f"{out}:{number}: {error}; normalize the log again.") from None
            found = found or data is not None
            yield raw if data is None else before + data + behind
    if not found:
        raise InputError(
            f"{out}: neither {out.name}{SUFFIX} beside it nor metadata.kvtools in its lines; "
            "without one of them nothing can be restored."
        )


class SidecarReader:
    """The steps of lines, asked for in their order."""

    def __init__(self, path: Path) -> None:
        """Open a sidecar; ``close`` closes it."""
        self._notes = path.open("rb")
        self._entries = _entries(self._notes, path)
        self._next = next(self._entries)

    def steps(self, line: int) -> Steps:
        """Return the steps of a line, none where it was not changed."""
        if self._next.line != line:
            return []
        steps = [tuple(_as_piece(piece) for piece in step) for step in self._next.steps or []]
        self._next = next(self._entries)
        return steps

    def close(self) -> None:
        """Close the file."""
        self._notes.close()


def _as_piece(piece: list[int] | str) -> Piece:
    return piece if isinstance(piece, str) else (piece[0], piece[1])


def _entries(notes: BinaryIO, path: Path) -> Iterator[Entry]:
    """Yield the changed lines in their order, then the foot."""
    before = -1
    for number, line in enumerate(notes, 1):
        try:
            entry = _DECODE(line)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise InputError(
                f"{path}:{number}: not a line of a kvtools sidecar; take the file beside OUT."
            ) from None
        if number == 1:
            if entry.kvtools_sidecar != VERSION:
                raise InputError(
                    f"{path}:1: not a kvtools sidecar of version {VERSION}; take the file beside OUT."
                )
            continue
        if entry.line > before and entry.steps:
            before = entry.line
            yield entry
        elif entry.sha256 is not None:
            yield entry
            return
        else:
            raise InputError(
                f"{path}:{number}: neither a changed line nor the foot; take the file beside OUT."
            )
    raise InputError(f"{path}: cut off before its end; normalize again, or take a whole copy.")


def taken_back(data: bytes, steps: Sequence[Sequence[Piece | list[int]]]) -> bytes:
    """Return the logged line from a rewritten one, the last step taken back first.

    Raises:
        ValueError: the steps do not fit the line.
    """
    for step in reversed(steps):
        pieces = _pieces(step, len(data))
        if pieces is None:
            raise ValueError("its steps do not fit the line")
        data = restored(data, pieces)
    return data


def _pieces(step: Sequence[Piece | list[int]], length: int) -> list[Piece] | None:
    """Return the pieces of a step, ``None`` where one lies outside of the line."""
    pieces: list[Piece] = []
    for piece in step:
        if isinstance(piece, str):
            pieces.append(piece)
        elif len(piece) == 2 and 0 <= piece[0] <= piece[1] <= length:
            pieces.append((piece[0], piece[1]))
        else:
            return None
    return pieces


def core_of(raw: bytes) -> tuple[bytes, bytes, bytes]:
    """Return a line without the blanks (and the byte order mark) around it, and these, before and behind."""
    if raw.startswith(b"{") and raw.endswith(b"}\n"):
        return raw[:-1], b"", b"\n"
    begin = len(_BOM) if raw.startswith(_BOM) else 0
    core = raw[begin:].rstrip()
    end = begin + len(core)
    bare = core.lstrip()
    return bare, raw[: end - len(bare)], raw[end:]


def with_inline(data: bytes, steps: Steps) -> bytes | None:
    """Return a line that holds its steps as ``metadata.kvtools``, ``None`` where it has other metadata there.

    They stand at the end of the line's object, or of its ``metadata``.
    """
    note = _ENCODE({"steps": steps})
    try:
        held = bytes(_OUTER.decode(data).metadata)
        if held and (not held.startswith(b"{") or bytes(_METADATA.decode(held).kvtools)):
            return None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    if not held:
        return data[:-1] + b',"metadata":{"kvtools":' + note + b"}}"
    end = _end_of_metadata(data)
    comma = b"" if held[1:-1].strip() == b"" else b","
    return data[: end - 1] + comma + b'"kvtools":' + note + data[end - 1 :]


def from_inline(data: bytes) -> bytes | None:
    """Return the logged line from one with ``metadata.kvtools``, ``None`` where it has none.

    Raises:
        ValueError: its steps do not fit.
    """
    try:
        held = _OUTER.decode(data).metadata
        note = bytes(_METADATA.decode(held).kvtools) if bytes(held).startswith(b"{") else b""
        steps = _DECODE(note).steps if note else None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    if steps is None:
        return None
    whole = b',"metadata":{"kvtools":' + note + b"}}"
    if data.endswith(whole):
        bare = data[: -len(whole)] + b"}"
    else:
        end, inner = _end_of_metadata(data), b'"kvtools":' + note
        front = data[: end - 1].removesuffix(inner)
        bare = front.removesuffix(b",") + data[end - 1 :]
    return taken_back(bare, steps)


def _end_of_metadata(data: bytes) -> int:
    """Return where the object ``metadata`` of a line ends."""
    held = memoryview(_OUTER.decode(data).metadata)
    begin = address_of(held) - address_of(data)
    return begin + len(held)
