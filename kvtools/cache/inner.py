"""Decorators for compiled functions that only other compiled functions call.

Numba gives every compiled function an entry from Python, which for arguments like ours takes as long to
compile as the function itself. These have none, and no file on disk: the outermost kernel's file holds their
machine code too. Numba renews that file when the outermost kernel's module changes, not when one of these
does, so the outermost kernel closes over ``sources_digest`` of theirs.
"""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from numba import njit

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., object]")


def sources_digest(*modules: str) -> str:
    """Return a digest of the source text of these modules of the cache room."""
    digest = blake2b(digest_size=16)
    for module in modules:
        digest.update(Path(__file__).with_name(f"{module}.py").read_bytes())
    return digest.hexdigest()


def inner(function: F) -> F:
    """Compile ``function`` for calls from kernels."""
    options: dict[str, Any] = {"nogil": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    compiled: Any = njit(**options)(function)
    typed: F = compiled
    return typed


def inlined(function: F) -> F:
    """Copy ``function`` into the kernels that call it: for what every step calls, where a call costs more."""
    compiled: Any = njit(inline="always")(function)
    typed: F = compiled
    return typed
