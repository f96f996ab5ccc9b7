"""tiktoken's rank files and Mistral's tekken: ids by hand, the known encodings against tiktoken's own."""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tiny_ranks import RANKS, write_ranks, write_tekken

from kvtools.errors import InputError, MissingExtra, UsageError
from kvtools.table import Ragged
from kvtools.tokens import CheckedTokenizer, FastTokenizerDiffers, how_checked, load_tokenizer
from kvtools.tokens.ranks import ENCODINGS, RankTokenizer, encoding_of, fast_ranks, load_ranks

pytest.importorskip("tiktoken", reason="needs kvtools[tiktoken]")

STATED = {"pat_str": r"\p{L}+|[^\p{L}]+", "special_tokens": {"<|end|>": 300}}


def rows(ragged: Ragged) -> list[list[int]]:
    return [ragged.row(index).tolist() for index in range(len(ragged))]


def test_a_rank_file_with_a_stated_pattern(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(str(write_ranks(tmp_path / "own.tiktoken", beside=STATED)))
    texts = ["abc ab<|end|>", "", "c", "é"]
    ids = [[257, 32, 256, 300], [], [99], [0xC3, 0xA9]]
    assert rows(tokenizer.encode(texts)) == ids
    assert rows(tokenizer.framed(texts)) == ids  # nothing is added, and a raw text may hold special tokens
    assert rows(tokenizer.encode([])) == []
    assert how_checked(tokenizer) == "reference only"


def test_a_rank_file_under_another_name_or_in_a_folder(tmp_path: Path) -> None:
    write_ranks(tmp_path / "tokenizer.model", beside=STATED)
    assert rows(load_tokenizer(str(tmp_path)).encode(["ab"])) == [[256]]
    write_ranks(tmp_path / "own.tiktoken", {**RANKS, b"ab": 257, b"abc": 256}, beside=STATED)
    (tmp_path / "tokenizer.model").unlink()
    assert rows(load_tokenizer(str(tmp_path)).encode(["ab"])) == [[257]]


def test_known_encodings_are_those_of_tiktoken(monkeypatch: pytest.MonkeyPatch) -> None:
    from tiktoken_ext import openai_public

    hashes: list[str] = []

    def ranks(_: str, expected_hash: str) -> dict[bytes, int]:
        hashes.append(expected_hash)
        return RANKS

    monkeypatch.setattr(openai_public, "load_tiktoken_bpe", ranks)
    for name in ("r50k_base", "p50k_base", "cl100k_base", "o200k_base", "o200k_harmony"):
        theirs = getattr(openai_public, name)()
        ours = ENCODINGS[name]
        assert ours.pattern == theirs["pat_str"]
        # Two names of one id in o200k_harmony: the one that its base has is what a text can hold.
        missing = theirs["special_tokens"].keys() - ours.special.keys()
        assert missing <= {"<|reserved_200018|>"}
        assert {k: v for k, v in theirs["special_tokens"].items() if k not in missing} == ours.special
        assert ours.sha256 == hashes.pop()


def test_qwen_is_known_by_its_name_and_brings_text_to_nfc(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(str(write_ranks(tmp_path / "qwen.tiktoken")))
    assert isinstance(tokenizer, CheckedTokenizer)
    # é as one code point is two bytes; the digits are taken one by one; ids of tokenization_qwen.py.
    texts = ["e\u0301", "ab12", "<|endoftext|><|im_start|><|im_end|><|extra_204|>"]
    ids = [[0xC3, 0xA9], [256, 49, 50], [151643, 151644, 151645, 151643 + 2 + 205]]
    assert rows(tokenizer.encode(texts)) == ids
    assert rows(tokenizer.framed(texts)) == ids
    # Two calls with three texts each.
    assert how_checked(tokenizer).startswith("fast, equal to the reference on 6 prompts")
    assert rows(load_tokenizer(str(tmp_path / "qwen.tiktoken"), fast=False).encode(texts)) == ids


_PARTS = ["a", "abc", "B", "ß", "用户", " ", "   ", "\n", "\r\n", "\t", "'s", "'S", "1", "2345", "٣", "é", "e\u0301",
          "\u2028", "\u00a0", "🌿", "ﬁ", "Ⅻ", "ǅ", "ʰ", "/", "!!", "<|end|>", "-", "한", "\u200b"]  # fmt: skip


@pytest.mark.parametrize("name", ENCODINGS)
def test_the_fast_tokenizer_equals_tiktoken(name: str, tmp_path: Path) -> None:
    pick = random.Random(11)
    texts = ["".join(pick.choices(_PARTS, k=25)) for _ in range(2_000)]
    file = write_ranks(tmp_path / "x.tiktoken")
    encoding = replace(ENCODINGS[name], special={"<|end|>": 300})
    reference = load_ranks("x", file, encoding)
    checked = CheckedTokenizer(reference, fast_ranks(file, encoding))
    assert rows(checked.encode(texts)) == rows(reference.encode(texts))


def test_another_pattern_in_the_fast_tokenizer_is_found(tmp_path: Path) -> None:
    file = write_ranks(tmp_path / "x.tiktoken", {**RANKS, b"12": 258, b"123": 259})
    cl100k = replace(ENCODINGS["cl100k_base"], special={})
    reference = load_ranks("x", file, cl100k)  # digits by threes
    checked = CheckedTokenizer(reference, fast_ranks(file, replace(cl100k, scheme="qwen2")))  # one by one
    with pytest.raises(FastTokenizerDiffers):
        checked.encode(["order 123"])


def test_a_name_that_is_not_known_needs_a_pattern(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"cl100k_base.* or state its pattern in own\.tiktoken\.json"
    ) as raised:
        load_tokenizer(str(write_ranks(tmp_path / "own.tiktoken")))
    assert raised.value.exit_code == 2


@pytest.mark.parametrize(
    ("ranks", "beside", "said"),
    [
        (RANKS, {"pattern": "x"}, "does not state an encoding"),
        (RANKS, {"pat_str": "("}, "tiktoken refuses it"),
        (RANKS, {"pat_str": "x", "special_tokens": {"<|end|>": 257}}, "two tokens have one id"),
        ({b"a": 0, b"ab": 1}, STATED, "no token for the byte 0x00"),
    ],
)
def test_ranks_that_do_not_go_with_what_is_stated(
    ranks: dict[bytes, int], beside: object, said: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=said):
        load_tokenizer(str(write_ranks(tmp_path / "own.tiktoken", ranks, beside)))


def test_a_damaged_rank_file_names_the_line(tmp_path: Path) -> None:
    file = write_ranks(tmp_path / "own.tiktoken", beside=STATED)
    for broken in (b"!!!! 258\n", b"YWI=\n", b"YWI= two\n", b"YWI= 1 2\n"):
        whole = write_ranks(file, beside=STATED).read_bytes()
        file.write_bytes(whole + broken)
        with pytest.raises(InputError, match=r"own\.tiktoken:259: not a token"):
            load_tokenizer(str(file))


def test_a_file_called_after_an_encoding_that_is_another(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not the ranks that tiktoken publishes as cl100k_base"):
        encoding_of(write_ranks(tmp_path / "cl100k_base.tiktoken"))


@pytest.mark.parametrize("write", [write_ranks, write_tekken])
def test_without_tiktoken_the_pip_command_is_named(
    write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path / ("qwen.tiktoken" if write is write_ranks else "tekken.json"))
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    with pytest.raises(MissingExtra, match=r"pip install 'kvtools\[(tiktoken|mistral)\]'") as raised:
        load_tokenizer(str(file))
    assert raised.value.exit_code == 4


def test_tekken_moves_its_ranks_behind_the_special_tokens(tmp_path: Path) -> None:
    write_tekken(tmp_path / "tekken.json")
    tokenizer = load_tokenizer(str(tmp_path))
    assert isinstance(tokenizer, RankTokenizer)
    # ab is 256 + 6; abc lies beyond the stated size, so that it is ab and c; the sixth special token has no name.
    assert rows(tokenizer.encode(["[INST]ab</s>", "abc", "<SPECIAL_5>"])) == [[3, 262, 2], [262, 105], [5]]
    # A raw completion begins with BOS, and its text is text.
    assert rows(tokenizer.framed(["ab", "", "</s>"])) == [[1, 262], [1], [1, 66, 53, 121, 68]]
    assert how_checked(tokenizer) == "reference only"


def test_an_old_tekken_has_the_special_tokens_of_its_time(tmp_path: Path) -> None:
    config = {
        "pattern": r"\p{L}+|[^\p{L}]+",
        "default_vocab_size": 258 + 25,
        "default_num_special_tokens": 25,
    }
    tokenizer = load_tokenizer(
        str(write_tekken(tmp_path / "tekken.json", special_tokens=None, config=config))
    )
    texts = ["[TOOL_CALLS]", "[TOOL_CONTENT]", "<SPECIAL_24>", "abc"]
    assert rows(tokenizer.encode(texts)) == [[9], [19], [24], [257 + 25]]


@pytest.mark.parametrize("content", ["", "{}", '{"config": 1}', "[]", "\xff"])
def test_a_damaged_tekken(content: str, tmp_path: Path) -> None:
    (tmp_path / "tekken.json").write_text(content, encoding="latin-1")
    with pytest.raises(InputError, match=r"tekken\.json: not a tekken\.json"):
        load_tokenizer(str(tmp_path))


def test_a_tekken_without_bos(tmp_path: Path) -> None:
    special = [{"rank": 0, "token_str": "<unk>", "is_control": True}]
    with pytest.raises(InputError, match="no token <s>"):
        load_tokenizer(str(write_tekken(tmp_path / "tekken.json", special_tokens=special)))


def test_a_folder_with_mistral_s_own_weights_has_mistral_s_own_tokenizer(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    write_tekken(tmp_path / "tekken.json")
    with pytest.raises(InputError, match=r"not a tokenizer\.json"):
        load_tokenizer(str(tmp_path))
    (tmp_path / "consolidated.safetensors").touch()
    assert rows(load_tokenizer(str(tmp_path)).framed(["ab"])) == [[1, 262]]


def test_a_folder_with_two_rank_files(tmp_path: Path) -> None:
    write_ranks(tmp_path / "a.tiktoken")
    write_ranks(tmp_path / "b.tiktoken")
    with pytest.raises(InputError, match=r"holds a\.tiktoken, b\.tiktoken; name one of them"):
        load_tokenizer(str(tmp_path))
