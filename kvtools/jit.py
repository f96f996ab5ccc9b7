"""One decorator for the compiled loops, so that their types survive and their settings stand in one place.

Numba keeps machine code on disk beside the module, and renews it when that module's file changes, not when a module
changes whose kernels or numbers went into it. So the key of what is kept has a digest of these too.
"""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from types import CellType, FunctionType
from typing import TYPE_CHECKING, Any, TypeVar

from numba import njit
from numba.core.dispatcher import Dispatcher

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

F = TypeVar("F", bound="Callable[..., object]")


def kernel(function: F) -> F:
    """Compile ``function`` with numba on first use and keep the machine code on disk beside the module."""
    compiled: Any = njit(cache=True, nogil=True)(_keyed_by_its_parts(function))
    typed: F = compiled
    return typed


def _keyed_by_its_parts(function: Any) -> Any:
    """Return the function, closing over a digest of what it uses of other modules; numba's key has it then."""
    parts = sorted(set(_parts(function, function.__module__, set())))
    if not parts:
        return function
    digest = blake2b("\n".join(parts).encode(), digest_size=16).hexdigest()
    code = function.__code__.replace(co_freevars=(*function.__code__.co_freevars, "_parts_digest"))
    closure = (*(function.__closure__ or ()), CellType(digest))
    keyed = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)
    keyed.__qualname__, keyed.__doc__ = function.__qualname__, function.__doc__
    keyed.__module__, keyed.__annotations__ = function.__module__, function.__annotations__
    return keyed


def _parts(function: Any, home: str, seen: set[str]) -> Iterator[str]:
    """Yield the sources of other modules whose kernels are called, directly or by others, and numbers by name."""
    for name in function.__code__.co_names:
        value = function.__globals__.get(name)
        if isinstance(value, int | float | tuple):
            yield f"{name} = {value!r}"
        elif isinstance(value, Dispatcher):
            called = value.py_func
            if called.__module__ != home and called.__module__ not in seen:
                yield Path(called.__code__.co_filename).read_text(encoding="utf-8")
            place = f"{called.__module__}.{called.__qualname__}"
            if place not in seen:
                seen |= {called.__module__, place}
                yield from _parts(called, home, seen)
