"""Inputs that are URLs: what fsspec can list and fetch (s3, gs, http, file, …), copied once and read from there.

A log is read at least twice (its head, then all of it), some readers seek in it, and a second pass has to meet the
same bytes: so a URL is treated as a pipe is, and copied to a temporary file before anything is read. ``file://`` is
the file itself.

A URL can carry a password or a signature. ``public`` takes user, password, query and fragment out of it; no other
form of it leaves this module, and no text of a library's error does, for that may quote the URL.
"""

from __future__ import annotations

import errno
import os
import posixpath
import re
from dataclasses import dataclass, field
from glob import has_magic
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from kvtools.errors import InputError, MissingExtra

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://", re.ASCII)
_EXTRA = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs", "http": "http", "https": "http"}
_PACKAGE = {"s3": "s3fs", "gcs": "gcsfs", "http": "aiohttp"}
_WEB = ("http", "https")
# fsspec leaves aiohttp's limit of five minutes for a whole file: what counts is that bytes keep coming.
_CONNECT_S, _SILENCE_S = 30, 120


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file at a URL: the name for people, whether it was named itself, and where it lies in its file system.

    ``url`` tells two files apart and may hold a secret: it is never shown.
    """

    name: str
    url: str = field(repr=False)
    local: bool
    _files: Any = field(repr=False)
    _path: str = field(repr=False)
    explicit: bool = False

    @property
    def path(self) -> str:
        """The path on this machine of a ``file://`` URL."""
        return self._path

    def copy_to(self, place: Path) -> None:
        """Write the bytes as stored to ``place``.

        Raises:
            InputError: the network, the server or the disk refuses.
        """
        _asked(self.name, lambda: self._files.get_file(self._path, str(place)))


def is_url(path: str) -> bool:
    """Return whether an input is a URL rather than a path."""
    return _URL.match(path) is not None


def public(url: str) -> str:
    """Return a URL without user, password, query and fragment."""
    scheme, _, rest = url.partition("://")
    if scheme.lower() in _WEB:
        # By hand and not by urlsplit, which refuses broken URLs: those must not be shown either.
        rest = re.split(r"[?#]", rest, maxsplit=1)[0]
        host, slash, path = rest.partition("/")
        return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"
    host, slash, path = rest.partition("/")
    # Elsewhere ? and # may stand in a name or a pattern; what looks like parameters is left out all the same.
    path = re.sub(r"\?[^/]*=.*", "", path)
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def remote_files(url: str) -> list[RemoteFile]:
    """Return the files that a URL names: one file, all below a folder, or those that match a pattern, sorted.

    Raises:
        InputError: nothing is there, or the server cannot be asked.
        MissingExtra: the package for this kind of URL is not installed.
    """
    name = public(url)
    scheme = url.partition("://")[0].lower()
    files, path = _file_system(name, scheme, url)
    local = scheme == "file"

    def found(paths: Iterable[str]) -> list[RemoteFile]:
        urls = {one: str(files.unstrip_protocol(one)) for one in paths}
        return [RemoteFile(public(urls[one]), urls[one], local, files, one) for one in sorted(urls)]

    if has_magic(_pattern_of(scheme, url, path)):
        matches = found(_asked(name, lambda: list(_matches(files, path))))
        if not matches:
            raise InputError(
                f"{name}: no file matches this pattern; quote it if the shell should not expand it."
            )
        return matches
    # Every web page is a file as well: there a folder is what is written as one.
    if url.endswith("/") if scheme in _WEB else _asked(name, lambda: files.isdir(path)):
        inside = found(_asked(name, lambda: list(_below(files, path))))
        if not inside:
            raise InputError(f"{name}: the directory holds no files; name one that holds request logs.")
        return inside
    return [RemoteFile(name, url, local, files, path, explicit=True)]


def _file_system(name: str, scheme: str, url: str) -> tuple[Any, str]:
    try:
        import fsspec  # noqa: PLC0415 - an extra

        if scheme in _WEB:
            return fsspec.filesystem(scheme, **_web_options(name, url)), url
        if scheme not in fsspec.available_protocols():
            raise InputError(f"{name}: {scheme} is not a kind of URL that fsspec knows; check the spelling.")
        files, path = _asked(name, lambda: fsspec.url_to_fs(url))
    except ImportError:
        extra = _EXTRA.get(scheme, "urls")
        package = _PACKAGE.get(extra, "fsspec, or what it needs for this kind of URL,")
        raise MissingExtra(
            f"{name}: needs {package}, which is not installed; pip install 'kvtools[{extra}]'."
        ) from None
    return files, path


def _web_options(name: str, url: str) -> dict[str, Any]:
    from aiohttp import ClientTimeout  # noqa: PLC0415 - an extra

    try:
        host = urlsplit(url).hostname
    except ValueError:
        host = None
    if not host:
        raise InputError(f"{name}: not a URL that names a host; check the spelling.")
    timeout = ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=_SILENCE_S)
    # Bytes as stored: a server asked for compression would send others than those whose digest is reported.
    return {"client_kwargs": {"timeout": timeout}, "headers": {"Accept-Encoding": "identity"}}


def _pattern_of(scheme: str, url: str, path: str) -> str:
    # [ stands in the host of an IPv6 address, ? before a query.
    return url.partition("://")[2].partition("/")[2].partition("?")[0] if scheme in _WEB else path


def _matches(files: Any, pattern: str) -> Iterator[str]:
    hidden = posixpath.basename(pattern).startswith(".")
    for path, info in files.glob(pattern, detail=True).items():
        if info["type"] == "file" and (hidden or not posixpath.basename(path).startswith(".")):
            yield path


def _below(files: Any, folder: str) -> Iterator[str]:
    files.invalidate_cache()
    for path in files.find(folder):
        inside = path.removeprefix(folder.rstrip("/"))
        if not any(part.startswith(".") for part in inside.split("/")):
            yield path


def _asked(name: str, ask: Callable[[], Any]) -> Any:
    """Return what a file system answers; its refusal as one sentence."""
    try:
        return ask()
    except ImportError:
        raise
    except FileNotFoundError:
        raise InputError(f"{name}: no such file or directory; check the spelling.") from None
    except Exception as error:  # noqa: BLE001 - each file system raises errors of its own libraries
        raise InputError(
            f"{name}: cannot be read ({_reason(error)}); check the URL and the access."
        ) from None


def _reason(error: Exception) -> str:
    """Say what went wrong in words that cannot quote the URL."""
    status = getattr(error, "status", None)
    if isinstance(status, int):
        return f"HTTP status {status}"
    if isinstance(error, PermissionError):
        return "access denied"
    number = getattr(error, "errno", None) or getattr(getattr(error, "os_error", None), "errno", None)
    if isinstance(number, int) and number in errno.errorcode:
        return os.strerror(number)
    return type(error).__name__
