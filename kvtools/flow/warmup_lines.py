"""The lines of a warm-up set: members of each prefix are read once more, and checked against what is written."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from kvtools.blocks import block_keys
from kvtools.errors import TemplateError
from kvtools.table import Ragged, digest64, ragged_column, text_column
from kvtools.warmup.lines import Line, LineWriter, Member, renders_alike
from kvtools.warmup.members import members_of
from kvtools.warmup.replaying import Sent

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    import pandas as pd

    from kvtools.flow.intake import Intake
    from kvtools.flow.warmup_log import WarmupLog
    from kvtools.warmup.choose import Chosen
    from kvtools.warmup.lines import Write

CHECKED_MEMBERS = 4
"""So many members of each group are rendered and compared, the latest among them."""

_NAMESPACE = re.compile(
    r"(?:model=(?P<model>.*?))?(?: ?adapter=(?P<adapter>.*?))?(?: ?salt=(?P<salt>.*))?", re.DOTALL
)


@dataclass(frozen=True, slots=True, eq=False)
class Written:
    """A prefix as it is sent. ``record``: its line in OUT (``None`` for block ids, which cannot be sent).

    ``member``: where a request that shares the prefix stands, another one than the line is made of where there is one.
    """

    prefix: Chosen
    sent: Sent
    form: str
    verified: int
    namespace: str | None
    record: dict[str, Any] | None = None
    member: dict[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Unwritten:
    """A prefix that no line can be made of, and why."""

    prefix: Chosen
    namespace: str | None
    reason: str


def write_lines(
    intake: Intake, log: WarmupLog, prefixes: Sequence[Chosen], stop: int, write: Write
) -> tuple[list[Written], list[Unwritten]]:
    """Return the lines of ``prefixes`` in their order, and those that cannot be written.

    Raises:
        ChangedInput: a file changed since the first pass.
    """
    size = intake.keying.block_size or 1
    groups = members_of(log.history, prefixes, stop, CHECKED_MEMBERS)
    bodies = _members(intake.again(), log, {request for group in groups for request in group})
    writer = LineWriter(intake.template, intake.tokenizer, write, block_size=size)
    lines: list[Written] = []
    failed: list[Unwritten] = []
    for prefix, group in zip(prefixes, groups, strict=True):
        name = log.namespaces[prefix.request]
        try:
            line = writer.line(bodies[prefix.request], prefix.depth)
        except TemplateError as error:
            failed.append(Unwritten(prefix, name, str(error)))
            continue
        if line is None:
            failed.append(Unwritten(prefix, name, "pictures or sounds are sent with --write batch only"))
            continue
        members = [bodies[request] for request in group]
        alike = renders_alike(writer, line, members, prefix.depth)
        if alike < len(members):
            failed.append(Unwritten(prefix, name, "it renders otherwise than a member of its group"))
            continue
        written = _written(log, prefix, line, name, alike, size)
        lines.append(replace(written, member=place_of(members[-1])))
    return lines, failed


def _written(
    log: WarmupLog, prefix: Chosen, line: Line, name: str | None, verified: int, size: int
) -> Written:
    ids = Ragged(line.token_ids, np.array([0, len(line.token_ids)], dtype=np.int64))
    own = log.interner.intern(block_keys(ids, [name], size).values)
    if log.media[prefix.request]:
        own = log.history.blocks(prefix.request)
    return Written(prefix, Sent(len(line.token_ids), own), line.form, verified, name, _body(line, name))


def place_of(member: Member) -> dict[str, str]:
    """Return the name of a request by which its log tells it from others: file and line, and its id where it has one.

    The folder is left out: the file of lines may be sent from another machine.
    """
    place = {"source": PurePath(member.source or "").name}
    return place | ({"id": member.request_id} if member.request_id else {})


def _body(line: Line, name: str | None) -> dict[str, Any]:
    named = _NAMESPACE.fullmatch(name or "")
    own = named.groupdict() if named else {}
    body: dict[str, Any] = {}
    # vLLM serves an adapter under its own name, as a model.
    if model := own.get("adapter") or own.get("model"):
        body["model"] = model
    body |= line.body | {"max_tokens": 1, "temperature": 0}
    if own.get("salt"):
        body["cache_salt"] = own["salt"]
    return body


def shown_namespace(name: str | None) -> str | None:
    """Return a namespace as a report names it: a salt by its digest, since it may be a tenant's secret."""
    named = _NAMESPACE.fullmatch(name or "")
    if name is None or named is None or not named["salt"]:
        return name
    return f"{name[: named.start('salt')]}#{digest64(named['salt']):016x}"


def batch_lines(lines: Sequence[Written], block_size: int, ahead: Collection[str] = ()) -> Iterable[str]:
    """Yield the lines of OUT: OpenAI batch records, in sending order, each with what it is expected to save.

    ``ahead``: the ids of those to send before the next burst of cold requests.
    """
    for number, line in enumerate(lines):
        body = line.record or {}
        url = "/v1/chat/completions" if "messages" in body else "/v1/completions"
        about: dict[str, Any] = {
            "tokens": line.prefix.depth * block_size,
            "expected_saved_tokens": round(line.prefix.value * block_size),
            "members": line.prefix.members,
            "block_size": block_size,
            "member": line.member,
        }
        if item_id(number) in ahead:
            about["ahead"] = True
        record = {"custom_id": item_id(number), "method": "POST", "url": url, "body": body, "kvtools": about}
        yield msgspec.json.encode(record).decode() + "\n"


def item_id(number: int) -> str:
    """Return the name of a line by its place in OUT."""
    return f"warmup-{number + 1:04d}"


def _members(tables: Iterable[pd.DataFrame], log: WarmupLog, requests: set[int]) -> dict[int, Member]:
    wanted: dict[int, list[int]] = {}
    for request in sorted(requests):
        wanted.setdefault(int(log.where[0, request]), []).append(request)
    found: dict[int, Member] = {}
    for number, table in enumerate(tables):
        mine = wanted.get(number, [])
        rows = [int(log.where[1, request]) for request in mine]
        members = as_members(table, rows, [bool(log.media[request]) for request in mine])
        found |= dict(zip(mine, members, strict=True))
    return found


def as_members(table: pd.DataFrame, places: Sequence[int], media: Sequence[bool]) -> list[Member]:
    """Return the requests in the rows ``places`` of a request table; ``media``: which have pictures or sounds."""
    if not places:
        return []
    rows = table.iloc[list(places)].reset_index(drop=True)
    messages, tools, prompts, sources, names = (
        text_column(rows, name) for name in ("messages", "tools", "prompt", "source", "request_id")
    )
    ids = ragged_column(rows, "token_ids")
    return [
        Member(
            messages=None if (given := messages[place]) is None else msgspec.json.decode(given),
            tools=None if (tool_list := tools[place]) is None else msgspec.json.decode(tool_list),
            prompt=prompts[place],
            token_ids=ids.row(place).tolist() or None,
            media=media[place],
            source=sources[place],
            request_id=names[place],
        )
        for place in range(len(rows))
    ]
