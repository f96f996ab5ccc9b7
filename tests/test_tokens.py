from __future__ import annotations

import json
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtools.errors import InputError
from kvtools.tokens import (
    BytesTokenizer,
    CheckedTokenizer,
    FastTokenizerDiffers,
    ReferenceTokenizer,
    load_tokenizer,
)
from kvtools.tokens.checked import all_seen


@pytest.fixture(scope="module")
def deepseek() -> CheckedTokenizer:
    tokenizer = load_tokenizer()
    assert isinstance(tokenizer, CheckedTokenizer)
    return tokenizer


def _rows(ragged) -> list[list[int]]:
    return [ragged.row(index).tolist() for index in range(len(ragged))]


def test_bytes() -> None:
    assert _rows(BytesTokenizer().encode(["a", "", "é"])) == [[97], [], [0xC3, 0xA9]]


def test_the_fast_tokenizer_equals_the_reference_on_awkward_text(deepseek: CheckedTokenizer) -> None:
    texts = [
        "",
        " ",
        "\n\n  \r\n\t",
        "用户[ID:18392]在2026-07-15T08:23咨询订单[NO:874635]",
        "<｜begin▁of▁sentence｜>You<｜User｜>1234567 + 89<｜Assistant｜>",
        "e\u0301 café naïve ﬁ \u2028 \u00a0 \u200b",
        "🌿👩‍👩‍👧‍👦 मानक ภาษาไทย 한국어 עברית",
        "a" * 5000,
        "٣٤٥ Ⅻ ½ 𝟘",
    ]
    assert _rows(deepseek.encode(texts)) == _rows(deepseek.reference.encode(texts))
    assert deepseek.encode([]).offsets.tolist() == [0]


def test_special_tokens_written_in_the_text_are_one_token(deepseek: CheckedTokenizer) -> None:
    assert _rows(deepseek.encode(["<｜begin▁of▁sentence｜>"])) == [[0]]  # id 0 in DeepSeek's tokenizer.json


@dataclass
class _Shifted:
    """A fast tokenizer with a fault: the ids of texts that hold ``where`` are off by one."""

    inner: object
    where: str

    def encode_batch(self, texts):
        layout = self.inner.encode_batch(texts).layout
        ids = np.asarray(layout.content.data).copy()
        offsets = np.asarray(layout.offsets.data)
        for index, text in enumerate(texts):
            if self.where in text:
                ids[offsets[index] : offsets[index + 1]] += 1
        data = SimpleNamespace(content=SimpleNamespace(data=ids), offsets=SimpleNamespace(data=offsets))
        return SimpleNamespace(layout=data)


def test_a_difference_on_one_code_point_is_found_wherever_it_stands(deepseek: CheckedTokenizer) -> None:
    faulty = CheckedTokenizer(deepseek.reference, _Shifted(deepseek._fast, "ℵ"))
    plain = [f"prompt {number}" for number in range(50)]
    faulty.encode(plain)
    plain[37] += " with ℵ inside"  # not one of the two prompts that are compared whole
    with pytest.raises(FastTokenizerDiffers):
        faulty.encode(plain)


def _tiny_tokenizer(folder, *, bos: bool) -> None:
    single = [{"SpecialToken": {"id": "<s>", "type_id": 0}}] * bos + [{"Sequence": {"id": "A", "type_id": 0}}]
    added = {"id": 0, "content": "<s>", "single_word": False, "lstrip": False, "rstrip": False}
    pair = [*single, {"Sequence": {"id": "B", "type_id": 0}}]
    special = {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}}
    processor = {"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": special}
    vocabulary = {"<s>": 0, "a": 1, "b": 2, "ab": 3}
    model = {"type": "BPE", "vocab": vocabulary, "merges": [["a", "b"]], "byte_fallback": False}
    content = {
        "version": "1.0",
        "added_tokens": [added | {"normalized": False, "special": True}],
        "pre_tokenizer": {
            "type": "ByteLevel",
            "add_prefix_space": False,
            "trim_offsets": True,
            "use_regex": True,
        },
        "post_processor": processor,
        "model": model,
    }
    (folder / "tokenizer.json").write_text(json.dumps(content))


_ANY = st.integers(0, 0x10FFFF).map(chr)  # lone surrogates too


@given(
    st.lists(_ANY | st.sampled_from(["\x7f", "\x80", "\u07ff", "\u0800", "\uffff", "\U00010000"]), max_size=8)
)
def test_a_code_point_is_new_until_it_was_seen(points: list[str]) -> None:
    text = "".join(points)
    utf8 = np.frombuffer(text.encode("utf-8", "surrogatepass"), dtype=np.uint8)
    seen = np.zeros(0x110000, dtype=np.bool_)
    assert all_seen(utf8, seen) == (not text)
    seen[[ord(point) for point in points]] = True
    assert all_seen(utf8, seen)
    for point in points:
        seen[ord(point)] = False
        assert not all_seen(utf8, seen)
        seen[ord(point)] = True


@pytest.mark.parametrize("fast", [True, False])
def test_a_raw_completion_gets_what_the_tokenizer_adds(tmp_path, fast: bool) -> None:
    _tiny_tokenizer(tmp_path, bos=True)
    tokenizer = load_tokenizer(str(tmp_path), fast=fast)
    assert _rows(tokenizer.encode(["abb", "a"])) == [[3, 2], [1]]
    assert _rows(tokenizer.framed(["abb", "a", ""])) == [[0, 3, 2], [0, 1], [0]]


def test_without_fast_the_reference_alone_is_used(tmp_path) -> None:
    _tiny_tokenizer(tmp_path, bos=False)
    assert isinstance(load_tokenizer(str(tmp_path / "tokenizer.json"), fast=False), ReferenceTokenizer)


def test_a_missing_or_broken_tokenizer_is_one_sentence(tmp_path) -> None:
    with pytest.raises(InputError, match=r"no tokenizer\.json there"):
        load_tokenizer(str(tmp_path))
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(InputError, match=r"not a tokenizer\.json"):
        load_tokenizer(str(tmp_path))
