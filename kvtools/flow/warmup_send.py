"""``warmup send``: the lines of a warm-up set to a running server."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from kvtools.errors import InputError, UsageError
from kvtools.flow.intake import Watcher
from kvtools.flow.warmup_members import body_of, members_in
from kvtools.replay.sending import Delivery, Target, WarmupRequest, deliver
from kvtools.report.warmup_send import SendReport, SentItem


class _Place(msgspec.Struct):
    source: str
    id: str | None = None


class _About(msgspec.Struct):
    tokens: int = 0
    block_size: int = 1
    member: _Place | None = None
    ahead: bool = False


class _Record(msgspec.Struct):
    custom_id: str
    body: dict[str, Any]
    kvtools: _About | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SendOptions:
    """Where to send to. See ``kvtools.replay.sending.Target``.

    ``verify`` asks for each prefix once more: for a member of its group, where ``members`` names the log that the set
    was built from (its ``input_format`` as in every command), else for the line itself. ``ahead`` sends only
    the lines chosen to be sent before the next burst of cold requests.
    """

    url: str
    model: str | None = None
    api_key: str | None = None
    in_flight: int = 4
    verify: bool = False
    members: tuple[str, ...] = ()
    input_format: str | None = None
    ahead: bool = False

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise UsageError(f"--url {self.url}: not a server's address; write http://HOST:PORT.")
        if self.in_flight < 1:
            raise UsageError(f"--in-flight {self.in_flight}: at least 1.")
        if self.members and not self.verify:
            raise UsageError("--members names what --verify asks for: give both, or neither.")


def send_warmup(file: str | Path, options: SendOptions, watcher: Watcher | None = None) -> SendReport:
    """Send the lines that ``warmup`` wrote to ``file`` and return what the server said.

    Raises:
        InputError: the file cannot be read, or holds no warm-up requests.
        EngineError: the server is missing or failed on the way.
    """
    path = Path(file)
    lines, places = _lines(path, ahead=options.ahead)
    asked = _asked(path, lines, places, options)
    told = watcher or Watcher()
    told.begin(len(lines) * (2 if options.verify else 1))
    target = Target(options.url, options.model, options.api_key, options.in_flight)
    delivery, again = Delivery(), Delivery()
    try:
        deliver(lines, target, delivery, verify=options.verify and asked is None, advance=told.advance)
        if asked is not None:
            # What was refused is asked for all the same: its prefix may be there by another line.
            deliver(asked, target, again, verify=False, advance=told.advance)
            delivery.verified = again.answers
    except KeyboardInterrupt:
        told.warn(f"stopped: {len(delivery.answers):,} of {len(lines):,} warm-up requests were answered.")
        raise
    return _report(lines, options, delivery, places if asked is not None else [None] * len(lines))


def _asked(
    path: Path, lines: list[WarmupRequest], places: list[_Place | None], options: SendOptions
) -> list[WarmupRequest] | None:
    """Return a member's request for each line, ``None`` where no log of members is given."""
    if not options.members:
        return None
    wanted = {}
    for line, place in zip(lines, places, strict=True):
        if place is None:
            raise InputError(f"{path}: {line.id} names no member: build the set again with kvtools warmup.")
        wanted[line.id] = (place.source, place.id)
    found = members_in(options.members, wanted, options.input_format)
    return [replace(line, body=body_of(found[line.id], line.body)) for line in lines]


def _lines(path: Path, *, ahead: bool) -> tuple[list[WarmupRequest], list[_Place | None]]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}).") from None
    decoder = msgspec.json.Decoder(_Record)
    requests: list[WarmupRequest] = []
    places: list[_Place | None] = []
    found = 0
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
        found += 1
        if ahead and not about.ahead:
            continue
        places.append(about.member)
        requests.append(WarmupRequest(record.custom_id, record.body, about.tokens, about.block_size))
    if not found:
        raise InputError(f"{path}: no warm-up request in it: there is nothing to send.")
    if not requests:
        raise InputError(
            f"{path}: none of its lines is to be sent ahead of a burst; kvtools warmup --ahead TIME says why."
        )
    return requests, places


def _report(
    lines: list[WarmupRequest], options: SendOptions, delivery: Delivery, members: list[_Place | None]
) -> SendReport:
    items = [_item(line, place, delivery, members[place]) for place, line in enumerate(lines)]
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
        verified_by=("member" if options.members else "line") if options.verify else None,
        verified_requests=len(asked) if options.verify else 0,
        verified_as_expected=sum(
            item.verified_tokens is not None and item.verified_tokens >= (item.expected_tokens or 0)
            for item in asked
        )
        if options.verify
        else 0,
        items=items,
    )


def _item(line: WarmupRequest, place: int, delivery: Delivery, member: _Place | None) -> SentItem:
    answer, again = delivery.answers[place], delivery.verified.get(place)
    return SentItem(
        id=line.id,
        prompt_tokens=answer.queried_tokens,
        cached_tokens=answer.hit_tokens,
        refused=answer.refused,
        member=None if member is None else member.source,
        expected_tokens=None
        if again is None
        else min(line.tokens, (again.queried_tokens - 1) // line.block_size * line.block_size),
        verified_tokens=None if again is None else again.hit_tokens,
    )
