"""Tokenizer files against the tokenizers that vLLM itself makes of them."""

from __future__ import annotations

import importlib
import json
import random
import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest
from tiny_ranks import write_tekken

from kvtools.tokens import load_tokenizer

pytestmark = pytest.mark.oracle

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("vllm", reason="the tokenizer oracle needs vLLM 0.32: pip install 'kvtools[vllm]'")
    tokenizers = importlib.import_module("vllm.tokenizers")
    mistral_common = importlib.import_module("mistral_common")

OWN = Path(mistral_common.__file__).parent / "data"
"""The tokenizers that mistral-common brings along."""

_PARTS = ["hello", "world", " ", "  ", "\n", "用户", "订单", "café", "e\u0301", "<s>", "</s>", "[INST]", "[/INST]", "[UDS]",
          "<unk>", "▁", "🌿", "42", "<|im_start|>", "\t", "shipped", "[IMG]", "<SPECIAL_20>"]  # fmt: skip
_PICK = random.Random(5)
TEXTS = ["", *("".join(_PICK.choices(_PARTS, k=_PICK.randint(1, 9))) for _ in range(1_000))]
_BOS = {"__type": "AddedToken", "content": "[INST]", "special": True, "normalized": False}
_EDGES = {"lstrip": False, "rstrip": False, "single_word": False}


def theirs(folder: Path, mode: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tokenizers.get_tokenizer(str(folder), tokenizer_mode=mode)


@pytest.mark.parametrize(
    "config",
    [
        None,
        {"add_bos_token": True},
        {"tokenizer_class": "LlamaTokenizer"},
        {"tokenizer_class": "LlamaTokenizer", "legacy": True, "add_bos_token": True},
        {"tokenizer_class": "LlamaTokenizer", "add_prefix_space": False},
        {"tokenizer_class": "LlamaTokenizerFast", "add_bos_token": True, "bos_token": _BOS | _EDGES},
        {
            "tokenizer_class": "LlamaTokenizer",
            "legacy": False,
            "add_bos_token": True,
            "add_eos_token": True,
            "added_tokens_decoder": {
                "370": {"content": "<|im_start|>", "special": True, "normalized": False, **_EDGES}
            },
        },
    ],
)
def test_sentencepiece_as_transformers(config: Any, tmp_path: Path, llama_model: bytes) -> None:
    (tmp_path / "tokenizer.model").write_bytes(llama_model)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    if config is not None:
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    oracle, ours = theirs(tmp_path, "hf"), load_tokenizer(str(tmp_path))
    chat, raw = ours.encode(TEXTS), ours.framed(TEXTS)
    for index, text in enumerate(TEXTS):
        assert chat.row(index).tolist() == oracle.encode(text, add_special_tokens=False), text
        assert raw.row(index).tolist() == oracle.encode(text), text


@pytest.mark.parametrize("file", sorted(OWN.glob("*")), ids=lambda file: file.name)
def test_mistral_s_own_files(file: Path, tmp_path: Path) -> None:
    shutil.copy(file, tmp_path / ("tekken.json" if file.name.startswith("tekken") else file.name))
    oracle, ours = theirs(tmp_path, "mistral"), load_tokenizer(str(tmp_path))
    raw = ours.framed(TEXTS[:300])
    for index, text in enumerate(TEXTS[:300]):
        assert raw.row(index).tolist() == oracle.encode(text) == oracle(text)["input_ids"], text


def test_a_tekken_that_lists_its_special_tokens(tmp_path: Path) -> None:
    file = write_tekken(tmp_path / "tekken.json")
    oracle = importlib.import_module("mistral_common.tokens.tokenizers.tekken").Tekkenizer.from_file(file)
    raw = load_tokenizer(str(file)).framed(TEXTS)
    for index, text in enumerate(TEXTS):
        assert raw.row(index).tolist() == oracle.encode(text, bos=True, eos=False), text


def test_mistral_s_chat_is_cut_at_control_tokens() -> None:
    """What mistral-common makes of messages is what we make of its own text of them."""
    for file in sorted(OWN.glob("tekken*.json")):
        module = importlib.import_module("mistral_common.tokens.tokenizers.mistral")
        requests = importlib.import_module("mistral_common.protocol.instruct.request")
        messages = [
            {"role": "user", "content": "hello 订单 42\n"},
            {"role": "assistant", "content": " shipped café"},
            {"role": "user", "content": "  the order?"},
        ]
        encoder = module.MistralTokenizer.from_file(str(file))
        made = encoder.encode_chat_completion(requests.ChatCompletionRequest(messages=messages))
        text = "<s>[INST]hello 订单 42\n[/INST] shipped café</s>[INST]  the order?[/INST]"
        assert load_tokenizer(str(file)).encode([text]).values.tolist() == made.tokens
