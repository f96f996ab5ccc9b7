"""Output files that are never half written."""

from __future__ import annotations

import errno
import secrets
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from kvtools.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


@contextmanager
def replacing(path: Path) -> Iterator[TextIO]:
    """Open a new file beside ``path`` and rename it to ``path`` when the block ends without an error.

    Through a link, the file that it points to is replaced. What is no ordinary file (a device, a named pipe)
    is not replaced: it receives the whole text at the end.

    Raises:
        InputError: ``path`` is a folder, its folder does not exist or cannot be written, or the disk is full.
    """
    try:
        target, special = _target(path)
        beside = (
            Path(tempfile.gettempdir()) if special else target.parent
        ) / f".kvtools-{secrets.token_hex(8)}.part"
        # "x", not a temporary file: the umask decides the rights, as for every file that a command writes.
        file = beside.open("x", encoding="utf-8", newline="\n")
    except OSError as error:
        raise _unwritable(path, error) from None
    try:
        with _told_when_full(path), file:
            yield file
        try:
            _put(beside, target, special=special)
        except OSError as error:
            raise _unwritable(path, error) from None
    finally:
        beside.unlink(missing_ok=True)


@contextmanager
def _told_when_full(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        # A write that finds no room names no file; every other error of the block is the block's business.
        if error.filename is None and error.errno in _NO_ROOM:
            raise _unwritable(path, error) from None
        raise


def _target(path: Path) -> tuple[Path, bool]:
    """Return where the bytes have to go, and whether that is something that must not be replaced."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
    if path.exists() and not path.is_file():
        # Unresolved: /dev/stdout leads to a name that only the system understands.
        return path, True
    return path.resolve(), False


def _put(beside: Path, target: Path, *, special: bool) -> None:
    if special:
        with beside.open("rb") as whole, target.open("wb") as sink:
            shutil.copyfileobj(whole, sink)
        return
    if target.exists():
        beside.chmod(target.stat().st_mode & 0o777)
    beside.replace(target)


def _unwritable(path: Path, error: OSError) -> InputError:
    return InputError(f"{path}: cannot be written ({error.strerror}); choose another place.")
