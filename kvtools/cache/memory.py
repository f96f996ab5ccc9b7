"""KV memory to blocks: what a model's ``config.json`` says of one block, and what it does not let us say.

Sizes as vLLM's ``FullAttentionSpec.page_size_bytes`` and ``MLAAttentionSpec``: a token takes keys and values of
every KV head in every layer; with multi-head latent attention (DeepSeek V2, V3) one latent vector per layer instead.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from kvtools.errors import InputError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

_UNITS = {
    "": 1,
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "t": 10**12,
    "ki": 2**10,
    "mi": 2**20,
    "gi": 2**30,
    "ti": 2**40,
}
_DTYPE_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1, "auto": 0}

# What keeps blocks of one size for all tokens of all layers from being the whole truth, by the config's own words.
_MOST_BLOCKS = (1 << 31) - 1

_FULL_ATTENTION_OR_MLA = frozenset(
    {
        "llama", "mistral", "mixtral", "qwen2", "qwen3", "qwen2_moe", "qwen3_moe",
        "deepseek_v2", "deepseek_v3", "kimi_k2", "glm4", "glm4_moe", "chatglm", "gpt2",
        "gpt_neox", "gptj", "opt", "falcon", "stablelm", "starcoder2", "phi",
        "phi3", "gemma", "cohere", "olmo", "olmo2", "granite", "granitemoe",
        "exaone", "baichuan", "internlm2", "internlm3", "minicpm", "minicpm3", "ernie4_5",
        "ernie4_5_moe", "nemotron", "dbrx", "mpt", "bloom", "codegen", "persimmon",
    }
)  # fmt: skip
"""``model_type`` of models whose every layer is full attention (or MLA), so that a block has one size."""

_NOT_MODELLED = (
    ("attn_type_list", "layers of several kinds"),
    ("layers_block_type", "layers of several kinds"),
    ("hybrid_override_pattern", "layers of several kinds"),
    ("mamba_d_state", "Mamba layers"),
    ("ssm_state_size", "Mamba layers"),
    ("linear_num_key_heads", "linear attention"),
    ("attention_chunk_size", "chunked attention"),
    ("index_topk", "sparse attention with an index"),
    ("compress_ratios", "compressed sparse attention"),
    ("vision_config", "image tokens"),
    ("audio_config", "audio tokens"),
    ("encoder_layers", "an encoder"),
)


@dataclass(frozen=True, slots=True)
class KvSize:
    """Bytes of KV cache that one token takes on the whole model (all layers, one replica)."""

    bytes_per_token: int
    model: str

    def blocks(self, memory_bytes: int, block_size: int) -> int:
        """Return the usable blocks that fit: vLLM's null block is taken off.

        Raises:
            UsageError: not even one usable block fits.
        """
        blocks = memory_bytes // (self.bytes_per_token * block_size) - 1
        if blocks > _MOST_BLOCKS:
            raise UsageError(
                f"--kv-memory: {memory_bytes:,} bytes are {blocks:,} blocks, more than any engine takes."
            )
        if blocks < 1:
            raise UsageError(
                f"--kv-memory: {memory_bytes:,} bytes hold no usable block of {block_size} tokens "
                f"({self.bytes_per_token * block_size:,} bytes each): give more."
            )
        return blocks


def memory_bytes(text: str) -> int:
    """Return ``20GiB``, ``500MB`` or a plain number as bytes.

    Raises:
        UsageError: it is none of these.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?i?)b?\s*", text, re.IGNORECASE)
    if match is None or match[2].lower() == "i":
        raise UsageError(f"--kv-memory {text}: not a size; write 20GiB, 500MB or a number of bytes.")
    return int(float(match[1]) * _UNITS[match[2].lower()])


def kv_size(config_file: Path, kv_dtype: str = "auto") -> KvSize:
    """Read the size of a token's KV from a ``config.json`` or the model folder that holds one.

    ``kv_dtype``: the cache's element type; ``auto`` is the model's own, as in vLLM.

    Raises:
        InputError: there is no such file, it lacks a field, or the model has what kvtools does not model.
        UsageError: the element type is not known.
    """
    path = config_file / "config.json" if config_file.is_dir() else config_file
    try:
        config = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except OSError as error:
        raise InputError(f"--model-config {config_file}: cannot be read ({error.strerror}).") from None
    except msgspec.DecodeError as error:
        raise InputError(f"{path}: not a model's config.json ({error}).") from None
    inner = config.get("text_config")
    config = config | inner if isinstance(inner, dict) else config
    _refuse_what_is_not_modelled(path, config)
    element = _element_bytes(path, config, kv_dtype)
    layers = _number(path, config, "num_hidden_layers", "n_layer")
    if "kv_lora_rank" in config:
        latent = _number(path, config, "kv_lora_rank") + _number(path, config, "qk_rope_head_dim")
        return KvSize(layers * latent * element, "MLA")
    heads = _number(path, config, "num_attention_heads", "n_head")
    kv_heads = _number(path, config, "num_key_value_heads") if config.get("num_key_value_heads") else heads
    if config.get("head_dim"):
        head_size = _number(path, config, "head_dim")
    else:
        head_size = _number(path, config, "hidden_size", "n_embd") // heads
    return KvSize(2 * layers * kv_heads * head_size * element, "full attention")


def _refuse_what_is_not_modelled(path: Path, config: dict[str, Any]) -> None:
    found = [what for key, what in _NOT_MODELLED if config.get(key)]
    if config.get("sliding_window") and config.get("use_sliding_window", True):
        found.append("a sliding window")
    kinds = set(config.get("layer_types") or []) - {"full_attention"}
    found += [f"layers of kind {kind}" for kind in sorted(kinds)]
    kind = config.get("model_type")
    if not found and kind is not None and kind not in _FULL_ATTENTION_OR_MLA:
        found.append(f"the type {kind!r}")
    if found:
        raise InputError(
            f"{path}: the model has {', '.join(dict.fromkeys(found))}, which kvtools does not model; "
            "give --capacity-blocks as the engine prints it (num_gpu_blocks - 1)."
        )


def _element_bytes(path: Path, config: dict[str, Any], kv_dtype: str) -> int:
    if kv_dtype not in _DTYPE_BYTES:
        raise UsageError(f"--kv-dtype {kv_dtype}: take one of {', '.join(_DTYPE_BYTES)}.")
    name = kv_dtype if kv_dtype != "auto" else config.get("dtype") or config.get("torch_dtype") or "bfloat16"
    if name not in _DTYPE_BYTES:
        raise InputError(f"{path}: element type {name} is not known; name it with --kv-dtype.")
    return _DTYPE_BYTES[name]


def _number(path: Path, config: dict[str, Any], *names: str) -> int:
    for name in names:
        if type(config.get(name)) is int and config[name] > 0:
            return int(config[name])
    raise InputError(
        f"{path}: {names[0]} is missing or not above 0, so a block's size is not known; give --capacity-blocks."
    )
