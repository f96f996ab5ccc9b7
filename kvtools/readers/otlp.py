"""OpenTelemetry spans of model calls, as OTLP JSON: ``resourceSpans[].scopeSpans[].spans[]``.

One document, or one export per line, as the collector's file exporter writes them. A span is a request where it
has ``gen_ai.*`` attributes of a model's answer; spans of agents, tools and embeddings have such attributes too,
repeat what their model calls count, and are no requests. Names are those of the semantic conventions for
generative AI, old and new, of OpenLLMetry (``gen_ai.prompt.0.content``) and of vLLM's own spans
(``gen_ai.latency.time_to_first_token``, in seconds). Times are nanoseconds since the epoch. The service is the route.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from kvtools.readers.document import Places, Record, chunks, decode_document, documents, rejected, route_at
from kvtools.readers.records import Rejected, count, text
from kvtools.readers.request_headers import stated
from kvtools.readers.span_prompt import SpanText
from kvtools.readers.times import BadTime, duration_us
from kvtools.table import namespace_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kvtools.readers.base import Chunk, ReadOptions, Row
    from kvtools.readers.lines import Line
    from kvtools.readers.sources import Opened, Source

_SPANS = re.compile(rb'(?<!\\)"resourceSpans"\s*:')
_MODEL_CALLS = ("chat", "text_completion", "completion", "generate_content", "responses")
_MODEL_MARKS = ("gen_ai.request.", "gen_ai.response.", "gen_ai.usage.", "gen_ai.prompt", "gen_ai.input.")
_MODELS = ("gen_ai.request.model", "gen_ai.response.model")
_IDS = ("gen_ai.request.id", "gen_ai.response.id")
_SESSIONS = (
    "gen_ai.conversation.id",
    "session.id",
    "langfuse.session.id",
    "traceloop.association.properties.session_id",
)
_INPUT_TOKENS = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens")
_OUTPUT_TOKENS = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens")
_CACHED_TOKENS = (
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "gen_ai.usage.cached_input_tokens",
    "gen_ai.usage.input_tokens.cached",
    "gen_ai.usage.details.cache_read_tokens",
    "gen_ai.usage.details.cached_tokens",
    "gen_ai.usage.cache_read_tokens",
    "gen_ai.usage.cached_tokens",
)
_TTFT_SECONDS = ("gen_ai.latency.time_to_first_token", "gen_ai.response.time_to_first_chunk")
_HEADERS = ("http.request.header.", "traceloop.association.properties.")
_ERROR_CODES = (2, "2", "STATUS_CODE_ERROR")
_LARGEST_TIME = 1 << 63
_MOST_NESTED = 32


class _Scope(msgspec.Struct):
    spans: list[msgspec.Raw] = []


class _Resource(msgspec.Struct):
    attributes: Any = None


class _ResourceSpans(msgspec.Struct, rename="camel"):
    resource: _Resource | None = None
    scope_spans: list[_Scope] = []


class _Export(msgspec.Struct, rename="camel"):
    resource_spans: list[_ResourceSpans] | None = None
    resource_logs: Any = None
    resource_metrics: Any = None


_EXPORTS = msgspec.json.Decoder(_Export)
_OBJECTS = msgspec.json.Decoder(dict[str, Any])


class OtlpReader:
    """The format as a reader."""

    name = "otlp"

    def sniff(self, head: bytes) -> bool:
        """Return whether the file is JSON with ``resourceSpans``."""
        return head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{") and bool(_SPANS.search(head))

    def read(self, file: Opened, source: Source, options: ReadOptions) -> Iterator[Chunk]:
        """Yield chunks, one row per span of a model call; other spans are no requests and count nowhere."""
        records = (record for document in documents(file.stream) for record in _spans(document, options))
        return chunks(records, source, options)


def _spans(document: Line, options: ReadOptions) -> Iterator[Record]:
    try:
        groups = _groups(document)
    except Rejected as fault:
        yield rejected(document.number, fault)
        return
    places = Places(document)
    for group in groups:
        for scope in group.scope_spans:
            for raw in scope.spans:
                span = places.part(raw)
                yield Record(span.number, len(span.data), partial(_rows, span, group.resource, options))


def _groups(document: Line) -> list[_ResourceSpans]:
    export: _Export = decode_document(document, _EXPORTS)
    if export.resource_spans is None and export.resource_logs is None and export.resource_metrics is None:
        raise Rejected("no_spans", "no resourceSpans in it")
    return export.resource_spans or []


def attributes_of(value: Any, depth: int = 0) -> dict[str, Any]:
    """Return OTLP's list of ``{"key", "value": {"stringValue": ...}}`` as a dict of plain values.

    Raises:
        Rejected: it is no such list, or nested deeper than any exporter writes.
    """
    if value is None:
        return {}
    if not isinstance(value, list) or depth > _MOST_NESTED:
        raise Rejected("bad_attributes", "attributes are no list of keys with values")
    pairs: dict[str, Any] = {}
    for item in value:
        key = item.get("key") if isinstance(item, dict) else None
        if not isinstance(key, str):
            raise Rejected("bad_attributes", "an attribute has no key")
        pairs[key] = _value(item.get("value"), depth + 1)
    return pairs


def _value(value: Any, depth: int) -> Any:
    if not isinstance(value, dict) or depth > _MOST_NESTED:
        return None
    kind, held = next(iter(value.items()), ("", None))
    if kind == "intValue" and isinstance(held, str):
        # Proto3's JSON writes 64-bit integers as text.
        return int(held) if re.fullmatch(r"-?[0-9]{1,19}", held) else held
    inner = held.get("values") if isinstance(held, dict) else None
    if kind == "arrayValue":
        return [_value(item, depth + 1) for item in inner] if isinstance(inner, list) else []
    if kind == "kvlistValue":
        return attributes_of(inner, depth + 1)
    return held


def _rows(line: Line, origin: _Resource | None, options: ReadOptions) -> Iterator[Row]:
    span: dict[str, Any] = decode_document(line, _OBJECTS)
    found = attributes_of(span.get("attributes"))
    if not _is_model_call(found):
        return
    resource = attributes_of(origin.attributes) if origin else {}
    start, end = _nanoseconds(span, "startTimeUnixNano"), _nanoseconds(span, "endTimeUnixNano")
    latency = (end - start) // 1000 if start is not None and end is not None and end >= start else None
    spoken = SpanText(found, _events(span.get("events")))
    status = span.get("status")
    failed = isinstance(status, dict) and status.get("code") in _ERROR_CODES
    yield {
        "request_id": text(_first(found, _IDS)) or text(span.get("spanId")),
        "arrival_us": None if start is None else start // 1000,
        "namespace": namespace_of(text(_first(found, _MODELS)), None, None),
        "route": text(resource.get("service.name")),
        "session_id": text(_first(found, _SESSIONS)),
        **spoken.prompt().columns(),
        **_usage(found),
        "ttft_us": duration_us(_first(found, _TTFT_SECONDS), 1_000_000),
        "latency_us": latency,
        "status": "error" if failed else None,
        "output_text": spoken.answer(),
        **_stated(found),
        **route_at(options.route_key, found, resource),
    }


def _is_model_call(found: dict[str, Any]) -> bool:
    operation = found.get("gen_ai.operation.name", found.get("llm.request.type"))
    if operation is not None:
        return operation in _MODEL_CALLS
    return any(key.startswith(_MODEL_MARKS) for key in found)


def _stated(found: dict[str, Any]) -> Row:
    """Return what the headers of the call say of its urgency (``http.request.header.<name>``, a list of values)."""
    return stated(
        {
            key.removeprefix(prefix): value
            for prefix in _HEADERS
            for key, value in found.items()
            if key.startswith(prefix)
        }
    )


def _events(value: Any) -> list[tuple[str, dict[str, Any]]]:
    """Return the events of a span as names with attributes; what is no event is left out."""
    events = [event for event in value if isinstance(event, dict)] if isinstance(value, list) else []
    named = [(event.get("name"), event.get("attributes")) for event in events]
    return [(name, attributes_of(given)) for name, given in named if isinstance(name, str)]


def _nanoseconds(span: dict[str, Any], name: str) -> int | None:
    """Return a time of a span, ``None`` where it is missing or 0, which OTLP means by it."""
    value = span.get(name)
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,19}", value):
        value = int(value)
    if value is None or value == "":
        return None
    if type(value) is not int or not 0 <= value < _LARGEST_TIME:
        raise BadTime(f"{name} is {repr(value)[:40]}, not a number of nanoseconds")
    return value or None


def _usage(found: dict[str, Any]) -> Row:
    """Return the token counts.

    By the conventions the input contains what the cache gave. Anthropic's own count does not, and some exporters
    pass it on: where the cache gave more than the input, the two add up; the tokens written to the cache count too.
    """
    prompt = count(_first(found, _INPUT_TOKENS), "input_tokens")
    cached = count(_first(found, _CACHED_TOKENS), "cached_tokens")
    if prompt is not None and cached is not None and cached > prompt:
        written = _first(found, [name.replace("cache_read", "cache_creation") for name in _CACHED_TOKENS[:2]])
        prompt += cached + (count(written, "cache_creation_tokens") or 0)
    output = count(_first(found, _OUTPUT_TOKENS), "output_tokens")
    return {"prompt_tokens": prompt, "output_tokens": output, "cached_tokens": cached}


def _first(found: dict[str, Any], names: Iterable[str]) -> Any:
    return next((value for name in names if (value := found.get(name)) not in (None, "")), None)


READER = OtlpReader()
