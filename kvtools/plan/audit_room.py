"""How much KV cache a configuration leaves: blocks, from what is known of memory and model.

Per GPU, as vLLM 0.32 lays it out: tensor parallelism parts the KV heads (no GPU holds less than one; a latent of MLA
is on each), pipeline parallelism the layers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from kvtools.cache.memory import kv_size, memory_bytes
from kvtools.errors import InputError, UsageError
from kvtools.plan.audit_model import ModelFacts, Room

if TYPE_CHECKING:
    from pathlib import Path

    from kvtools.plan.flags_parse import Parsed

DEFAULT_UTILIZATION = 0.92
"""``CacheConfig.gpu_memory_utilization`` of vLLM 0.32."""

_GIB = 1 << 30
_MOST_BLOCKS = (1 << 31) - 1
_DECIDES = ("tensor_parallel_size", "pipeline_parallel_size", "kv_cache_dtype", "block_size")
_ELEMENTS = frozenset({"auto", "bfloat16", "float16", "fp8", "fp8_e4m3", "fp8_e5m2"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomOptions:
    """What the user knows of memory: blocks, or KV memory of the whole model, or a GPU's memory and all weights."""

    capacity_blocks: int | None = None
    kv_memory: str | None = None
    model_config: Path | None = None
    kv_dtype: str | None = None
    gpu_memory: str | None = None
    weights: str | None = None

    def __post_init__(self) -> None:
        sizes = {"--kv-memory": self.kv_memory, "--gpu-memory": self.gpu_memory, "--weights": self.weights}
        for option, text in sizes.items():
            if text is not None:
                _bytes(option, text)
        given = [option for option, text in sizes.items() if text is not None]
        if given and self.model_config is None:
            raise UsageError(f"{given[0]}: a block's size depends on the model; give its --model-config.")
        if self.capacity_blocks is not None and self.kv_memory is not None:
            raise UsageError("--capacity-blocks and --kv-memory both size the cache: give one of them.")
        if self.weights is not None and self.gpu_memory is None:
            raise UsageError("--weights says what of the GPUs' memory is left: it goes with --gpu-memory.")


def model_facts(config_file: Path | None) -> ModelFacts:
    """Return what a ``config.json`` says.

    Raises:
        InputError: it cannot be read.
    """
    if config_file is None:
        return ModelFacts()
    config = _config(config_file)
    layers = config.get("num_hidden_layers", config.get("n_layer"))
    longest = config.get("max_position_embeddings", config.get("n_positions"))
    return ModelFacts(
        layers if isinstance(layers, int) else None,
        longest if isinstance(longest, int) else None,
        rope_scaled=bool(config.get("rope_scaling") or config.get("rope_parameters")),
    )


def room_of(parsed: Parsed, options: RoomOptions, block_size: int) -> Room:
    """Return how many blocks of ``block_size`` tokens the cache holds.

    Raises:
        InputError: the model's config cannot be read.
        UsageError: the memory holds no block.
    """
    per_block, why = _block_bytes(parsed, options, block_size)
    if options.capacity_blocks is not None:
        return Room(options.capacity_blocks, "--capacity-blocks", bytes_per_block=per_block)
    override = parsed.value("num_gpu_blocks_override")
    if override is not None:
        return Room(
            min(max(override - 1, 1), _MOST_BLOCKS),
            "--num-gpu-blocks-override less the null block",
            bytes_per_block=per_block,
        )
    if per_block is None:
        return Room(None, why)
    if options.kv_memory is not None and options.model_config is not None:
        dtype = _element(parsed, options) or "auto"
        blocks = kv_size(options.model_config, dtype).blocks(memory_bytes(options.kv_memory), block_size)
        return Room(blocks, f"--kv-memory {options.kv_memory}", bytes_per_block=per_block)
    return _on_gpu(parsed, options, per_block)


def _on_gpu(parsed: Parsed, options: RoomOptions, per_block: int) -> Room:
    held = parsed.value("kv_cache_memory_bytes")
    if held is not None:
        return _room(held, per_block, "--kv-cache-memory-bytes", at_most=False)
    if options.gpu_memory is not None:
        return _of_gpu(parsed, options, per_block)
    return Room(None, "give --kv-memory, --gpu-memory or --capacity-blocks", bytes_per_block=per_block)


def _of_gpu(parsed: Parsed, options: RoomOptions, per_block: int) -> Room:
    gpus = max(parsed.value("tensor_parallel_size", 1) * parsed.value("pipeline_parallel_size", 1), 1)
    part = float(parsed.value("gpu_memory_utilization", DEFAULT_UTILIZATION))
    if not 0 < part <= 1:
        return Room(None, f"--gpu-memory-utilization {part:g} is no share", bytes_per_block=per_block)
    whole = _bytes("--gpu-memory", options.gpu_memory or "0")
    weights = 0 if options.weights is None else _bytes("--weights", options.weights) // gpus
    basis = (
        f"{part:g} of {options.gpu_memory} less {weights / _GIB:.1f} GiB of weights, on each of {gpus} GPU"
    )
    return _room(int(whole * part) - weights, per_block, basis, at_most=True)


def _room(held: int, per_block: int, basis: str, *, at_most: bool) -> Room:
    blocks = min(max(held, 0) // per_block - 1, _MOST_BLOCKS)
    if blocks < 1:
        return Room(None, f"{basis}: no block of {per_block:,} bytes fits", at_most, per_block)
    return Room(blocks, basis, at_most, per_block)


def _block_bytes(parsed: Parsed, options: RoomOptions, block_size: int) -> tuple[int | None, str]:
    """Return the bytes of a block on one GPU, or why they are not known."""
    if options.model_config is None:
        return None, "give --model-config and --kv-memory, or --capacity-blocks"
    unknown = [
        parsed.given[dest].flag.name for dest in _DECIDES if dest in parsed.given and not parsed.is_set(dest)
    ]
    if unknown:
        return None, f"the value of {unknown[0]} is known to the shell only"
    element = _element(parsed, options)
    if element is None:
        return None, f"kvtools does not know how large an element of {parsed.value('kv_cache_dtype')} is"
    config = _config(options.model_config)
    try:
        size = kv_size(options.model_config, element)
    except InputError as error:
        return None, str(error)  # a model that kvtools does not model: the rest of the audit holds
    stages = max(parsed.value("pipeline_parallel_size", 1), 1)
    parts = 1
    if size.model != "MLA":
        heads = (
            config.get("num_key_value_heads")
            or config.get("num_attention_heads")
            or config.get("n_head")
            or 1
        )
        parts = max(min(parsed.value("tensor_parallel_size", 1), heads), 1)
    return -(-size.bytes_per_token * block_size // (stages * parts)), ""


def _element(parsed: Parsed, options: RoomOptions) -> str | None:
    """Return the cache's element type: as asked for, else as the line says; ``None`` where its size is not known."""
    name = options.kv_dtype or parsed.value("kv_cache_dtype", "auto")
    return name if name in _ELEMENTS or options.kv_dtype else None


def _config(config_file: Path) -> dict[str, Any]:
    path = config_file / "config.json" if config_file.is_dir() else config_file
    try:
        config = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except OSError as error:
        raise InputError(f"--model-config {config_file}: cannot be read ({error.strerror}).") from None
    except msgspec.DecodeError as error:
        raise InputError(f"{path}: not a model's config.json ({error}).") from None
    inner = config.get("text_config")
    return config | inner if isinstance(inner, dict) else config


def _bytes(option: str, text: str) -> int:
    try:
        return memory_bytes(text)
    except UsageError as error:
        raise UsageError(str(error).replace("--kv-memory", option)) from None
