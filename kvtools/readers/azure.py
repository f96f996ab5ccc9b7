"""Azure's traces of LLM inference: CSV with ``TIMESTAMP``, ``ContextTokens``, ``GeneratedTokens``; lengths only.

The 2023 traces write the time with seven decimals and no zone (read as UTC), the 2024 ones with a zone, the
2025 ones have ``NumImages`` too. Format: github.com/Azure/AzurePublicDataset (Splitwise, ISCA 2024).
"""

from __future__ import annotations

from kvtools.readers.csv_table import CsvReader

READER = CsvReader(
    name="azure",
    header=("TIMESTAMP", "ContextTokens", "GeneratedTokens"),
    mapping={
        "arrival_us": "TIMESTAMP",
        "prompt_tokens": "ContextTokens",
        "output_tokens": "GeneratedTokens",
    },
)
