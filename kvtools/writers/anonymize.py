"""A log without its text and names: what is left replays to the same hits, request by request."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa

from kvtools.errors import UsageError
from kvtools.table import SCHEMA, text_column

if TYPE_CHECKING:
    from kvtools.profile import Keyed
    from kvtools.writers.keyed_columns import BlockIds

TEXTS = (
    "messages",
    "tools",
    "prompt",
    "token_ids",
    "media",
    "output_text",
    "status",
    "request_type",
    "source",
)
"""What is left out. Token ids are text; a status may quote a prompt, a header anything, and a source is a path."""
NAMES = ("request_id", "session_id", "route", "namespace")
_HEX_BYTES = 8
_LONGEST_KEY = blake2b.MAX_KEY_SIZE


@dataclass(frozen=True, slots=True)
class Anonymizer:
    """Keeps times, lengths and block ids; names become keyed BLAKE2b hashes (16 hex digits), text is left out.

    Block ids are numbers of ``blocks``, by first sight: they say which prompts begin alike and nothing of how.
    Who has the key can test whether a name occurs; without it a hash cannot be guessed or linked to another
    export. Equal values of different columns have different hashes. ``key``: 1 to 64 bytes, best 16 random ones.
    """

    key: bytes = field(repr=False)
    blocks: BlockIds

    def __post_init__(self) -> None:
        if not 1 <= len(self.key) <= _LONGEST_KEY:
            raise UsageError(
                f"a key of {len(self.key)} bytes: give 1 to {_LONGEST_KEY}, best 16 random ones, to hash names with."
            )

    def apply(self, table: pd.DataFrame, keyed: Keyed) -> pd.DataFrame:
        """Return the chunk with block ids in place of its prompts, hashes in place of its names."""
        listed = self.blocks.add_to(table, keyed)
        columns = {name: pa.nulls(len(table), SCHEMA.field(name).type) for name in TEXTS}
        columns |= {name: self._hashed(table, name) for name in NAMES}
        return listed.assign(
            **{n: pd.Series(pd.arrays.ArrowExtensionArray(c), index=table.index) for n, c in columns.items()}
        )

    def _hashed(self, table: pd.DataFrame, column: str) -> pa.Array:
        names = text_column(table, column)
        hash_of = {name: self.hashed(name, column) for name in set(names) if name is not None}
        return pa.array([None if name is None else hash_of[name] for name in names], type=pa.large_string())

    def hashed(self, name: str, column: str) -> str:
        """Return what stands for ``name`` in ``column``."""
        digest = blake2b(name.encode(), key=self.key, person=column.encode(), digest_size=_HEX_BYTES)
        return digest.hexdigest()
