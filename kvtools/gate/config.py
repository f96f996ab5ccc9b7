"""The gate's configuration: ``[check]`` of kvtools.toml, or ``[tool.kvtools.check]`` of pyproject.toml."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from kvtools.errors import UsageError
from kvtools.gate.budget import LIMITS, NEEDED, Budget, Limit, limit_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from kvtools.gate.budget import Scope

OWN_FILE, PROJECT_FILE = "kvtools.toml", "pyproject.toml"

PATHS = ("baseline", "templates", "values")
"""Keys that name a file or a folder, from the folder of the configuration."""

_TABLES: dict[str, Scope] = {"routes": "route", "classes": "class"}


@dataclass(frozen=True, slots=True)
class Configuration:
    """What a file says: the budget, and paths by key with where each was set. No file says nothing."""

    budget: Budget = field(default_factory=Budget)
    paths: Mapping[str, tuple[Path, str]] = field(default_factory=dict)
    file: Path | None = None


def find_configuration(folder: Path, named: Path | None = None) -> Configuration:
    """Return the configuration in the file that is ``named``, else in kvtools.toml, else in pyproject.toml.

    Raises:
        UsageError: the file is missing, not TOML, has an unknown key, or a value of another type or range.
    """
    if named is not None:
        found = _read(named, own=named.name != PROJECT_FILE)
        if found is None:
            raise UsageError(f"{named}: has no [tool.kvtools.check]; add it, or name another file.")
        return found
    for name in (OWN_FILE, PROJECT_FILE):
        path = folder / name
        if path.is_file():
            found = _read(path, own=name == OWN_FILE)
            if found is not None:
                return found
    return Configuration()


def _read(path: Path, *, own: bool) -> Configuration | None:
    try:
        document = tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}); name the configuration.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path}: not TOML ({error}); correct it.") from None
    name = path.name
    if own:
        return _configuration(_part(document, "check", name, ("check",)), f"{name}: [check]", path)
    tool = document.get("tool")
    held = tool.get("kvtools") if isinstance(tool, dict) else None
    if held is None:
        return None
    if not isinstance(held, dict):
        raise UsageError(f"{name}: tool.kvtools is no table; write [tool.kvtools.check].")
    table = _part(held, "check", f"{name}: [tool.kvtools]", ("check",))
    return _configuration(table, f"{name}: [tool.kvtools.check]", path)


def _part(document: dict[str, Any], key: str, where: str, known: tuple[str, ...]) -> dict[str, Any]:
    _refuse_unknown(document, known, where)
    table = document.get(key, {})
    if not isinstance(table, dict):
        raise UsageError(f"{where}: {key} is no table; write [{key}] and its keys below.")
    return table


def _configuration(table: dict[str, Any], where: str, path: Path) -> Configuration:
    _refuse_unknown(table, (*LIMITS, *PATHS, *_TABLES), where)
    limits = {name: limit_of(name, table[name], f"{where} {name}") for name in LIMITS if name in table}
    of_scope = {
        key: _scoped(table.get(key, {}), scope, f"{where[:-1]}.{key}") for key, scope in _TABLES.items()
    }
    paths = {}
    for name in PATHS:
        if name in table:
            if not isinstance(table[name], str) or not table[name]:
                raise UsageError(f'{where} {name}: no path; write it as text, such as {name} = "…".')
            paths[name] = (path.parent / table[name], f"{where} {name}")
    return Configuration(Budget(limits, of_scope["routes"], of_scope["classes"]), paths, path)


def _scoped(table: object, scope: Scope, where: str) -> dict[str, dict[str, Limit]]:
    if not isinstance(table, dict):
        raise UsageError(f"{where}]: no table; write {where.partition('[')[2]}.NAME] and its limits below.")
    found = {}
    for name, limits in table.items():
        at = f"{where}.{name}]"
        if not isinstance(limits, dict):
            raise UsageError(f"{at}: no table; write the limits of {name} below {at.partition(': ')[2]}.")
        known = tuple(key for key, kind in LIMITS.items() if scope in kind.scopes and key not in NEEDED)
        _refuse_unknown(limits, known, at)
        found[name] = {key: limit_of(key, value, f"{at} {key}", scope) for key, value in limits.items()}
    return found


def _refuse_unknown(table: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    strange = next((key for key in table if key not in known), None)
    if strange is not None:
        near = get_close_matches(strange, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}."
        raise UsageError(f"{where}: there is no key {strange}; {hint}")
