"""A fault for the gate's own test: a timestamp, another in each request, in front of every prompt."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from kvtools.errors import InputError
from kvtools.flow.convert import ConvertOptions, convert
from kvtools.flow.gate_inputs import Judged

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvtools.flow.analyze import AnalyzeOptions

_FIRST = datetime(2000, 1, 1, tzinfo=UTC)


@contextmanager
def planted(one: Judged, options: AnalyzeOptions) -> Iterator[Judged]:
    """Yield a copy of the log with the fault in it, in a temporary folder.

    Raises:
        InputError: a request has neither text nor token ids.
    """
    if "-" in one.paths:
        raise InputError(
            "the self-test reads the log twice, and standard input is gone after once: name a file."
        )
    with tempfile.TemporaryDirectory(prefix="kvtools-") as folder:
        copy, faulty = Path(folder) / "copy.jsonl", Path(folder) / "planted.jsonl"
        convert(one.paths, _as_chat(one, options, copy))
        with copy.open("rb") as lines, faulty.open("wb") as file:
            for number, line in enumerate(lines):
                file.write(msgspec.json.encode(_with_fault(msgspec.json.decode(line), number)) + b"\n")
        yield Judged(
            paths=(str(faulty),), values=one.values, templates=one.templates, template_of=one.template_of
        )


def _as_chat(one: Judged, options: AnalyzeOptions, target: Path) -> ConvertOptions:
    return ConvertOptions(
        target=target,
        to="chat-jsonl",
        input_format="chat-jsonl" if one.values is not None else options.input_format,
        route_key=options.route_key,
        chat_template=options.chat_template,
        tokenizer=options.tokenizer,
        block_size=options.block_size,
        rules=options.rules,
        mapping=None if one.values is not None else options.mapping,
    )


def _with_fault(request: dict[str, Any], number: int) -> dict[str, Any]:
    # The fastest digits first: two such times part in their first characters, not behind a common date.
    moment = _FIRST + timedelta(seconds=number * 86_399)
    stamp = f"{number:08d}"[::-1] + f" {moment:%S:%M:%H %d.%m.%Y}\n"
    prompt = request.get("prompt")
    if isinstance(prompt, str):
        return {**request, "prompt": stamp + prompt}
    messages = request.get("messages")
    if isinstance(messages, list) and messages:
        return {**request, "messages": [_begun(messages[0], stamp), *messages[1:]]}
    raise InputError(
        "the self-test plants a timestamp in text, and a request has none; try it on a log with prompts."
    )


def _begun(message: dict[str, Any], stamp: str) -> dict[str, Any]:
    content = message.get("content")
    if isinstance(content, list):
        return {**message, "content": [{"type": "text", "text": stamp}, *content]}
    return {**message, "content": stamp + (content if isinstance(content, str) else "")}
