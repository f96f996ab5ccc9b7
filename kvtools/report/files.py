"""Output files that are never half written."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from kvtools.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def replacing(path: Path) -> Iterator[IO[str]]:
    """Open a new file beside ``path`` and rename it to ``path`` when the block ends without an error.

    Raises:
        InputError: the folder does not exist or cannot be written.
    """
    # The umask decides the rights of an ordinary file; a temporary file would keep 0600.
    mode = path.stat().st_mode & 0o777 if path.exists() else None
    try:
        file = tempfile.NamedTemporaryFile(  # noqa: SIM115 - renamed, so not removed on close
            "w", encoding="utf-8", newline="\n", dir=path.parent, prefix=f".{path.name}.", delete=False
        )
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror}); choose another place.") from None
    beside = Path(file.name)
    try:
        with file:
            yield file
        beside.chmod(mode if mode is not None else 0o644)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
