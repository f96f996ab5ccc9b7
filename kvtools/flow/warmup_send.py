"""``warmup send``: the lines of a warm-up set to a running server."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from kvtools.errors import InputError, UsageError
from kvtools.flow.intake import Watcher
from kvtools.replay.sending import Delivery, Target, WarmupRequest, deliver
from kvtools.report.warmup_send import SendReport, SentItem


class _About(msgspec.Struct):
    tokens: int = 0
    block_size: int = 1


class _Record(msgspec.Struct):
    custom_id: str
    body: dict[str, Any]
    kvtools: _About | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SendOptions:
    """Where to send to; ``verify`` asks for each prefix once more. See ``kvtools.replay.sending.Target``."""

    url: str
    model: str | None = None
    api_key: str | None = None
    in_flight: int = 4
    verify: bool = False

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise UsageError(f"--url {self.url}: not a server's address; write http://HOST:PORT.")
        if self.in_flight < 1:
            raise UsageError(f"--in-flight {self.in_flight}: at least 1.")


def send_warmup(file: str | Path, options: SendOptions, watcher: Watcher | None = None) -> SendReport:
    """Send the lines that ``warmup`` wrote to ``file`` and return what the server said.

    Raises:
        InputError: the file cannot be read, or holds no warm-up requests.
        EngineError: the server is missing or failed on the way.
    """
    path = Path(file)
    lines = _lines(path)
    told = watcher or Watcher()
    told.begin(len(lines) * (2 if options.verify else 1))
    target = Target(options.url, options.model, options.api_key, options.in_flight)
    delivery = Delivery()
    try:
        deliver(lines, target, delivery, verify=options.verify, advance=told.advance)
    except KeyboardInterrupt:
        told.warn(f"stopped: {len(delivery.answers):,} of {len(lines):,} warm-up requests were answered.")
        raise
    return _report(lines, options, delivery)


def _lines(path: Path) -> list[WarmupRequest]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}).") from None
    decoder = msgspec.json.Decoder(_Record)
    requests = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            record = decoder.decode(line)
        except msgspec.DecodeError as error:
            raise InputError(
                f"{path}:{number}: not a warm-up request ({error}); send what kvtools warmup -o wrote."
            ) from None
        about = record.kvtools or _About()
        requests.append(WarmupRequest(record.custom_id, record.body, about.tokens, about.block_size))
    if not requests:
        raise InputError(f"{path}: no warm-up request in it: there is nothing to send.")
    return requests


def _report(lines: list[WarmupRequest], options: SendOptions, delivery: Delivery) -> SendReport:
    items = [_item(line, place, delivery) for place, line in enumerate(lines)]
    before, after = delivery.before, delivery.after
    known = before is not None and after is not None
    asked = [item for item in items if item.refused is None]
    return SendReport(
        url=options.url,
        requests=len(items),
        refused_requests=len(items) - len(asked),
        prompt_tokens=sum(item.prompt_tokens for item in items),
        cached_tokens=sum(item.cached_tokens or 0 for item in items),
        counted_queried_tokens=after.queried_tokens - before.queried_tokens
        if before and after and known
        else None,
        counted_hit_tokens=after.hit_tokens - before.hit_tokens if before and after and known else None,
        verified=options.verify,
        verified_requests=len(asked) if options.verify else 0,
        verified_as_expected=sum(
            item.verified_tokens is not None and item.verified_tokens >= (item.expected_tokens or 0)
            for item in asked
        )
        if options.verify
        else 0,
        items=items,
    )


def _item(line: WarmupRequest, place: int, delivery: Delivery) -> SentItem:
    answer, again = delivery.answers[place], delivery.verified.get(place)
    return SentItem(
        id=line.id,
        prompt_tokens=answer.queried_tokens,
        cached_tokens=answer.hit_tokens,
        refused=answer.refused,
        expected_tokens=None
        if again is None
        else min(line.tokens, (again.queried_tokens - 1) // line.block_size * line.block_size),
        verified_tokens=None if again is None else again.hit_tokens,
    )
