"""The body of an OpenAI request, of its three calls: chat completions, completions, responses.

Chat messages stay as they were logged; a responses body becomes the messages that its server makes of it.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import msgspec

from kvtools.readers.labels import Labels
from kvtools.readers.records import Rejected, count, int64, misfit, text
from kvtools.readers.responses_api import function_tools, response_messages
from kvtools.table import namespace_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvtools.readers.base import Row

MOST_SAMPLES = 1024
"""A larger ``n`` is no number of answers: servers refuse it long before."""

_ENCODER = msgspec.json.Encoder()
_FLAGS = {"true": 1, "false": 0}
"""Tables write them as text, in their own case."""
_HOSTS = {"api.openai.com": "openai", ".openai.azure.com": "azure"}
_CONTENT_TYPES = (str, list, type(None))
_Tokens = Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]


class _Medium(msgspec.Struct):
    hash: str
    offset: _Tokens
    length: _Tokens


class Body(Labels):
    """The fields of a request body that are read, beside its labels; others are skipped without being decoded."""

    adapter: Any = None
    cache_salt: Any = None
    messages: list[dict[str, Any]] | None = None
    tools: list[dict[str, Any]] | None = None
    prompt: str | list[Any] | None = None
    input: Any = None
    instructions: Any = None
    previous_response_id: Any = None
    conversation: Any = None
    priority: Any = None
    n: Any = None
    prompt_logprobs: Any = None
    echo: Any = None
    logprobs: Any = None
    stream: Any = None


def prompts_in(body: Body, path: str | None = None) -> list[Row]:
    """Return the prompt columns of each prompt of a body, an empty list where it holds none.

    ``path`` is the path or URL that was called, where the log names it: an embeddings call has its prompts in
    ``input``, and no template touches them.

    Raises:
        Rejected: the prompt is of another shape, or not all of it stands in the body.
    """
    if body.messages:
        return [{"messages": encoded_messages(body.messages), "tools": canonical_tools(body.tools)}]
    if prompts := prompts_of(body.prompt):
        return prompts
    if body.input is None or body.input in ("", []):
        return []
    if path is not None and path.rstrip("/").endswith("/embeddings"):
        return prompts_of(_text_or_list(body.input))
    if body.previous_response_id or body.conversation:
        raise Rejected(
            "earlier_turns", "it continues a stored conversation, whose turns are not in the record"
        )
    messages = response_messages(_text_or_list(body.input), body.instructions)
    return [{"messages": encoded_messages(messages), "tools": canonical_tools(function_tools(body.tools))}]


def body_of(request: dict[str, Any]) -> Body:
    """Return a decoded request body.

    Raises:
        Rejected: one of its fields has another shape.
    """
    try:
        return msgspec.convert(request, Body)
    except msgspec.ValidationError as error:
        raise misfit(str(error)) from None


def rows_of(common: Row, prompts: list[Row]) -> Iterator[Row]:
    """Yield a row per prompt, and one where there is none; the second and later ones are told apart by their ids."""
    if len(prompts) < 2:
        yield (common | prompts[0]) if prompts else common
        return
    own_id = common["request_id"]
    for index, prompt in enumerate(prompts):
        row = common | prompt
        if index and own_id is not None:
            row["request_id"] = f"{own_id}#{index}"
        yield row


def request_columns(body: Body) -> Row:
    """Return what a body says of its request beside the prompt."""
    return {
        "namespace": namespace_of(text(body.model), text(body.adapter), text(body.cache_salt)),
        "priority": int64(body.priority),
        "samples": body.n if type(body.n) is int and 1 < body.n <= MOST_SAMPLES else None,
        "skip_lookup": 1 if _skips_lookup(body) else None,
        "streamed": _FLAGS.get(str(body.stream).lower()),
    }


def _skips_lookup(body: Body) -> bool:
    """Return whether vLLM reads no cache for this request: prompt logprobs need all of its logits.

    A completions call asks for them with ``echo`` and ``logprobs`` together
    (``SamplingParams.skip_reading_prefix_cache``, vLLM 0.32).
    """
    return body.prompt_logprobs is not None or (body.echo is True and body.logprobs is not None)


def provider_at(url: str | None) -> str | None:
    """Return the service whose host a URL names, ``None`` where it is any other server."""
    try:
        host = (urlsplit(url).hostname or "") if url and "://" in url[:9] else ""
    except ValueError:  # half of an IPv6 address
        return None
    return next((name for end, name in _HOSTS.items() if host.endswith(end)), None)


def usage_counts(usage: Any) -> Row:
    """Return the token counts of a ``usage`` object as table columns (empty where there is none).

    Chat completions and completions say ``prompt_tokens`` and ``completion_tokens``, responses ``input_tokens`` and
    ``output_tokens``. Anthropic says the latter too, but counts cached tokens apart from ``input_tokens``.
    """
    if not usage or not isinstance(usage, dict):
        return {}
    name = "prompt_tokens" if "prompt_tokens" in usage else "input_tokens"
    answer = "completion_tokens" if "completion_tokens" in usage else "output_tokens"
    details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    counts = {
        "prompt_tokens": count(usage.get(name), name),
        "output_tokens": count(usage.get(answer), answer),
        "cached_tokens": count(cached, "cached_tokens"),
    }
    read = count(usage.get("cache_read_input_tokens"), "cached_tokens")
    if (
        name == "input_tokens"
        and details is None
        and read is not None
        and counts["prompt_tokens"] is not None
    ):
        written = count(usage.get("cache_creation_input_tokens"), "cached_tokens") or 0
        counts |= {"prompt_tokens": counts["prompt_tokens"] + read + written, "cached_tokens": read}
    return counts


def answer_text(response: dict[str, Any]) -> str | None:
    """Return the one text that a response body holds, ``None`` where it holds none or several."""
    choices = response.get("choices")
    if isinstance(choices, list) and len(choices) == 1 and isinstance(choices[0], dict):
        message = choices[0].get("message")
        said = message.get("content") if isinstance(message, dict) else choices[0].get("text")
        return said if isinstance(said, str) else None
    items = response.get("output")
    parts = [
        part.get("text")
        for item in (items if isinstance(items, list) else [])
        if isinstance(item, dict) and item.get("type") == "message" and isinstance(item.get("content"), list)
        for part in item["content"]
        if isinstance(part, dict) and part.get("type") == "output_text"
    ]
    return "".join(part for part in parts if isinstance(part, str)) or None


def canonical_messages(messages: list[dict[str, Any]]) -> str:
    """Return messages as JSON without spaces, keys in the order of the log.

    Raises:
        Rejected: a message without a role, or with a content that is neither text, parts nor null.
    """
    return encoded_messages(messages).decode()


def encoded_messages(messages: list[dict[str, Any]]) -> bytes:
    """Return ``canonical_messages`` as UTF-8: Arrow takes it as it is, where text would be encoded once more."""
    for index, message in enumerate(messages):
        if type(message.get("role")) is not str:
            raise Rejected("bad_messages", f"messages[{index}] has no role")
        if type(message.get("content")) not in _CONTENT_TYPES:
            kind = type(message["content"]).__name__
            raise Rejected("bad_messages", f"messages[{index}].content is {kind}, not text or parts")
    return _ENCODER.encode(messages)


def encoded_conversations(conversations: list[list[dict[str, Any]]]) -> list[bytes]:
    """Return ``encoded_messages`` of each conversation: a look at all messages together costs half.

    Raises:
        Rejected: one of them is refused.
    """
    messages = list(chain.from_iterable(conversations))
    roles = {type(message.get("role")) for message in messages}
    contents = {type(message.get("content")) for message in messages}
    if roles == {str} and contents.issubset(_CONTENT_TYPES):
        return list(map(_ENCODER.encode, conversations))
    return list(map(encoded_messages, conversations))


def canonical_tools(tools: list[dict[str, Any]] | None) -> str | None:
    """Return tool definitions as JSON without spaces, ``None`` where there are none."""
    return _ENCODER.encode(tools).decode() if tools else None


def prompts_of(prompt: str | list[Any] | None) -> list[Row]:
    """Return the prompts of a completions call: text, token ids, or a list of either; an empty one is none.

    Raises:
        Rejected: a list that holds anything else.
    """
    if prompt is None or prompt in ("", []):
        return []
    if isinstance(prompt, str):
        return [{"prompt": prompt}]
    if all(isinstance(part, str) for part in prompt):
        return [{"prompt": part or None} for part in prompt]
    if all(isinstance(part, list) for part in prompt):
        return [{"token_ids": token_ids(part) or None} for part in prompt]
    return [{"token_ids": token_ids(prompt)}]


def token_ids(ids: list[Any]) -> list[int]:
    """Return the ids unchanged.

    Raises:
        Rejected: an entry is no whole number of 0 to 2**31 - 1.
    """
    for token in ids:
        if type(token) is not int or not 0 <= token < 1 << 31:
            raise Rejected("bad_token_ids", f"{str(token)[:20]!r} is not a token id")
    return ids


def given_media(entries: Any) -> str | None:
    """Return where media stand among given token ids (``hash``, ``offset``, ``length``) as the column ``media``.

    Raises:
        Rejected: an entry is of another shape.
    """
    if not entries:
        return None
    try:
        media = msgspec.convert(entries, list[_Medium])
    except msgspec.ValidationError as error:
        raise Rejected("bad_mm", f"mm: {error}") from None
    return _ENCODER.encode(media).decode()


def _text_or_list(value: Any) -> str | list[Any]:
    if isinstance(value, (str, list)):
        return value
    raise Rejected("bad_input", f"input is {type(value).__name__}, not text or a list")
