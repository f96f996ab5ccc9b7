"""SentencePiece models: pieces by name, sentencepiece itself as the oracle where it is asked for nothing else."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvtools.errors import InputError, MissingExtra
from kvtools.table import Ragged
from kvtools.tokens import Tokenizer, how_checked, load_tokenizer

sentencepiece = pytest.importorskip("sentencepiece", reason="needs kvtools[sentencepiece]")

BOS, EOS, INST, UDS = 1, 2, 3, 5  # unknown, BOS, EOS, two control symbols, one of the user's: in this order


def rows(ragged: Ragged) -> list[list[int]]:
    return [ragged.row(index).tolist() for index in range(len(ragged))]


def loaded(folder: Path, model: bytes, config: object = None) -> Tokenizer:
    (folder / "tokenizer.model").write_bytes(model)
    if config is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return load_tokenizer(str(folder))


@pytest.fixture
def piece(llama_model: bytes) -> Callable[..., list[int]]:
    """Return the ids of pieces by their names, which have to be in the model."""
    inner = sentencepiece.SentencePieceProcessor(model_proto=llama_model)

    def ids(*names: str) -> list[int]:
        found = [inner.piece_to_id(name) for name in names]
        assert 0 not in found, "the model has learned other pieces"
        return found

    return ids


@pytest.mark.parametrize(
    ("config", "spaced"),
    [
        ({"tokenizer_class": "LlamaTokenizer"}, (True, False)),
        ({"tokenizer_class": "LlamaTokenizerFast", "legacy": False}, (True, False)),
        ({"tokenizer_class": "LlamaTokenizer", "legacy": True}, (True, True)),
        ({"tokenizer_class": "LlamaTokenizer", "add_prefix_space": False}, (False, False)),
        ({"tokenizer_class": "PreTrainedTokenizerFast"}, (False, False)),
        (None, (False, False)),
    ],
)
def test_a_space_is_put_where_transformers_puts_it(
    config: object, spaced: tuple[bool, bool], tmp_path: Path, llama_model: bytes, piece: Any
) -> None:
    tokenizer = loaded(tmp_path, llama_model, config)
    first, later = (piece("▁hello" if space else "hello") for space in spaced)
    texts = ["hello", " hello", "<s>hello", "[UDS] hello", "hello</s>"]
    assert rows(tokenizer.encode(texts)) == [
        first,
        piece("▁hello"),  # one space is enough
        [BOS, *later],
        [UDS, *piece("▁hello")],
        [*first, EOS],
    ]
    assert tokenizer.encode([]).offsets.tolist() == [0]
    assert how_checked(tokenizer) == "reference only"
    assert ("no tokenizer_config.json" in tokenizer.name) == (config is None)


def test_bos_and_eos_stand_around_a_raw_completion_where_the_configuration_says_so(
    tmp_path: Path, llama_model: bytes, piece: Any
) -> None:
    llama = {"tokenizer_class": "LlamaTokenizer"}
    hello = piece("▁hello")
    assert rows(loaded(tmp_path, llama_model, llama).framed(["hello"])) == [hello]
    config: dict[str, Any] = llama | {"add_bos_token": True}
    assert rows(loaded(tmp_path, llama_model, config).framed(["hello", ""])) == [[BOS, *hello], [BOS]]
    assert rows(loaded(tmp_path, llama_model, config).encode(["hello"])) == [hello]
    config |= {"add_eos_token": True, "bos_token": {"content": "[INST]"}}
    assert rows(loaded(tmp_path, llama_model, config).framed(["hello"])) == [[INST, *hello, EOS]]


def test_tokens_that_the_configuration_adds(tmp_path: Path, llama_model: bytes, piece: Any) -> None:
    config = {
        "tokenizer_class": "LlamaTokenizer",
        "added_tokens_decoder": {"370": {"content": "<|im|>"}, "371": {"content": "<|im|>x"}},
    }
    tokenizer = loaded(tmp_path, llama_model, config)
    assert rows(tokenizer.encode(["<|im|>hello<|im|>x"])) == [[370, *piece("hello"), 371]]


def test_a_model_of_mistral_is_encoded_as_sentencepiece_does(
    tmp_path: Path, llama_model: bytes, piece: Any
) -> None:
    file = tmp_path / "tokenizer.model.v3"
    file.write_bytes(llama_model)
    tokenizer = load_tokenizer(str(tmp_path))
    oracle = sentencepiece.SentencePieceProcessor(model_proto=llama_model)
    texts = ["hello world", " hello", "", "订单 🌿 \n\n x", "<s>"]
    assert rows(tokenizer.framed(texts)) == [[BOS, *oracle.encode(text)] for text in texts]
    assert rows(tokenizer.encode(["<s>[INST]hello"])) == [[BOS, INST, *piece("▁hello")]]


@pytest.mark.parametrize(
    ("options", "config", "said"),
    [
        ({}, {"tokenizer_class": "T5Tokenizer"}, "rules of T5Tokenizer are not known"),
        ({"model_type": "unigram", "hard_vocab_limit": False}, None, "not a BPE model"),
        ({"byte_fallback": False, "vocab_size": 90}, None, "pieces for all bytes"),
        ({"user_defined_symbols": ["a▁b"]}, None, "pieces of its own that hold spaces"),
        ({}, {"added_tokens_decoder": {"370": {"content": "<x>", "rstrip": True}}}, "<x> takes the space"),
        ({}, {"add_bos_token": True, "bos_token": "<bos>"}, "no token <bos>"),
        ({}, [], "not a tokenizer's configuration"),
    ],
)  # fmt: skip
def test_what_transformers_encodes_by_other_rules_is_refused(
    options: dict[str, Any], config: object, said: str, tmp_path: Path, train: Callable[..., bytes]
) -> None:
    with pytest.raises(InputError, match=said):
        loaded(tmp_path, train(**options), config)


def test_damaged_models(tmp_path: Path, llama_model: bytes) -> None:
    for damaged in (b"", b"\n", b"\x0a\xff", b"nonsense", llama_model[:-1], llama_model[:100]):
        with pytest.raises(InputError, match=r"tokenizer\.model: "):
            loaded(tmp_path, damaged)


def test_without_sentencepiece_the_pip_command_is_named(
    tmp_path: Path, llama_model: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(MissingExtra, match=r"pip install 'kvtools\[sentencepiece\]'"):
        loaded(tmp_path, llama_model)
