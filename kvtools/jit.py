"""One decorator for the compiled loops, so that their types survive and their settings stand in one place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from numba import njit

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., object]")


def kernel(function: F) -> F:
    """Compile ``function`` with numba on first use and keep the machine code on disk beside the module."""
    compiled: Any = njit(cache=True, nogil=True)(function)
    typed: F = compiled
    return typed
