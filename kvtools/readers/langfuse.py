"""Langfuse exports: traces with their observations, or observations alone. Each GENERATION is a request.

Read are ``{"trace": {...}, "observations": [...]}``, what the API answers (``GET /api/public/traces/{id}``, and
pages of observations under ``data``) and the exports of the observation table, as one JSON document or as JSON
lines. Names come in the API's camel case and in the database's snake case. A trace id stands for the session
where the trace has no session id; the user is the route. Times are ISO 8601. ``timeToFirstToken`` and ``latency``
are not read: they are seconds in some versions and milliseconds in others, the times themselves are not.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from kvtools.readers.chat_jsonl import usage_counts
from kvtools.readers.document import Places, Record, chunks, decode_document, documents, rejected, route_at
from kvtools.readers.lines import Line
from kvtools.readers.records import Rejected, count, text
from kvtools.readers.request_headers import stated
from kvtools.readers.times import arrival_us, utc_offset_min
from kvtools.readers.traced_prompt import Prompt, answer_of, prompt_of, tools_of, unwrapped
from kvtools.table import namespace_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kvtools.readers.base import Chunk, ReadOptions, Row
    from kvtools.readers.sources import Opened, Source

_MOST_NESTED_LISTS = 3
_TRACE_FIRST = re.compile(rb'^[\s\[]*\{\s*"(?:trace|observations)"\s*:\s*[\[{]')
_TRACE_ID = re.compile(rb'(?<!\\)"(?:traceId|trace_id)"\s*:')
_OWN_KEYS = re.compile(rb'(?<!\\)"(?:traceId|trace_id|projectId|sessionId|userId)"\s*:')
_TYPE = re.compile(rb'(?<!\\)"type"\s*:\s*"(?:GENERATION|SPAN|EVENT|AGENT|TOOL|CHAIN|RETRIEVER|EMBEDDING)"')
_DIGITS = re.compile(r"[0-9]{1,18}")
_INPUTS = ("input", "promptTokens")
_OUTPUTS = ("output", "completionTokens")
_WHOLE_INPUTS = ("inputUsage", "promptTokens")
_WHOLE_OUTPUTS = ("outputUsage", "completionTokens")


class _Node(msgspec.Struct):
    """What tells an export, a trace, a page and an observation apart, the parts undecoded."""

    trace: msgspec.Raw = msgspec.Raw(b"null")
    observations: list[msgspec.Raw] | None = None
    data: list[msgspec.Raw] | None = None
    type: Any = None


_NODES = msgspec.json.Decoder(_Node)
_LISTS = msgspec.json.Decoder(list[msgspec.Raw])
_OBJECTS = msgspec.json.Decoder(dict[str, Any])


class LangfuseReader:
    """The format as a reader."""

    name = "langfuse"

    def sniff(self, head: bytes) -> bool:
        """Return whether the file begins with a trace, or holds observations with a trace id and a known type."""
        head = head.removeprefix(b"\xef\xbb\xbf")
        if _TRACE_FIRST.match(head):
            return bool(_OWN_KEYS.search(head))
        return head.lstrip().startswith((b"{", b"[")) and bool(_TRACE_ID.search(head) and _TYPE.search(head))

    def read(self, file: Opened, source: Source, options: ReadOptions) -> Iterator[Chunk]:
        """Yield chunks, one row per generation; other observations are no requests and count nowhere."""
        records = (record for document in documents(file.stream) for record in _split(document, options))
        return chunks(records, source, options)


def _split(document: Line, options: ReadOptions) -> Iterator[Record]:
    try:
        yield from _parts(document, Places(document), {}, options, _MOST_NESTED_LISTS)
    except Rejected as fault:
        yield rejected(document.number, fault)


def _parts(
    line: Line, places: Places, trace: dict[str, Any], options: ReadOptions, depth: int
) -> Iterator[Record]:
    """Yield the observations of a list, a page, a trace or an export; anything else is one itself."""
    if line.data.startswith(b"["):
        if not depth:
            raise Rejected("wrong_shape", "lists in lists in lists, not observations")
        inner = decode_document(line, _LISTS)
    else:
        node = decode_document(line, _NODES)
        if node.observations is not None:
            alone = bytes(node.trace) == b"null"  # the API's answer: the trace itself holds its observations
            trace = _trace(line if alone else Line(line.number, bytes(node.trace)))
        elif node.data is None or node.type is not None:
            yield Record(line.number, len(line.data), lambda: _rows(line, trace, options))
            return
        inner = node.data if node.observations is None else node.observations
    for raw in inner:
        part = places.part(raw)
        try:
            yield from _parts(part, places, trace, options, depth - 1)
        except Rejected as fault:
            yield rejected(part.number, fault)


def _trace(line: Line) -> dict[str, Any]:
    trace: dict[str, Any] = decode_document(line, _OBJECTS)
    return {key: value for key, value in trace.items() if key not in ("observations", "input", "output")}


def _rows(line: Line, trace: dict[str, Any], options: ReadOptions) -> Iterator[Row]:
    found: dict[str, Any] = decode_document(line, _OBJECTS)
    kind = found.get("type")
    if not isinstance(kind, str):
        raise Rejected("no_type", "neither a trace with observations nor an observation with a type")
    if kind.upper() != "GENERATION":
        return
    start = _get(found, "startTime", "start_time")
    arrival = arrival_us(start)
    model = _get(found, "model", "providedModelName", "provided_model_name")
    session = _get(found, "sessionId", "session_id") or _get(trace, "sessionId", "session_id")
    user = _get(found, "userId", "user_id") or _get(trace, "userId", "user_id")
    error = _get(found, "level") == "ERROR"
    yield {
        "request_id": text(found.get("id")),
        "arrival_us": arrival,
        "utc_offset_min": utc_offset_min(start),
        "namespace": namespace_of(text(model), None, None),
        "route": text(user),
        "session_id": text(session) or text(_get(found, "traceId", "trace_id") or trace.get("id")),
        **_prompt(found).columns(),
        **_usage(found),
        "ttft_us": _since(arrival, _get(found, "completionStartTime", "completion_start_time")),
        "latency_us": _since(arrival, _get(found, "endTime", "end_time")),
        "status": "error" if error else None,
        "output_text": answer_of(found.get("output")),
        **_stated(found, trace),
        **route_at(options.route_key, found, trace),
    }


def _stated(found: dict[str, Any], trace: dict[str, Any]) -> Row:
    """Return what metadata and tags say of the request's urgency, the observation's own before the trace's."""
    own, shared = unwrapped(found.get("metadata")), unwrapped(trace.get("metadata"))
    sent = (
        own.get("requester_custom_headers") if isinstance(own, dict) else None
    )  # LiteLLM's, as it sends them here
    return stated(sent, own, unwrapped(found.get("tags")), shared, unwrapped(trace.get("tags")))


def _get(holder: dict[str, Any], *names: str) -> Any:
    return next((value for name in names if (value := holder.get(name)) not in (None, "")), None)


def _since(start: int | None, end: Any) -> int | None:
    if start is None or end is None:
        return None
    moment = arrival_us(end)
    return moment - start if moment is not None and moment >= start else None


def _prompt(found: dict[str, Any]) -> Prompt:
    """Return the prompt, with what OpenAI's Responses API repeats of the request in its answer."""
    prompt = prompt_of(found.get("input"))
    answer = found.get("output")
    if isinstance(answer, str) and "previous_response_id" in answer:
        answer = unwrapped(answer)
    if isinstance(answer, dict) and answer.get("object") == "response":
        if answer.get("previous_response_id") or answer.get("conversation"):
            # The turns before this one are on the provider's side: what stands here is not the prompt.
            return Prompt()
        prompt.instruct(answer.get("instructions"))
        prompt.tools = prompt.tools or tools_of(answer.get("tools"))
    return prompt


def _usage(found: dict[str, Any]) -> Row:
    """Return the token counts.

    Langfuse counts kinds of tokens: ``input`` and ``output`` are what no other kind holds
    (``input_cached_tokens``), ``total`` is the sum of all. Other exporters detail what ``input`` holds already:
    then ``total`` is input and output alone. Where the total fits neither, the prompt's tokens are unknown.
    """
    usage = unwrapped(_get(found, "usageDetails", "usage_details", "usage"))
    if not isinstance(usage, dict) or usage.get("unit") not in (None, "TOKENS"):
        usage = {}
    if "prompt_tokens" in usage:
        return usage_counts(usage)
    kinds = {key: number for key, value in usage.items() if (number := _number(key, value)) is not None}
    prompt, output = _first(kinds, _INPUTS), _first(kinds, _OUTPUTS)
    if not prompt and not output:
        # Older versions of the API write 0 where nothing was counted, and no prompt has 0 tokens.
        whole = {name: _number(name, found.get(name)) for name in (*_WHOLE_INPUTS, *_WHOLE_OUTPUTS)}
        prompt, output = _first(whole, _WHOLE_INPUTS), _first(whole, _WHOLE_OUTPUTS)
        return {"prompt_tokens": prompt, "output_tokens": output} if prompt else {}
    cached = [n for kind, n in kinds.items() if _is_cached(kind)]
    row: Row = {"prompt_tokens": prompt, "output_tokens": output, "cached_tokens": max(cached, default=None)}
    return row | _with_details(kinds, prompt or 0, output or 0) if prompt is not None else row


def _with_details(kinds: dict[str, int], prompt: int, output: int) -> Row:
    """Return the counts that change where some tokens are counted apart from ``input`` and ``output``."""
    inputs = sum(n for kind, n in kinds.items() if kind.startswith(("input_", "prompt_")) or "cache" in kind)
    outputs = sum(n for kind, n in kinds.items() if kind.startswith(("output_", "completion_")))
    total = _first(kinds, ("total", "totalTokens"))
    if not inputs + outputs or total == prompt + output:
        return {}
    apart = (
        not any("details." in kind for kind in kinds)
        if total is None
        else total == prompt + inputs + output + outputs
    )
    if apart:
        return {"prompt_tokens": prompt + inputs, "output_tokens": output + outputs}
    return {} if total is None else {"prompt_tokens": None, "output_tokens": None}


def _is_cached(kind: str) -> bool:
    return ("cached" in kind or "cache_read" in kind) and not kind.startswith(("output", "completion"))


def _first(numbers: Mapping[str, int | None], names: Iterable[str]) -> int | None:
    return next((number for name in names if (number := numbers.get(name)) is not None), None)


def _number(name: str, value: Any) -> int | None:
    """Return a count; the database's own export writes it as text. Other text (a unit) and nested counts are none."""
    if isinstance(value, str):
        value = int(value) if _DIGITS.fullmatch(value) else None
    return None if isinstance(value, (dict, list)) else count(value, name[:20])


READER = LangfuseReader()
