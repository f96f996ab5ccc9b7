"""Columns that a format needs and a log did not give: token ids, block ids."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa

from kvtools.blocks import block_keys, given_keys
from kvtools.cache import Interner
from kvtools.table import SCHEMA, Ragged, integer_column, offsets_of, present, ragged_column, text_column

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from kvtools.profile import Keyed

PROMPTS = ("messages", "tools", "prompt", "token_ids", "media")


def with_token_ids(table: pd.DataFrame, keyed: Keyed) -> pd.DataFrame:
    """Return ``table`` with the prompts that were keyed as token ids, and ``prompt_tokens`` as many.

    A log of block ids has no tokens and stays as it is.
    """
    if keyed.tokens is None:
        return table
    return _with(
        table,
        {
            "token_ids": _lists(keyed.tokens, keyed.rows, len(table), pa.int32()),
            "prompt_tokens": _numbers(table, keyed),
        },
    )


@dataclass(slots=True)
class BlockIds:
    """Gives every block of a log one number, 0, 1, 2, … by first sight: equal numbers, equal prefixes.

    Requests of different namespaces share none. The last block of a prompt may be partial and has a number too,
    as hash traces list it; by vLLM's rules readers leave it out.
    """

    block_size: int
    _known: Interner = field(default_factory=Interner)

    def add_to(self, table: pd.DataFrame, keyed: Keyed) -> pd.DataFrame:
        """Return ``table`` with ``block_keys``, ``block_size`` and ``prompt_tokens`` of the requests in ``keyed``.

        ``keyed`` holds the prompts of ``table`` in blocks of ``block_size``. All other requests have none, and
        the prompts themselves are left out: a log is either prompts or block ids.
        """
        keys = self._keys(table, keyed)
        numbers = self._known.intern(keys.values).astype(np.uint64)
        sizes = pa.array(
            np.full(len(table), self.block_size), mask=_others(keyed, len(table)), type=pa.int32()
        )
        columns = {name: pa.nulls(len(table), SCHEMA.field(name).type) for name in PROMPTS}
        return _with(
            table,
            columns
            | {
                "block_keys": _lists(Ragged(numbers, keys.offsets), keyed.rows, len(table), pa.uint64()),
                "block_size": sizes,
                "prompt_tokens": _numbers(table, keyed),
            },
        )

    def _keys(self, table: pd.DataFrame, keyed: Keyed) -> Ragged:
        """Return keys of all blocks, the partial one included, which vLLM's rules leave out of ``keyed.keys``."""
        names = text_column(table, "namespace")
        namespaces = [names[row] for row in keyed.rows.tolist()]
        if keyed.tokens is not None:
            return block_keys(keyed.tokens, namespaces, self.block_size, partial=True, media=keyed.media)
        return given_keys(ragged_column(table, "block_keys").take(keyed.rows), namespaces)


def _with(table: pd.DataFrame, columns: Mapping[str, pa.Array]) -> pd.DataFrame:
    return table.assign(
        **{
            name: pd.Series(pd.arrays.ArrowExtensionArray(c), index=table.index)
            for name, c in columns.items()
        }
    )


def _others(keyed: Keyed, count: int) -> NDArray[np.bool_]:
    others = np.ones(count, dtype=np.bool_)
    others[keyed.rows] = False
    return others


def _numbers(table: pd.DataFrame, keyed: Keyed) -> pa.Array:
    """Return ``prompt_tokens``: as keyed, and as the log says where a request was not keyed."""
    missing = _others(keyed, len(table)) & ~present(table, "prompt_tokens")
    tokens = integer_column(table, "prompt_tokens").copy()
    tokens[keyed.rows] = keyed.prompt_tokens
    return pa.array(tokens, mask=missing, type=pa.int64())


def _lists(ragged: Ragged, rows: NDArray[np.int64], count: int, kind: pa.DataType) -> pa.Array:
    """Return the rows of ``ragged`` as a column of ``count`` rows, at the places ``rows``; NA elsewhere or if empty."""
    lengths = np.zeros(count, dtype=np.int64)
    lengths[rows] = ragged.lengths()
    values = pa.array(ragged.values.astype(kind.to_pandas_dtype(), copy=False), type=kind)
    return pa.LargeListArray.from_arrays(
        pa.array(offsets_of(lengths), type=pa.int64()), values, mask=pa.array(lengths == 0)
    )
