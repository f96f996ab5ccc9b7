"""How large the cache is: blocks as given, or as many as fit into a memory with a model's KV."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from kvtools.cache.memory import kv_size, memory_bytes
from kvtools.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from kvtools.report.model import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheMemory:
    """``kv_memory`` as ``20GiB``, the model's ``config.json`` or its folder, and the cache's element type."""

    kv_memory: str
    model_config: Path
    kv_dtype: str = "auto"

    def capacity_blocks(self, block_size: int) -> int:
        """Return the usable blocks of ``block_size`` tokens that fit.

        Raises:
            InputError: the config cannot be read, or the model has what kvtools does not model.
            UsageError: the memory is no size, or holds no block.
        """
        return kv_size(self.model_config, self.kv_dtype).blocks(memory_bytes(self.kv_memory), block_size)

    def block_bytes(self, block_size: int) -> int:
        """Return the bytes that one block of ``block_size`` tokens takes.

        Raises:
            InputError: the config cannot be read, or the model has what kvtools does not model.
        """
        return kv_size(self.model_config, self.kv_dtype).bytes_per_token * block_size


def with_block_bytes(report: Report, memory: CacheMemory | None) -> Report:
    """Return the report with the bytes of its cache's blocks, where the model is known."""
    if memory is None or report.cache is None:
        return report
    size = memory.block_bytes(report.cache.block_size)
    return msgspec.structs.replace(report, cache=msgspec.structs.replace(report.cache, block_bytes=size))


def cache_memory(
    kv_memory: str | None, model_config: Path | None, kv_dtype: str | None, capacity_blocks: int | None
) -> CacheMemory | None:
    """Return the memory to size the cache by, ``None`` where none was given.

    Raises:
        UsageError: only one of memory and model was given, or blocks besides them.
    """
    if kv_memory is None and model_config is None:
        if kv_dtype is not None:
            raise UsageError(
                "--kv-dtype says how large a block is: it goes with --kv-memory and --model-config."
            )
        return None
    if kv_memory is None or model_config is None:
        raise UsageError("--kv-memory and --model-config go together: a block's size depends on the model.")
    if capacity_blocks is not None:
        raise UsageError("--capacity-blocks and --kv-memory both size the cache: give one of them.")
    return CacheMemory(kv_memory=kv_memory, model_config=model_config, kv_dtype=kv_dtype or "auto")
