from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvtools.cache.memory import kv_size, memory_bytes
from kvtools.errors import InputError, UsageError

LLAMA_8B = {
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "hidden_size": 4096,
    "torch_dtype": "bfloat16",
}  # fmt: skip
DEEPSEEK_V3 = {
    "num_hidden_layers": 61, "num_attention_heads": 128, "kv_lora_rank": 512, "qk_rope_head_dim": 64,
    "torch_dtype": "bfloat16",
}  # fmt: skip


def _config(folder: Path, config: dict) -> Path:
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_full_attention_by_hand(tmp_path: Path) -> None:
    # Llama 3 8B: 2 (K and V) * 32 layers * 8 KV heads * 128 * 2 bytes = 131,072 bytes a token, as published.
    size = kv_size(_config(tmp_path, LLAMA_8B))
    assert size.bytes_per_token == 131_072
    # 20 GiB / (131,072 * 16) = 10,240 blocks, one of which is vLLM's null block.
    assert size.blocks(memory_bytes("20GiB"), 16) == 10_239
    assert kv_size(tmp_path / "config.json", "fp8").bytes_per_token == 65_536


def test_multi_head_latent_attention_by_hand(tmp_path: Path) -> None:
    # DeepSeek V3: 61 layers * (512 + 64) * 2 bytes = 70,272 bytes a token, as published.
    size = kv_size(_config(tmp_path, DEEPSEEK_V3))
    assert (size.bytes_per_token, size.model) == (70_272, "MLA")


def test_an_explicit_head_size_and_a_nested_config(tmp_path: Path) -> None:
    config = {"text_config": LLAMA_8B | {"head_dim": 64, "dtype": "float32"}}
    assert kv_size(_config(tmp_path, config)).bytes_per_token == 2 * 32 * 8 * 64 * 4


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({"sliding_window": 4096}, "a sliding window"),
        ({"layer_types": ["full_attention", "linear_attention"]}, "layers of kind linear_attention"),
        ({"mamba_d_state": 16}, "Mamba layers"),
        ({"attn_type_list": [0, 0, 1]}, "layers of several kinds"),
        ({"model_type": "minimax"}, "the type 'minimax'"),
        ({"vision_config": {"depth": 1}}, "image tokens"),
        ({"index_topk": 2048}, "sparse attention with an index"),
    ],
)
def test_what_is_not_modelled_is_refused_by_name(tmp_path: Path, more: dict, what: str) -> None:
    with pytest.raises(
        InputError, match=f"the model has {what}, which kvtools does not model; give --capacity-blocks"
    ):
        kv_size(_config(tmp_path, LLAMA_8B | more))


def test_a_window_that_is_switched_off_is_none(tmp_path: Path) -> None:
    config = LLAMA_8B | {"sliding_window": 4096, "use_sliding_window": False}
    assert kv_size(_config(tmp_path, config)).bytes_per_token == 131_072


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("20GiB", 20 << 30),
        ("1.5GiB", 3 << 29),
        ("500MB", 500_000_000),
        ("4096", 4096),
        ("2 kib", 2048),
        ("1T", 10**12),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert memory_bytes(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "20 GiBs", "-1", "1e9", "20i"])
def test_no_sizes(text: str) -> None:
    with pytest.raises(UsageError, match="not a size"):
        memory_bytes(text)


def test_bad_configs_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        kv_size(tmp_path / "nowhere")
    with pytest.raises(InputError, match="num_hidden_layers is missing or not above 0"):
        kv_size(_config(tmp_path, {}))
    for layers in (0, -2, "32", True):
        with pytest.raises(InputError, match="num_hidden_layers is missing or not above 0"):
            kv_size(_config(tmp_path, LLAMA_8B | {"num_hidden_layers": layers}))
    with pytest.raises(UsageError, match="more than any engine takes"):
        kv_size(_config(tmp_path, LLAMA_8B)).blocks(memory_bytes("99999999TiB"), 16)
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(InputError, match=r"not a model's config\.json"):
        kv_size(tmp_path)
    with pytest.raises(UsageError, match="hold no usable block"):
        kv_size(_config(tmp_path, LLAMA_8B)).blocks(1 << 20, 16)
