"""Results of tasks kept in a folder of the user's own: a second run, or one that was cut off, goes on from them.

An entry's name says what it was made from; its last 32 bytes are the digest of the rest. It appears whole or not at
all, and a damaged one counts as missing. Entries are pickles: the folder must be the user's alone (it is made so).
"""

from __future__ import annotations

import hashlib
import os
import pickle
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_DIGEST_BYTES = 32
MOST_BYTES = 4 << 30
"""What the folder may hold; the entries that were not used for longest go first."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A folder of results."""

    folder: Path

    @classmethod
    def at(cls, folder: Path) -> Kept | None:
        """Return the folder ready for use, ``None`` where it cannot be made, or could be written by others."""
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            found = folder.stat()
        except OSError:
            return None
        mine = not hasattr(os, "getuid") or found.st_uid == os.getuid()
        return cls(folder) if mine and not found.st_mode & 0o022 else None

    def get(self, name: str) -> Any:
        """Return what was kept under ``name``, ``None`` where nothing (whole) is."""
        path = self._path(name)
        try:
            data = path.read_bytes()
            os.utime(path)
        except OSError:
            return None
        body = data[:-_DIGEST_BYTES]
        if hashlib.sha256(body).digest() != data[-_DIGEST_BYTES:]:
            return None
        try:
            return pickle.loads(body)  # noqa: S301 - the folder is the user's own: see ``at``
        except Exception:  # noqa: BLE001 - another version of a library wrote it
            return None

    def put(self, name: str, result: Any) -> None:
        """Keep a result. A full disk is no fault of the run: nothing is kept then."""
        body = pickle.dumps(result, protocol=pickle.HIGHEST_PROTOCOL)
        path = self._path(name)
        with suppress(OSError):
            path.parent.mkdir(exist_ok=True, mode=0o700)
            handle, beside = tempfile.mkstemp(dir=path.parent, suffix=".part")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(body + hashlib.sha256(body).digest())
                Path(beside).replace(path)
            except BaseException:
                Path(beside).unlink(missing_ok=True)
                raise

    def prune(self, most_bytes: int = MOST_BYTES) -> None:
        """Remove what was not used for longest until the rest is no larger than ``most_bytes``."""
        found = []
        for path in self.folder.glob("*/*"):
            with suppress(OSError):
                status = path.stat()
                found.append((status.st_mtime, status.st_size, path))
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= most_bytes:
                return
            with suppress(OSError):
                path.unlink()
                total -= size

    def _path(self, name: str) -> Path:
        return self.folder / name[:2] / name[2:]
