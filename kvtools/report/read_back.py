"""Figures that were written as JSON, read back: of one schema version, or refused in one sentence."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from kvtools.errors import InputError

Form = TypeVar("Form", bound=msgspec.Struct)


class _Versioned(msgspec.Struct):
    schema_version: int | None = None


def read_back(data: bytes | str, form: type[Form], version: int, name: str) -> Form:
    """Return what ``to_json`` of this form wrote; ``name`` is what a sentence calls it.

    Raises:
        InputError: not such a form, or one of another schema version.
    """
    try:
        found = msgspec.json.decode(data, type=_Versioned).schema_version
        if found == version:
            return msgspec.json.decode(data, type=form)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise InputError(f"not a kvtools {name} ({error}); write one with --format json.") from None
    raise InputError(f"the {name} has schema version {found}, this kvtools reads {version}.")
