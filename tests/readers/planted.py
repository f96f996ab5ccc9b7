"""Files with one fault each: six good records of a format, and what was planted among them.

``Planted`` says what the planted records have to come to, by the rules of the format and not by a run of the program.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from math import inf, nan
from pathlib import Path

DATA = Path(__file__).resolve().parents[2] / "data"
DEEP = b"[" * 10_000 + b"]" * 10_000
CSV_ROW = b"r-9,2026-07-15,some,other,table,of,things,here"
CHAT = b'{"id":"x","prompt":"x"}'


@dataclass(frozen=True, slots=True)
class Planted:
    """Records, the rejects that they come to by reason, and how many requests (with and without prompt) they are."""

    records: tuple[bytes, ...]
    rejects: dict[str, int] = field(default_factory=dict)
    requests: int = 0
    without: int = 0


@dataclass(frozen=True, slots=True)
class Form:
    """One way to write a format. ``cut``: the last record, broken off, and the reason it is rejected with.

    ``byte``: what a file of the one byte ``{`` comes to where the format is named. ``prompts``: whether ``analyze``
    has anything to look up. ``document``: all records are one JSON document; what breaks it loses them all.
    """

    reader: str
    good: tuple[bytes, ...]
    cut: tuple[bytes, str]
    utf8: Planted
    shape: Planted
    deep: Planted
    no_number: Planted
    null_ids: Planted
    negative: Planted
    mixed: Planted
    head: bytes = b""
    between: bytes = b"\n"
    tail: bytes = b"\n"
    byte: str | None = "bad_json"
    prompts: bool = True
    document: bool = False
    too_long: str = "line_too_long"

    def file(self, planted: tuple[bytes, ...] = ()) -> bytes:
        return self.head + self.between.join((*self.good[:3], *planted, *self.good[3:])) + self.tail

    def cut_file(self) -> bytes:
        return self.head + self.between.join((*self.good, self.cut[0]))


def bad(reason: str, *records: bytes, **more: int) -> Planted:
    return Planted(records, {reason: len(records) - sum(more.values()), **more})


def request(*records: bytes) -> Planted:
    return Planted(records, requests=len(records))


def lines_of(name: str) -> tuple[bytes, ...]:
    return tuple((DATA / f"canonical.{name}").read_bytes().split(b"\n")[:-1])


CHAT_JSONL = Form(
    "chat-jsonl",
    lines_of("chat.jsonl"),
    (b'{"id":"x","messages":[{"role":"user","con', "bad_json"),
    utf8=bad("bad_utf8", b'{"id":"x\xff","prompt":"x"}', b'{"id":"x","messages":[{"role":"user","content":"\xc3"}]}'),
    shape=bad("bad_messages", b'{"id":"x","messages":"hi"}', b'{"messages":[5]}', b'{"messages":[{"content":"x"}]}'),
    deep=bad("too_deep", b'{"id":"x","prompt":"x","extra":%s}' % DEEP),
    no_number=bad("bad_ts", b'{"id":"x","prompt":"x","ts":NaN}', b'{"id":"y","prompt":"x","ts":1e400}', bad_json=1),
    null_ids=request(b'{"id":null,"ts":null,"session_id":null,"model":null,"prompt":"x"}'),
    negative=bad("bad_prompt_tokens", b'{"id":"x","prompt":"x","usage":{"prompt_tokens":-7}}'),
    mixed=bad("other_format", b'{"timestamp":1,"input_length":3,"hash_ids":[1]}', CSV_ROW, bad_json=1),
)  # fmt: skip
BATCH = Form(
    "openai-batch",
    lines_of("batch.jsonl"),
    (b'{"custom_id":"x","body":{"messages":[{"role"', "bad_json"),
    utf8=bad("bad_utf8", b'{"custom_id":"x\xff","body":{"prompt":"x"}}'),
    shape=bad("bad_body", b'{"custom_id":"x","body":[1]}', b'{"custom_id":"x","body":{"messages":"hi"}}'),
    deep=bad("too_deep", b'{"custom_id":"x","body":{"prompt":"x","extra":%s}}' % DEEP),
    no_number=bad("bad_body", b'{"custom_id":"x","body":{"prompt":"x","ts":NaN}}', b'{"custom_id":"y","body":{"prompt":"x","ts":1e400}}', bad_json=1),
    null_ids=request(b'{"custom_id":null,"url":null,"body":{"prompt":"x"}}'),
    negative=bad("bad_prompt_tokens", b'{"custom_id":"x","body":{"prompt":"x","usage":{"prompt_tokens":-7}}}'),
    mixed=bad("no_body", CHAT, CSV_ROW, bad_json=1),
)  # fmt: skip
EXCHANGE = Form(
    "exchange",
    lines_of("exchange.jsonl"),
    (b'{"id":"x","request":{"messages":[', "bad_json"),
    utf8=bad("bad_utf8", b'{"id":"x\xff","request":{"prompt":"x"}}'),
    shape=bad("bad_request", b'{"id":"x","request":"hi"}', b'{"id":"x","request":[1]}'),
    deep=bad("too_deep", b'{"id":"x","request":{"prompt":"x","extra":%s}}' % DEEP),
    no_number=bad("bad_timestamp", b'{"id":"x","timestamp":NaN,"request":{"prompt":"x"}}', b'{"id":"y","timestamp":1e400,"request":{"prompt":"x"}}', bad_json=1),
    null_ids=request(b'{"id":null,"timestamp":null,"request":{"prompt":"x"},"response":null}'),
    negative=bad("bad_prompt_tokens", b'{"id":"x","request":{"prompt":"x"},"response":{"usage":{"prompt_tokens":-7}}}'),
    mixed=bad("no_body", CHAT, CSV_ROW, bad_json=1),
)  # fmt: skip
LITELLM = Form(
    "litellm",
    lines_of("litellm.jsonl"),
    (b'{"request_id":"x","startTime":1,"messages":[', "bad_json"),
    utf8=bad("bad_utf8", b'{"request_id":"x\xff","startTime":1,"messages":[{"role":"user","content":"x"}]}'),
    shape=bad("bad_messages", b'{"request_id":"x","startTime":1,"messages":{"a":1}}', b'{"request_id":"x","startTime":1,"messages":[1]}'),
    deep=bad("too_deep", b'{"request_id":"x","startTime":1,"messages":[{"role":"user","content":"x"}],"metadata":%s}' % DEEP),
    no_number=bad(
        "bad_prompt_tokens", b'{"request_id":"x","startTime":1,"prompt_tokens":NaN}',
        b'{"request_id":"y","startTime":1,"prompt_tokens":1e400}', bad_json=1,
    ),
    null_ids=request(b'{"request_id":null,"startTime":null,"session_id":null,"messages":[{"role":"user","content":"x"}]}'),
    negative=bad("bad_prompt_tokens", b'{"request_id":"x","startTime":1,"messages":[{"role":"user","content":"x"}],"prompt_tokens":-7}'),
    mixed=bad("other_format", CHAT, CSV_ROW, bad_json=1),
)  # fmt: skip
TALK = b'[{"from":"human","value":"a"},{"from":"gpt","value":"b"}]'
CONVERSATION = Form(
    "conversation",
    tuple(b'{"id":"t-%d","conversations":%s}' % (n, TALK) for n in range(6)),
    (b'{"id":"x","conversations":[{"from":"hum', "bad_json"),
    utf8=bad("bad_utf8", b'{"id":"x\xff","conversations":%s}' % TALK),
    shape=bad("bad_conversations", b'{"id":"x","conversations":"hi"}', b'{"id":"x","conversations":[1]}'),
    deep=bad("too_deep", b'{"id":"x","items":%s,"conversations":%s}' % (DEEP, TALK)),
    no_number=bad("bad_ts", b'{"ts":NaN,"conversations":%s}' % TALK, b'{"ts":1e400,"conversations":%s}' % TALK, bad_json=1),
    null_ids=request(b'{"id":null,"ts":null,"model":null,"conversations":%s}' % TALK),
    negative=request(b'{"id":"x","tokens":-7,"conversations":%s}' % TALK),  # no count is read from a conversation
    mixed=bad("no_answer", CHAT, CSV_ROW, bad_json=1),
)  # fmt: skip
TOKEN_LOG = Form(
    "token-log",
    lines_of("tokens.jsonl"),
    (b'{"id":"x","prompt_token_ids":[1,2', "bad_json"),
    utf8=bad("bad_utf8", b'{"id":"x\xff","prompt_token_ids":[1]}'),
    shape=bad("bad_prompt_token_ids", b'{"id":"x","prompt_token_ids":"1,2"}', b'{"id":"x","prompt_token_ids":{"a":1}}'),
    deep=bad("too_deep", b'{"id":"x","prompt_token_ids":[1],"extra":%s}' % DEEP),
    no_number=bad("bad_ts", b'{"id":"x","ts":NaN,"prompt_token_ids":[1]}', b'{"id":"y","ts":1e400,"prompt_token_ids":[1]}', bad_json=1),
    null_ids=request(b'{"id":null,"ts":null,"session_id":null,"prompt_token_ids":[1]}'),
    negative=bad("bad_output_tokens", b'{"id":"x","prompt_token_ids":[1],"output_tokens":-7}', b'{"id":"y","prompt_token_ids":[-7]}', bad_token_ids=1),
    mixed=bad("other_format", CHAT, CSV_ROW, bad_json=1),
)  # fmt: skip


def trace(reader: str, good: tuple[bytes, ...], name: bytes) -> Form:
    """A hash trace; ``name`` are the fields by which the two kinds differ."""

    def row(**fields: bytes) -> bytes:
        given = {"timestamp": b"1", "input_length": b"3", "hash_ids": b"[1]", **fields}
        return b"{%s%s}" % (name, b",".join(b'"%s":%s' % (k.encode(), v) for k, v in given.items()))

    return Form(
        reader,
        good,
        (row()[:-9], "bad_json"),
        utf8=bad("bad_utf8", row(output_length=b'"\xff"')),
        shape=bad("bad_hash_ids", row(hash_ids=b'"1"'), row(hash_ids=b"[[1]]"), row(hash_ids=b"[1.5]")),
        deep=bad("too_deep", row(extra=DEEP), row(hash_ids=DEEP)),
        no_number=bad("bad_timestamp", row(timestamp=b"NaN"), row(timestamp=b"1e400"), bad_json=1),
        null_ids=request(row(timestamp=b"null", chat_id=b"null", parent_chat_id=b"null", id=b"null")),
        negative=bad("bad_input_length", row(input_length=b"-3")),
        mixed=bad("other_format", CHAT, CSV_ROW, bad_json=1),
    )


MOONCAKE = trace("mooncake", lines_of("mooncake.jsonl"), b"")
BAILIAN = trace("bailian", lines_of("bailian.jsonl"), b'"chat_id":"x",')
RAGPULSE = Form(
    "ragpulse",
    lines_of("ragpulse.jsonl"),
    (b'{"timestamp":"1","input_length":3,"hash_ids":{"sys_prompt":[', "bad_json"),
    utf8=bad("bad_utf8", b'{"timestamp":"\xff","input_length":3,"hash_ids":{"sys_prompt":[1]}}'),
    shape=bad("bad_hash_ids", b'{"timestamp":"1","hash_ids":{"sys_prompt":"a"}}', b'{"timestamp":"1","hash_ids":[1]}'),
    deep=bad("too_deep", b'{"timestamp":"1","hash_ids":{"sys_prompt":%s}}' % DEEP),
    no_number=bad("bad_timestamp", b'{"timestamp":NaN,"hash_ids":{"sys_prompt":[1]}}', b'{"timestamp":1e400,"hash_ids":{"sys_prompt":[1]}}', bad_json=1),
    null_ids=request(b'{"timestamp":null,"input_length":3,"session_id":null,"hash_ids":null}'),
    negative=bad("bad_input_length", b'{"timestamp":"1","input_length":-3,"hash_ids":{"sys_prompt":[1]}}'),
    mixed=bad("other_format", CHAT, CSV_ROW, bad_json=1),
    prompts=False,
)  # fmt: skip
TRACELAB = Form(
    "tracelab",
    lines_of("tracelab.jsonl"),
    (b'{"trace_key":"x","input_tokens_total":3,"timing', "bad_json"),
    utf8=bad("bad_utf8", b'{"trace_key":"\xff","input_tokens_total":3,"timing_events":[]}'),
    shape=bad("bad_timing_events", b'{"trace_key":"x","input_tokens_total":3,"timing_events":"now"}'),
    deep=bad("too_deep", b'{"trace_key":"x","input_tokens_total":3,"timing_events":%s}' % DEEP),
    no_number=bad(
        "bad_input_tokens_total", b'{"trace_key":"x","input_tokens_total":NaN,"timing_events":[]}',
        b'{"trace_key":"y","input_tokens_total":1e400,"timing_events":[]}', bad_json=1,
    ),
    null_ids=request(b'{"trace_key":null,"session_id":null,"input_tokens_total":3,"timing_events":null}'),
    negative=bad("bad_input_tokens_total", b'{"trace_key":"x","input_tokens_total":-3,"timing_events":[]}'),
    mixed=bad("other_format", CHAT, CSV_ROW, bad_json=1),
    prompts=False,
)  # fmt: skip


def span(attributes: bytes = b"", **fields: bytes) -> bytes:
    """An OTLP export of one model call, in a line; it has a prompt in the oldest of the ways to say it."""
    said = b'{"key":"gen_ai.operation.name","value":{"stringValue":"chat"}},{"key":"gen_ai.prompt","value":{"stringValue":"x"}}'
    given = {
        "spanId": b'"x"',
        "startTimeUnixNano": b'"1"',
        "attributes": b"[%s%s]" % (said, attributes),
        **fields,
    }
    inner = b",".join(b'"%s":%s' % (key.encode(), value) for key, value in given.items())
    return b'{"resourceSpans":[{"scopeSpans":[{"spans":[{%s}]}]}]}' % inner


OTLP = Form(
    "otlp",
    lines_of("otlp.jsonl"),
    (span()[:-9], "bad_json"),
    utf8=bad("bad_utf8", span(spanId=b'"\xff"')),
    shape=bad("bad_attributes", span(attributes=b',{"value":{}}'), span(attributes=b",5")),
    deep=bad("too_deep", span(extra=DEEP)),
    # Inside a span no field has a type of its own that an error could name.
    no_number=bad("wrong_shape", span(startTimeUnixNano=b"NaN"), span(startTimeUnixNano=b"1e400"), bad_json=1),
    null_ids=request(span(spanId=b"null", startTimeUnixNano=b"null")),
    negative=bad("bad_input_tokens", span(b',{"key":"gen_ai.usage.input_tokens","value":{"intValue":"-7"}}')),
    mixed=bad("no_spans", CHAT, CSV_ROW, bad_json=1),
    too_long="document_too_long",
)  # fmt: skip


def generation(**fields: bytes) -> bytes:
    given = {
        "id": b'"x"',
        "type": b'"GENERATION"',
        "traceId": b'"t"',
        "startTime": b"1",
        "input": b'"x"',
        **fields,
    }
    return b"{%s}" % b",".join(b'"%s":%s' % (key.encode(), value) for key, value in given.items())


OBSERVATIONS = tuple(line.removesuffix(b",") for line in lines_of("langfuse.json")[1:-1])
LANGFUSE = Form(
    "langfuse",
    OBSERVATIONS,
    (generation()[:-9], "bad_json"),
    utf8=bad("bad_utf8", generation(input=b'"\xff"')),
    shape=bad(
        "bad_messages", generation(input=b'{"messages":[{"content":"x"}]}'), generation(input=b"[5,5]")
    ),
    deep=bad("too_deep", generation(input=DEEP)),
    no_number=bad("wrong_shape", generation(startTime=b"NaN"), generation(startTime=b"1e400"), bad_json=1),
    null_ids=request(generation(id=b"null", traceId=b"null", startTime=b"null")),
    negative=bad("bad_input", generation(usageDetails=b'{"input":-7}')),
    mixed=bad("no_type", CHAT, CSV_ROW, bad_json=1),
    too_long="document_too_long",
)
NOTHING = Planted(())


def in_one(form: Form, head: bytes, tail: bytes) -> Form:
    """The same records as one document over several lines: what is no JSON spoils all of it, and is one reject."""
    whole = bad("bad_json", form.no_number.records[0])
    return Form(
        form.reader,
        form.good,
        (form.cut[0], "bad_json"),
        utf8=form.utf8,
        shape=form.shape,
        deep=bad("too_deep", *form.deep.records),
        no_number=whole,
        null_ids=form.null_ids,
        negative=form.negative,
        mixed=Planted(form.mixed.records[:1], {"no_type": 1}),
        head=head,
        between=b",\n",
        tail=tail,
        document=True,
        too_long="document_too_long",
    )


LANGFUSE_DOCUMENT = in_one(LANGFUSE, b'{"data": [\n', b"\n]}\n")


def call(prompt: bytes = b"'x'", ids: bytes = b"None", own: bytes = b"x") -> bytes:
    rest = b"params: SamplingParams(n=1), prompt_token_ids: %s, lora_request: None." % ids
    return b"INFO 07-15 00:00:00 [logger.py:41] Received request %s: prompt: %s, %s" % (own, prompt, rest)


VLLM_LOG = Form(
    "vllm-log",
    lines_of("vllm.log")[2::2],
    (call()[:72], "cut_line"),
    utf8=bad("bad_utf8", call(b"'\xff'")),
    shape=bad("bad_prompt", call(b"5"), call(b"'x"), call(b"{'a': 1}")),
    deep=bad("too_deep", call(ids=DEEP)),
    no_number=bad("bad_token_ids", call(ids=b"[NaN]"), call(ids=b"[1e400]")),
    null_ids=Planted((call(own=b"None"), call(b"None", own=b"None")), requests=1, without=1),
    negative=bad("bad_token_ids", call(ids=b"[-7]")),
    mixed=Planted((CHAT, CSV_ROW)),  # lines that are no request's are what a server log is full of
    byte=None,
)


def prefill(numbers: bytes) -> bytes:
    return b"[2026-07-15 08:00:00 TP0] Prefill batch. %s token usage: 0.00," % numbers


SGLANG_LOG = Form(
    "sglang-log",
    tuple(prefill(b"#new-seq: 1, #new-token: %d, #cached-token: 0," % n) for n in range(1, 7)),
    (prefill(b"#new-s")[:50], "cut_line"),
    utf8=Planted((prefill(b"#new-seq: 1, \xff"),), requests=1),  # nothing that is read from the line is broken
    shape=bad("cut_line", prefill(b"#new-seq: one,")),
    deep=Planted((prefill(b"#new-seq: 1, " + DEEP),), requests=1),
    no_number=Planted((prefill(b"#new-seq: 1, #new-token: NaN,"), prefill(b"#new-seq: 1, #new-token: 1e400,")), requests=2),
    null_ids=bad("cut_line", prefill(b"#new-seq: null,")),
    negative=Planted((prefill(b"#new-seq: 1, #new-token: -7, #cached-token: 0,"),), requests=1),
    mixed=Planted((CHAT, CSV_ROW)),
    byte=None,
    prompts=False,
)  # fmt: skip
CSV = Form(
    "csv",
    tuple(b'c-%d,%d,"a prompt, quoted\nand long",9,1' % (n, n) for n in range(6)),
    (b'c-7,7,"a prompt', "bad_csv"),
    utf8=bad("bad_utf8", b"x,1,\xff,3,1"),
    shape=bad("wrong_fields", b"x,1", b"x,1,a,prompt,with,commas"),
    deep=bad("bad_prompt_tokens", b'x,1,a prompt,"%s",1' % DEEP),
    # NaN is what pandas writes where a number is missing.
    no_number=Planted((b"x,1,a prompt,NaN,1", b"y,1,a prompt,1e400,1"), {"bad_prompt_tokens": 1}, requests=1),
    null_ids=request(b",,a prompt,,"),
    negative=bad("bad_prompt_tokens", b"x,1,a prompt,-7,1"),
    mixed=bad("bad_csv", b'{"id":"x","prompt":"x"}'),
    head=b"id,timestamp,prompt,prompt_tokens,output_tokens\n",
    byte="no_known_column",
)
AZURE = Form(
    "azure",
    lines_of("azure.csv")[1:],
    (b"2026-07-15 00:00:09.0000000,3", "wrong_fields"),
    utf8=bad("bad_utf8", b"2026-07-15 00:00:00\xff,3,1"),
    shape=bad("wrong_fields", b"2026-07-15 00:00:00,3", b"2026-07-15 00:00:00,3,1,0"),
    deep=bad("bad_prompt_tokens", b"2026-07-15 00:00:00,%s,1" % DEEP),
    no_number=Planted((b"2026-07-15 00:00:00,NaN,1", b"2026-07-15 00:00:00,1e400,1"), {"bad_prompt_tokens": 1}, requests=1),
    null_ids=request(b",3,1"),
    negative=bad("bad_prompt_tokens", b"2026-07-15 00:00:00,-3,1"),
    mixed=bad("wrong_fields", b'{"id":"x"}'),
    head=b"TIMESTAMP,ContextTokens,GeneratedTokens\n",
    byte="no_known_column",
    prompts=False,
)  # fmt: skip
BURSTGPT = Form(
    "burstgpt",
    lines_of("burstgpt.csv")[1:],
    (b"9,s-9,m,3", "wrong_fields"),
    utf8=bad("bad_utf8", b"9,s\xff,m,3,1,4,t"),
    shape=bad("wrong_fields", b"9,s,m", b"9,s,m,3,1,4,t,u"),
    deep=bad("bad_prompt_tokens", b"9,s,m,%s,1,4,t" % DEEP),
    no_number=Planted((b"9,s,m,NaN,1,4,t", b"9,s,m,1e400,1,4,t"), {"bad_prompt_tokens": 1}, requests=1),
    null_ids=request(b"9,,,3,1,4,"),
    negative=bad("bad_prompt_tokens", b"9,s,m,-3,1,4,t"),
    mixed=bad("wrong_fields", b'{"id":"x"}'),
    head=lines_of("burstgpt.csv")[0] + b"\n",
    byte="no_known_column",
    prompts=False,
)

# Rows of a table: id, timestamp, prompt (bytes), messages (JSON text), prompt_tokens.
TableRow = tuple[str | None, float | None, bytes | None, str | None, float | None]
PARQUET_GOOD: list[TableRow] = [(f"r-{n}", float(n), b"a prompt", None, 9.0) for n in range(6)]
PARQUET: dict[str, tuple[list[TableRow], dict[str, int], int]] = {
    "clean": ([], {}, 0),
    "bad UTF-8": ([("x", 1, b"\xff", None, 9)], {"bad_cell": 1}, 0),
    "wrong shape": (
        [("x", 1, None, "5", 9), ("x", 1, None, "[5]", 9), ("x", 1, None, "hi", 9)],
        {"bad_messages": 3},
        0,
    ),
    "10,000 deep": ([("x", 1, None, DEEP.decode(), 9)], {"bad_messages": 1}, 0),
    "NaN and 1e400": (
        [("x", 1, b"x", None, nan), ("y", 1, b"x", None, inf), ("z", inf, b"x", None, 9)],
        {"bad_prompt_tokens": 1, "bad_time": 1},
        1,
    ),
    "null ids": ([(None, None, b"x", None, None)], {}, 1),
    "negative tokens": ([("x", 1, b"x", None, -7)], {"bad_prompt_tokens": 1}, 0),
}
"""Per fault the rows, the rejects and the further requests; a number that is missing is NaN to pandas."""

FORMS = {
    form.reader: form
    for form in (
        CHAT_JSONL, BATCH, EXCHANGE, LITELLM, CONVERSATION, TOKEN_LOG, MOONCAKE, BAILIAN, RAGPULSE, TRACELAB, OTLP,
        LANGFUSE, VLLM_LOG, SGLANG_LOG, CSV, AZURE, BURSTGPT,
    )
} | {"langfuse, one document": LANGFUSE_DOCUMENT}  # fmt: skip
assert all(len(form.good) == 6 for form in FORMS.values()), "six good records each"
assert all(json.loads(line) for line in OBSERVATIONS)
