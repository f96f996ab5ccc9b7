"""Request table to files: the formats that readers know, written back, and the table itself as parquet.

A row becomes one line; what it lacks stays out of it. Every writer yields bytes, so that a log larger than
memory passes through. ``with_token_ids`` and ``with_block_ids`` fill in what a format needs and the log did
not give; ``Anonymizer`` leaves nothing but lengths, times and who shares what with whom.
"""

from kvtools.writers.anonymize import Anonymizer
from kvtools.writers.base import Writer, lost_columns
from kvtools.writers.keyed_columns import BlockIds, with_token_ids
from kvtools.writers.lines import CHAT_JSONL, MOONCAKE, OPENAI_BATCH, TOKEN_LOG
from kvtools.writers.parquet import PARQUET

__all__ = ["WRITERS", "Anonymizer", "BlockIds", "Writer", "lost_columns", "with_token_ids"]

WRITERS: dict[str, Writer] = {
    writer.name: writer for writer in (CHAT_JSONL, OPENAI_BATCH, TOKEN_LOG, MOONCAKE, PARQUET)
}
"""The formats by name."""
