"""BurstGPT: CSV with ``Timestamp`` (s from the first midnight), ``Model``, request and response tokens, ``Log Type``.

Lengths only; later releases add ``Session ID`` and ``Elapsed time`` (s). A response of 0 tokens is a call that
failed. Format: github.com/HPMLL/BurstGPT.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtools.readers.csv_table import CsvReader

if TYPE_CHECKING:
    from kvtools.readers.base import Row

FAILED = "failed"


def _with_status(row: Row) -> Row:
    return row | {"status": FAILED} if row.get("output_tokens") == 0 else row


READER = CsvReader(
    name="burstgpt",
    header=("Timestamp", "Model", "Request tokens", "Response tokens"),
    mapping={
        "arrival_us": "Timestamp",
        "model": "Model",
        "prompt_tokens": "Request tokens",
        "output_tokens": "Response tokens",
        "route": "Log Type",
        "session_id": "Session ID",
        "latency_s": "Elapsed time",
    },
    finish=_with_status,
)
