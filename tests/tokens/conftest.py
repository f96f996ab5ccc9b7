"""Tiny SentencePiece models, trained in the test."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from typing import Any

import pytest

_WORDS = [
    "hello",
    "(hello",
    "world",
    "the",
    "order",
    "shipped",
    "用户",
    "订单",
    "café",
    "naïve",
    "return",
    "policy",
]
PIECES = 370


@pytest.fixture(scope="session")
def train() -> Callable[..., bytes]:
    """Return ``train(**options)``: the bytes of a SentencePiece model as Llama's are made, of 370 pieces."""
    sentencepiece = pytest.importorskip("sentencepiece", reason="needs kvtools[sentencepiece]")
    pick = random.Random(7)
    lines = [" ".join(pick.choices(_WORDS, k=8)) for _ in range(400)]

    def trained(**options: Any) -> bytes:
        made = io.BytesIO()
        as_llama = {
            "vocab_size": PIECES,
            "model_type": "bpe",
            "byte_fallback": True,
            "normalization_rule_name": "identity",
            "remove_extra_whitespaces": False,
            "character_coverage": 1.0,
            "user_defined_symbols": ["[UDS]"],
            "control_symbols": ["[INST]", "[/INST]"],
            "minloglevel": 2,
        }
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines), model_writer=made, **(as_llama | options)
        )
        return made.getvalue()

    return trained


@pytest.fixture(scope="session")
def llama_model(train: Callable[..., bytes]) -> bytes:
    """A model as Llama's: BPE with pieces for all bytes, nothing normalized."""
    return train()
