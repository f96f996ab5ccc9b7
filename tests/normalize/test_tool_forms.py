"""One order of tools and of argument keys: worked out by hand, equal as JSON, and every other byte where it was."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtools.normalize.tool_forms import canonical_arguments, canonical_tools, duplicate_tool_names

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text(max_size=4), VALUES, max_size=5)
SPACING = st.sampled_from(
    [{}, {"separators": (",", ":")}, {"indent": 2}, {"indent": "\t"}, {"ensure_ascii": False}]
)
TOOLS = st.lists(
    st.builds(
        lambda name, parameters: {"type": "function", "function": {"name": name, "parameters": parameters}},
        st.sampled_from(["a", "b", "B", "\u00e9", ""]),
        OBJECTS,
    ),
    max_size=5,
)


def test_tools_change_places_and_nothing_else() -> None:
    raw = b'\n[ {"name" : "b", "x": 1.0},\t{"function":{"name":"a"},"name":"z"} ,{"name":"b","x":1e400}\r\n] '
    written = (
        b'\n[ {"function":{"name":"a"},"name":"z"},\t{"name" : "b", "x": 1.0} ,{"name":"b","x":1e400}\r\n] '
    )
    assert canonical_tools(raw) == written
    assert canonical_tools(written) is None


def test_tools_that_differ_only_in_their_bytes_have_one_order() -> None:
    """1.0 and 1.00 are one number: the bytes decide, a digit (0x30) before a brace (0x7d)."""
    one, other = b'{"name":"a","x":1.0}', b'{"name":"a","x":1.00}'
    assert canonical_tools(b"[" + one + b"," + other + b"]") == b"[" + other + b"," + one + b"]"
    assert canonical_tools(b"[" + other + b"," + one + b"]") is None


@pytest.mark.parametrize(
    "raw",
    [
        b"[]",
        b'[{"name":"b"}]',
        b'[{"name":"a"},{"name":"a"}]',
        b'[{"name":"b"},{"type":"web_search"}]',
        b'[{"name":"b"},{"name":1},{"name":"a"}]',
        b'[{"name":"b"},"a"]',
        b'[{"function":{}, "name":"b"},{"name":"a"}]',
        b'{"name":"b"}',
        b"null",
        b"",
        b'[{"name":"b"},{"name":"a"}',
        b'[{"name":"b"},{"name":"a"}] x',
        b'[{"name":"\xff"},{"name":"a"}]',
        b'[{"name":"b"},{"name":"a","x":NaN}]',
        b'[{"name":"b"},{"name":"a","x":' + b"1" * 5000 + b"}]",
        b'[{"name":"b"},{"name":"a","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}]",
    ],
    ids=range(16),
)
def test_what_cannot_be_ordered_stays(raw: bytes) -> None:
    assert canonical_tools(raw) is None


def test_a_name_that_several_tools_share_is_counted() -> None:
    raw = b'[{"name":"b"},{"function":{"name":"a"}},{"name":"b"},{"type":"web_search"},{"name":"a"},{"name":"b"},{"name":"c"}]'
    assert duplicate_tool_names(raw) == {"a": 2, "b": 3}
    assert duplicate_tool_names(b"{") == duplicate_tool_names(b'{"name":"a"}') == {}


def test_keys_are_sorted_and_every_value_keeps_its_bytes() -> None:
    text = ' {"b" : [1.0, {"z":1e400,"y" :-0}],\n "a":12345678901234567890 , "\\u0041":"}\\",{\\\\"}\t'
    assert canonical_arguments(text) == (
        ' {"\\u0041":"}\\",{\\\\",\n "a":12345678901234567890 , "b" : [1.0, {"y" :-0,"z":1e400}]}\t'
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        '"b"',
        '[{"b":1,"a":2}]',
        "{}",
        '{"a":1,"b":{"a":[],"b":{}}}',
        '{"b":1,"a":2,"b":3}',
        '{"b":1,"a":{"c":1,"\\u0063":2}}',
        '{"b":1,"a":NaN}',
        '{"b":1,"a":-Infinity}',
        '{"b":1,"a":2',
        '{"b":1,"a":2} x',
        "{'b':1,'a':2}",
        '{"b":"\n","a":2}',
        '\ufeff{"b":1,"a":2}',
        '{"b":1,"a":' + "[" * 100_000 + "]" * 100_000 + "}",
    ],
    ids=range(16),
)
def test_arguments_that_cannot_be_sorted_stay(text: str) -> None:
    assert canonical_arguments(text) is None


def test_numbers_of_any_length_are_text() -> None:
    digits = "1" * 5000
    assert canonical_arguments(f'{{"b":{digits},"a":0}}') == f'{{"a":0,"b":{digits}}}'


def test_lone_surrogates_are_ordered_too() -> None:
    assert (
        canonical_arguments('{"b":"\\ud800","\\udc00":1,"a":"\ud800"}')
        == '{"a":"\ud800","b":"\\ud800","\\udc00":1}'
    )


def shuffled(value: Any, chance: random.Random) -> Any:
    if isinstance(value, list):
        return [shuffled(item, chance) for item in value]
    if not isinstance(value, dict):
        return value
    keys = chance.sample(list(value), len(value))
    return {key: shuffled(value[key], chance) for key in keys}


@given(value=OBJECTS, chance=st.randoms(use_true_random=False), spacing=SPACING)
def test_arguments_in_any_order_give_the_same_bytes(
    value: dict[str, Any], chance: random.Random, spacing: dict[str, Any]
) -> None:
    text = json.dumps(shuffled(value, chance), **spacing)
    written = canonical_arguments(text)
    assert (text if written is None else written) == json.dumps(value, sort_keys=True, **spacing)
    if written is not None:
        assert json.loads(written) == json.loads(text)
        assert canonical_arguments(written) is None


@given(tools=TOOLS, chance=st.randoms(use_true_random=False), spacing=SPACING)
def test_tools_in_any_order_give_the_same_bytes(
    tools: list[dict[str, Any]], chance: random.Random, spacing: dict[str, Any]
) -> None:
    raw = json.dumps(tools, **spacing).encode()
    other = json.dumps(chance.sample(tools, len(tools)), **spacing).encode()
    written, again = canonical_tools(raw), canonical_tools(other)
    assert (written or raw) == (again or other)
    if written is not None:
        ordered = json.loads(written)
        assert [tool["function"]["name"] for tool in ordered] == sorted(
            tool["function"]["name"] for tool in tools
        )
        assert sorted(map(json.dumps, ordered)) == sorted(map(json.dumps, json.loads(raw)))
        assert sorted(written) == sorted(raw)
        assert canonical_tools(written) is None


@pytest.mark.parametrize("depth", [100, 300, 450, 900, 990, 2_000])
def test_deep_values_are_ordered_or_stay(depth: int) -> None:
    """How deep a value may be depends on the interpreter: it is never an error."""
    deep = '{"k":' * depth + "1" + "}" * depth
    raw = f'[{{"name":"b","x":{deep}}},{{"name":"a","x":{deep}}},{{"name":"a","w":{deep}}}]'.encode()
    written = canonical_tools(raw)
    assert written is None or json.loads(written)[2]["name"] == "b"
    arguments = canonical_arguments(f'{{"b":{deep},"a":1}}')
    assert arguments is None or arguments == f'{{"a":1,"b":{deep}}}'
    assert depth > 100 or (written is not None and arguments is not None)


@given(text=st.text(alphabet='{}[]":, \n\\ab1.e-', max_size=30))
def test_any_text_is_taken(text: str) -> None:
    for written in (canonical_arguments(text), canonical_arguments("{" + text + "}")):
        assert written is None or canonical_arguments(written) is None
    tools = canonical_tools(b"[" + text.encode() + b"]")
    assert tools is None or canonical_tools(tools) is None
