"""Media enter the keys of the blocks that they touch, given with their places or found in chat messages."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtools.blocks import MediaSpans, block_keys
from kvtools.chat import ChatTemplate, load
from kvtools.profile import Keyed, Keying
from kvtools.readers.bodies import given_media
from kvtools.readers.records import Rejected
from kvtools.table import Ragged, offsets_of, request_table
from kvtools.tokens import BytesTokenizer

BLOCK = 8
TEXT = [{"type": "text", "text": "read this page"}]
PARTS = ChatTemplate(
    "parts",
    "{% for m in messages %}[{{ m.role }}]{% for p in m.content %}"
    "{% if p.type == 'text' %}{{ p.text }}{% else %}<pad>{% endif %}{% endfor %}{% endfor %}",
)
"""A template that is handed OpenAI's parts and puts a placeholder of its own where a picture stands."""


def _image(url: str, **fields: str) -> dict:
    return {"type": "image_url", "image_url": {"url": url, **fields}}


def _keyed(columns: dict, template: ChatTemplate | None = None) -> Keyed:
    rows = len(next(iter(columns.values())))
    table = request_table(columns | {"source": [f"log:{n}" for n in range(rows)]}, rows)
    return Keying(template or load("chatml"), BytesTokenizer(), BLOCK).key(table)


def _chats(*contents: list, template: ChatTemplate | None = None) -> Keyed:
    messages = [
        json.dumps([{"role": "user", "content": content}], separators=(",", ":")) for content in contents
    ]
    return _keyed({"messages": messages}, template)


def _shared_blocks(keyed: Keyed, one: int = 0, other: int = 1) -> int:
    pair = zip(keyed.keys.row(one).tolist(), keyed.keys.row(other).tolist(), strict=False)
    return next((n for n, (a, b) in enumerate(pair) if a != b), len(keyed.keys.row(one)))


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 20), st.sampled_from("AB")), max_size=3),
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 20), st.sampled_from("AB")), max_size=3),
)
def test_equal_keys_mean_equal_media_up_to_there(one: list, two: list) -> None:
    # By vLLM's rule, as an oracle: a block's key covers (medium, first token - block's first token) of each it touches.
    prompts = [sorted(set(one)), sorted(set(two))]
    tokens = Ragged(np.tile(np.arange(40, dtype=np.int32), 2), offsets_of(np.array([40, 40])))
    digests = {"A": 11, "B": 22}
    entries = [
        (row, *medium[:2], digests[medium[2]]) for row, media in enumerate(prompts) for medium in media
    ]
    columns = [np.array(column, dtype=np.int64) for column in zip(*entries, strict=True)] or [
        np.empty(0, np.int64)
    ] * 4
    spans = MediaSpans(*columns[:3], columns[3].astype(np.uint64))
    keys = block_keys(tokens, [None, None], BLOCK, media=spans)
    chains: list[list] = [[], []]
    for row, media in enumerate(prompts):
        for block in range(5):
            start = block * BLOCK
            chains[row].append(
                [(m[2], m[0] - start) for m in media if m[0] < start + BLOCK and m[0] + m[1] > start]
            )
    for block in range(5):
        equal = chains[0][: block + 1] == chains[1][: block + 1]
        assert (keys.row(0)[block] == keys.row(1)[block]) == equal


def test_a_prompt_without_media_has_the_keys_it_had() -> None:
    tokens = Ragged(np.arange(32, dtype=np.int32), offsets_of(np.array([16, 16])))
    spans = MediaSpans(np.array([1]), np.array([0]), np.array([4]), np.array([7], np.uint64))
    plain, mixed = (block_keys(tokens, [None, None], BLOCK, media=media) for media in (None, spans))
    assert plain.row(0).tolist() == mixed.row(0).tolist()
    assert not set(plain.row(1).tolist()) & set(mixed.row(1).tolist())


def test_places_beyond_the_prompt_are_harmless() -> None:
    tokens = Ragged(np.arange(16, dtype=np.int32), offsets_of(np.array([16])))
    spans = MediaSpans(np.array([0]), np.array([99]), np.array([(1 << 31) - 1]), np.array([7], np.uint64))
    assert (
        block_keys(tokens, [None], BLOCK, media=spans).values == block_keys(tokens, [None], BLOCK).values
    ).all()


def test_places_that_the_log_gives() -> None:
    media = [given_media([{"hash": page, "offset": 9, "length": 4}]) for page in "ABA"]
    keyed = _keyed({"token_ids": [list(range(24))] * 3, "media": media})
    assert _shared_blocks(keyed, 0, 1) == 1  # tokens 0-7 are before the picture
    assert _shared_blocks(keyed, 0, 2) == 3
    assert keyed.with_media == 0  # its tokens are all there: nothing is inexact


@pytest.mark.parametrize(
    "entries",
    [
        [{"hash": "a"}],
        [{"hash": 1, "offset": 0, "length": 1}],
        "A",
        [{"hash": "a", "offset": -1, "length": 1}],
    ],
)
def test_places_that_are_none(entries: object) -> None:
    with pytest.raises(Rejected, match="mm: "):
        given_media(entries)
    assert given_media(None) is None
    assert given_media([]) is None


@pytest.mark.parametrize("template", [None, PARTS], ids=["joined text", "parts"])
def test_pictures_in_chats_are_told_apart(template: ChatTemplate | None) -> None:
    instruction = [{"type": "text", "text": "x" * 64}]
    keyed = _chats(
        [_image("http://x/1"), *instruction],
        [_image("http://x/2"), *instruction],
        [_image("http://x/1", detail="high"), *instruction],
        template=template,
    )
    assert keyed.with_media == 3
    assert keyed.tokens.row(0).tolist() == keyed.tokens.row(1).tolist()  # placeholders are equal
    # "<|im_start|>user\n" is 17 tokens and two blocks, "[user]" 6 and none: then comes the picture.
    assert _shared_blocks(keyed, 0, 1) == (2 if template is None else 0)
    assert _shared_blocks(keyed, 0, 2) == len(keyed.keys.row(0))


def test_text_in_front_of_a_picture_is_shared() -> None:
    text = [{"type": "text", "text": "y" * 58}]
    keyed = _chats([*text, _image("http://x/1")], [*text, _image("http://x/2")], template=PARTS)
    # "[user]" + 58 characters are 64 tokens: eight blocks without a picture.
    assert _shared_blocks(keyed) == 8


def test_a_second_picture_leaves_the_first_ones_prefix_alone() -> None:
    one = [_image("http://x/1"), {"type": "text", "text": "z" * 53}]
    keyed = _chats([*one, _image("http://x/2")], [*one, _image("http://x/3")], template=PARTS)
    # "[user]" "<pad>" and 53 characters: 64 tokens.
    assert _shared_blocks(keyed) == 8


def test_an_id_stands_for_the_medium() -> None:
    keyed = _chats(
        [_image("http://x/1") | {"uuid": "u"}, *TEXT],
        [_image("http://x/2") | {"uuid": "u"}, *TEXT],
        [_image("http://x/1") | {"uuid": "v"}, *TEXT],
        template=PARTS,
    )
    assert _shared_blocks(keyed, 0, 1) == len(keyed.keys.row(0))
    assert _shared_blocks(keyed, 0, 2) == 0


def test_a_text_that_quotes_a_picture_holds_none() -> None:
    quoted = json.dumps([_image("http://x/1")])
    keyed = _chats([{"type": "text", "text": quoted}], quoted)
    assert (keyed.with_media, keyed.media) == (0, None)
