"""Tiny rank files, whose ids can be worked out by hand."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

RANKS = {bytes([byte]): byte for byte in range(256)} | {b"ab": 256, b"abc": 257}
"""Every byte is its own number; ab is 256, abc (merged from ab) 257."""


def write_ranks(file: Path, ranks: dict[bytes, int] = RANKS, beside: object = None) -> Path:
    file.write_bytes(b"".join(base64.b64encode(token) + b" %d\n" % rank for token, rank in ranks.items()))
    if beside is not None:
        file.with_name(f"{file.name}.json").write_text(json.dumps(beside))
    return file


def write_tekken(file: Path, **changes: Any) -> Path:
    """Six special tokens, two of them unnamed, then every byte and ab; abc is beyond the stated size."""
    vocabulary = [
        {"rank": rank, "token_bytes": base64.b64encode(token).decode(), "token_str": None}
        for token, rank in RANKS.items()
    ]
    special = [
        {"rank": rank, "token_str": text, "is_control": True}
        for rank, text in enumerate(("<unk>", "<s>", "</s>", "[INST]"))
    ]
    config = {
        "pattern": r"\p{L}+|[^\p{L}]+",
        "num_vocab_tokens": 258,
        "default_vocab_size": 263,
        "default_num_special_tokens": 6,
        "version": "v11",
    }
    content = {
        "config": config,
        "vocab": vocabulary,
        "special_tokens": special,
        "version": 1,
        "type": "Tekken",
    }
    file.write_text(json.dumps(content | changes))
    return file
