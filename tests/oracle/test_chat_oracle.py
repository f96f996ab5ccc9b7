"""The chat room against vLLM's own preparation and encoders, and against transformers' own rendering.

Templates of real models in a folder ``shared`` beside the project are compared too, where it is there.
"""

from __future__ import annotations

import importlib
import json
import random
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kvtools.chat import ChatTemplate, load
from kvtools.chat.content_format import detect_content_format
from kvtools.chat.messages import prepare_messages, prepare_tools
from kvtools.errors import TemplateError

pytestmark = pytest.mark.oracle

_WHY = "the chat oracle needs vLLM 0.32: pip install 'kvtools[vllm]'"
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    vllm = pytest.importorskip("vllm", reason=_WHY)
    chat_template_utils = importlib.import_module("transformers.utils.chat_template_utils")
    protocol = importlib.import_module("vllm.entrypoints.openai.chat_completion.protocol")
    chat_utils = importlib.import_module("vllm.renderers.chat_utils")
    hf = importlib.import_module("vllm.renderers.hf")
    deepseek_v4 = importlib.import_module("vllm.tokenizers.deepseek_v4")

CLOCK = datetime(2031, 5, 17, 8, 9, tzinfo=UTC)
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}

Json = dict[str, Any]


class _TextModel:
    """As much of vLLM's ModelConfig as preparing messages without media reads."""

    enable_prompt_embeds = False
    multimodal_config = None


class _BareTokenizer:
    def get_added_vocab(self) -> dict[str, int]:
        return {}


def _server(messages: list[Json], tools: list[Json] | None) -> Any:
    body = {"model": "m", "messages": json.loads(json.dumps(messages))}
    if tools:
        body["tools"] = json.loads(json.dumps(tools))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return protocol.ChatCompletionRequest.model_validate(body)


def _server_tools(request: Any) -> list[Json] | None:
    return [tool.model_dump() for tool in request.tools] if request.tools else None


def _conversation(request: Any, content_format: str) -> list[Json]:
    conversation, _, _ = chat_utils.parse_chat_messages(request.messages, _TextModel(), content_format)
    return list(conversation)


TEXTS = (
    "",
    "Hello.",
    " trailing and leading ",
    "two\n\nparagraphs\n",
    "<think>inner</think>after",
    "{{ not jinja }} {braces}",
    "日本語 😀 é",
    "x-anthropic-billing-header: cc=1\nYou help.",
)
ARGUMENTS = (
    '{"b": 1, "a": "é"}',
    "",
    "{}",
    "[1]",
    "{oops",
    '{"t": "x\\ny", "n": null, "l": [1, {"k": true}]}',
)


def _content(rng: random.Random, *, null: bool = False) -> Any:
    roll = rng.random()
    if null and roll < 0.2:
        return None
    if roll < 0.7:
        return rng.choice(TEXTS)
    return [{"type": "text", "text": rng.choice(TEXTS)} for _ in range(rng.randrange(3))]


def _calls(rng: random.Random, serial: int) -> list[Json]:
    return [
        {
            "type": "function",
            "index": place,
            "function": {"name": rng.choice("fgh"), "arguments": rng.choice(ARGUMENTS), "extra": place},
            "id": f"call_{serial}_{place}",
        }
        for place in range(rng.randrange(1, 4))
    ]


def _tools(rng: random.Random) -> list[Json]:
    return [
        {
            "function": {
                "parameters": {"type": "object", "properties": {"é": {"type": "string"}}},
                "name": f"tool_{place}",
                **({"description": "does <it> & more"} if rng.random() < 0.7 else {}),
                **({"strict": True} if rng.random() < 0.3 else {}),
            },
            "type": "function",
        }
        for place in range(rng.randrange(1, 3))
    ]


def _messages(rng: random.Random, *, developer: bool) -> list[Json]:
    messages: list[Json] = []
    if rng.random() < 0.6:
        messages.append({"role": "system", "content": _content(rng)})
    for serial in range(rng.randrange(1, 6)):
        turns = rng.choice((1, 1, 1, 2))
        messages += [{"role": "user", "content": _content(rng), "name": "ada"} for _ in range(turns)]
        roll = rng.random()
        if developer and roll < 0.2:
            own = {"tools": _tools(rng)} if rng.random() < 0.5 else {}
            messages.append({"role": "developer", "content": "Be brief.", **own})
        if roll > 0.9:
            messages.append({"role": "system", "content": "Later rule."})
        answer: Json = {"role": "assistant", "content": _content(rng, null=True)}
        if rng.random() < 0.4:
            answer[rng.choice(("reasoning", "reasoning_content"))] = rng.choice(TEXTS)
        if rng.random() < 0.5:
            answer["tool_calls"] = _calls(rng, serial)
            outputs = [
                {"role": "tool", "tool_call_id": call["id"], "content": _content(rng)}
                for call in answer["tool_calls"]
            ]
            rng.shuffle(outputs)
            messages += [answer, *outputs]
            if rng.random() < 0.5:
                messages.append({"role": "assistant", "content": "Done."})
        else:
            messages.append(answer)
    if rng.random() < 0.7:
        messages.append({"role": "user", "content": "Last?"})
    return messages


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("content_format", ["string", "openai"])
def test_messages_are_prepared_as_the_server_prepares_them(seed: int, content_format: Any) -> None:
    rng = random.Random(seed)
    messages, tools = _messages(rng, developer=True), _tools(rng)
    request = _server(messages, tools)
    assert prepare_messages(messages, content_format, developer=True) == _conversation(
        request, content_format
    )
    # Dumped text, so that the order of the fields counts too.
    assert json.dumps(prepare_tools(tools)) == json.dumps(_server_tools(request))
    theirs = [m.get("tool_calls") for m in _conversation(request, content_format)]
    ours = [m.get("tool_calls") for m in prepare_messages(messages, content_format, developer=True)]
    assert json.dumps(ours) == json.dumps(theirs)


PARTS: list[Any] = [
    "bare text",
    {"type": "text", "text": "t", "cache_control": {"type": "ephemeral"}},
    {"type": "text", "text": None},
    {"type": "refusal", "refusal": "no"},
    {"type": "input_text", "text": "i"},
    {"type": "output_text", "text": "o"},
    {"type": "thinking", "thinking": "hm"},
    {"type": "tool_reference", "name": "f"},
    {"type": "tool_use", "name": "f"},
    {"text": "no type"},
]


@pytest.mark.parametrize("part", PARTS, ids=str)
@pytest.mark.parametrize("role", ["user", "tool"])
@pytest.mark.parametrize("content_format", ["string", "openai"])
def test_content_parts_are_taken_and_refused_as_the_server_does(
    part: Any, role: str, content_format: Any
) -> None:
    message = {"role": role, "content": ["first", part]}
    try:
        theirs, _, _ = chat_utils.parse_chat_messages([dict(message)], _TextModel(), content_format)
    except Exception:  # noqa: BLE001 - whatever vLLM refuses it with
        with pytest.raises(TemplateError):
            prepare_messages([message], content_format, developer=True)
    else:
        assert prepare_messages([message], content_format, developer=True) == theirs


def _deepseek_v4(messages: list[Json], tools: list[Json] | None, kwargs: Json) -> str:
    request = _server(messages, tools)
    tokenizer = deepseek_v4.get_deepseek_v4_tokenizer(_BareTokenizer())
    text: str = tokenizer.apply_chat_template(
        messages=request.messages,
        conversation=_conversation(request, "openai"),
        tools=_server_tools(request),
        tokenize=False,
        **kwargs,
    )
    return text


V4_KWARGS: list[Json] = [
    {},
    {"thinking": True},
    {"thinking": False},
    {"enable_thinking": False},
    {"enable_thinking": True, "thinking": False},
    {"reasoning_effort": "none"},
    {"reasoning_effort": "low"},
    {"reasoning_effort": "medium"},
    {"reasoning_effort": "max"},
    {"reasoning_effort": "extreme"},
    {"thinking": False, "reasoning_effort": "max"},
    {"drop_thinking": False},
    {"drop_thinking": False, "thinking": False},
]


@pytest.mark.parametrize("kwargs", V4_KWARGS, ids=str)
@pytest.mark.parametrize("seed", range(30))
def test_deepseek_v4_equals_the_encoder(seed: int, kwargs: Json) -> None:
    rng = random.Random(f"{seed}{kwargs}")
    messages = _messages(rng, developer=rng.random() < 0.4)
    tools = _tools(rng) if rng.random() < 0.4 else None
    assert load("deepseek-v4").render(messages, tools, **kwargs) == _deepseek_v4(messages, tools, kwargs)


def _user(text: str, **fields: Any) -> Json:
    return {"role": "user", "content": text, **fields}


V4_EDGES: dict[str, list[Json]] = {
    "nothing": [],
    "system only": [{"role": "system", "content": "S"}],
    "assistant first": [{"role": "assistant", "content": "A", "reasoning": "R"}],
    "ends with the assistant": [_user("u"), {"role": "assistant", "content": "A", "reasoning": "R"}],
    "reminder": [_user("u"), {"role": "latest_reminder", "content": "L"}, _user("v")],
    "reminder last": [_user("u"), {"role": "latest_reminder", "content": "L"}],
    "two systems": [{"role": "system", "content": "S"}, {"role": "system", "content": "T"}, _user("u")],
    "system before answer": [
        {"role": "system", "content": "S"},
        {"role": "assistant", "content": "A"},
        _user("u"),
    ],
    "task": [_user("u", task="title"), {"role": "assistant", "content": "A"}],
    "task merged away": [_user("u"), _user("v", task="query")],
    "task kept apart": [_user("u", task="query"), _user("v")],
    "action": [_user("u", task="action")],
    "task then output": [_user("u", task="action"), {"role": "tool", "content": "o", "tool_call_id": "x"}],
    "unknown task": [_user("u", task="dance")],
    "unknown role": [_user("u"), {"role": "critic", "content": "c"}],
    "unknown role dropped": [{"role": "critic", "content": "c"}, _user("u")],
    "empty developer": [{"role": "developer", "content": ""}, _user("u")],
    "developer dropped": [
        {"role": "developer", "content": "d"},
        _user("u"),
        {"role": "assistant", "content": "A"},
    ],
    "developer last": [_user("u"), {"role": "developer", "content": "d"}],
    "output without call": [_user("u"), {"role": "tool", "content": "o", "tool_call_id": "x"}],
}


@pytest.mark.parametrize("name", V4_EDGES)
@pytest.mark.parametrize("kwargs", V4_KWARGS[:3], ids=str)
@pytest.mark.parametrize("with_tools", [False, True])
def test_deepseek_v4_takes_and_refuses_the_edges_as_the_encoder_does(
    name: str, kwargs: Json, *, with_tools: bool
) -> None:
    messages, tools = V4_EDGES[name], _tools(random.Random(1)) if with_tools else None
    template = load("deepseek-v4")
    if not messages and not with_tools:
        assert template.render([]) == "<｜begin▁of▁sentence｜>"
        return
    try:
        theirs = _deepseek_v4(messages, tools, kwargs)
    except ValueError:
        with pytest.raises(TemplateError):
            template.render(messages, tools, **kwargs)
    else:
        assert template.render(messages, tools, **kwargs) == theirs


def test_deepseek_v4_writes_a_picture_as_the_encoder_does() -> None:
    content = [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "u"}}]
    prepared = [{"role": "user", "content": [{"type": "text", "text": "see"}, {"type": "image"}]}]
    theirs = deepseek_v4.get_deepseek_v4_tokenizer(_BareTokenizer()).apply_chat_template(
        prepared, tokenize=False
    )
    assert load("deepseek-v4").render([{"role": "user", "content": content}]) == theirs


def _template_files() -> list[Path]:
    files = sorted((Path(vllm.__file__).parent / "transformers_utils" / "chat_templates").glob("*.jinja"))
    root = Path(__file__).resolve().parents[2]
    files += sorted((root.parent / "shared/data/chat_templates").glob("*.jinja"))
    bundled = root / "templates" / "chat"
    return files + [bundled / f"{name}.j2" for name in ("deepseek", "llama3")]


_EACH = "{% for m in messages %}"
_PARTS = "{% for p in m.content %}[{{ p.text if p.text else p }}]{% endfor %}"

FEATURES = {
    "generation": _EACH + "{% generation %}{{ m.content }}{% set m = 1 %}{% endgeneration %}{% endfor %}",
    "loop controls": _EACH + "{% if loop.index > 3 %}{% break %}{% endif %}{{ m.role }}{% endfor %}",
    "tojson": "{{ tools | tojson }}{{ messages | tojson(indent=2) }}"
    "{{ messages | tojson(true, none, (',', ':'), true) }}",
    "clock": "{{ strftime_now('%d %b %Y %H:%M') }}{{ bos_token }}{{ unknown_token }}",
    "trim": _EACH + "\n    {% if true %}\n  x\n    {% endif %}\n{% endfor %}\n",
    "raise": "{{ raise_exception('no: ' + messages[0].role) }}",
    "parts": _EACH + _PARTS + "{% endfor %}",
    "macro parts": "{% macro show(c) %}{% for p in c %}[{{ p }}]{% endfor %}{% endmacro %}"
    "{% for m in messages[1:] %}{{ show(m['content']) }}{% endfor %}",
    "macro keyword": "{% macro show(a, body) %}{% for p in body %}[{{ p }}]{% endfor %}{% endmacro %}"
    "{% for m in messages %}{{ show(1, body=m.content) }}{% endfor %}",
    "other macro": "{% macro show(content) %}{% for p in content %}[{{ p }}]{% endfor %}{% endmacro %}"
    "{{ show([1]) }}",
    "alias": "{% set rest = messages[1:] %}{% for m in rest | list %}" + _PARTS + "{% endfor %}",
    "set content": _EACH
    + "{% set content = m.content %}{% for p in content %}<{{ p }}>{% endfor %}{% endfor %}",
    "other loop": "{% for c in content %}{% endfor %}" + _EACH + "{{ m.content }}{% endfor %}",
    "tangled": "{% set a, b = messages, 1 %}" + _EACH + _PARTS + "{% endfor %}",
    "tangled set": "{% set ns = namespace() %}{% set ns.m = messages %}" + _EACH + _PARTS + "{% endfor %}",
    "tangled loop": "{% for a, b in messages %}{% endfor %}" + _EACH + _PARTS + "{% endfor %}",
    "developer": _EACH + "{{ m.role }}={{ m.content }};{{ 'developer' }}{% endfor %}",
    "no developer": _EACH + "{{ m.role }}={{ m.content }};{% endfor %}",
}

SOURCES = {file.name: file.read_text(encoding="utf-8") for file in _template_files()} | FEATURES


def _transformers(source: str, messages: list[Json], tools: list[Json] | None, kwargs: Json) -> str:
    request = _server(messages, tools)
    conversation = _conversation(request, hf._detect_content_format(source, default="string"))
    if any(m["role"] == "developer" for m in conversation) and not hf._detect_developer_role_support(source):
        conversation = hf._consolidate_system_messages(hf._convert_developer_to_system(conversation))
    rendered, _ = chat_template_utils.render_jinja_template(
        conversations=[conversation],
        tools=_server_tools(request),
        chat_template=source,
        add_generation_prompt=True,
        strftime_now=CLOCK.strftime,
        **TOKENS,
        **kwargs,
    )
    text: str = rendered[0]
    return text


def _conversations() -> list[tuple[list[Json], list[Json] | None, Json]]:
    simple = [_user("Hi"), {"role": "assistant", "content": "Hello"}, _user("Bye")]
    system = {"role": "system", "content": "You are terse."}
    calls = [
        system,
        _user("Weather?"),
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "abcdefghi",
                    "type": "function",
                    "function": {"name": "get", "arguments": '{"city": "Oslo"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "abcdefghi", "content": "rain"},
    ]
    fixed: list[tuple[list[Json], list[Json] | None, Json]] = [
        (simple[:1], None, {}),
        ([system, *simple], None, {}),
        ([system, *simple], None, {"enable_thinking": False, "thinking": True}),
        (calls, _tools(random.Random(3)), {}),
        ([{"role": "developer", "content": "Be brief."}, *simple], None, {}),
    ]
    for seed in range(12):
        rng = random.Random(seed)
        fixed.append((_messages(rng, developer=seed % 3 == 0), _tools(rng) if seed % 2 else None, {}))
    return fixed


@pytest.mark.parametrize("name", SOURCES)
def test_a_template_renders_as_transformers_renders_it(name: str) -> None:
    source = SOURCES[name]
    assert detect_content_format(source) == hf._detect_content_format(source, default="string")
    template = ChatTemplate(name, source, TOKENS, clock=CLOCK)
    for messages, tools, kwargs in _conversations():
        try:
            theirs = _transformers(source, messages, tools, kwargs)
        except Exception:  # noqa: BLE001 - a template may raise anything
            with pytest.raises(TemplateError):
                template.render(messages, tools, **kwargs)
        else:
            assert template.render(messages, tools, **kwargs) == theirs
