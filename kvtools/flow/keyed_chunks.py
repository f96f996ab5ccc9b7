"""Chunks to keys and profiles, wherever that runs, with what was kept of an earlier run."""

from __future__ import annotations

import hashlib
from collections import deque
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pyarrow as pa

from kvtools import __version__
from kvtools.executors.serial import Serial
from kvtools.profile import Keying, map_chunk
from kvtools.table import arrow_column
from kvtools.tokens import CheckedTokenizer, load_tokenizer
from kvtools.tokens.files import BYTES_TOKENIZER, tokenizer_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kvtools.chat import ChatTemplate
    from kvtools.executors import Executor, Pending
    from kvtools.executors.kept import Kept
    from kvtools.model import Rules
    from kvtools.profile import Keyed, LogProfile
    from kvtools.readers import Chunk
    from kvtools.tokens.checked import Checks


@dataclass(frozen=True, slots=True)
class KeyingSetup:
    """How chunks become keys, once that is settled: enough for another process to do the same."""

    template: ChatTemplate
    tokenizer: str
    fast: bool
    block_size: int | None
    rules: Rules | None
    strict: bool
    kind: Any


class Mapped(NamedTuple):
    """What one chunk came to. ``keyed`` has no token ids, but where media stand in given ones.

    First sights were gathered from ``seen_level`` on: a whole that has not come so far would lack some.
    """

    keyed: Keyed
    profile: LogProfile
    checks: Checks | None
    seen_level: int


def mapped(setup: KeyingSetup, chunk: Chunk, dropped: int, seen_level: int) -> Mapped:
    """Return what a chunk comes to in a process of its own; ``dropped`` of its calls were repeated ones."""
    return mapped_by(_keying(setup), chunk, dropped, seen_level)


def mapped_by(keying: Keying, chunk: Chunk, dropped: int, seen_level: int = 0) -> Mapped:
    """Return what a chunk comes to, to be merged with a profile whose first sights have ``seen_level`` or more."""
    keyed = keying.key(chunk.requests)
    profile = map_chunk(chunk, keyed, dropped, seen_level)
    tokenizer = keying.tokenizer
    checks = tokenizer.taken_checks() if isinstance(tokenizer, CheckedTokenizer) else None
    return Mapped(without_tokens(keyed), profile, checks, seen_level)


def without_tokens(keyed: Keyed) -> Keyed:
    """Return the keyed requests without their ids, which no stage after the profile looks at."""
    given_media = keyed.media is not None and len(keyed.media) and not keyed.with_media
    return keyed if given_media else replace(keyed, tokens=None)


@lru_cache(maxsize=2)
def _keying(setup: KeyingSetup) -> Keying:
    """Return the keying of this process: a tokenizer takes a second to load."""
    tokenizer = load_tokenizer(setup.tokenizer, fast=setup.fast)
    return Keying(setup.template, tokenizer, setup.block_size, setup.rules, setup.strict, setup.kind)


@dataclass(slots=True)
class _Flying:
    """A chunk that was handed over: its result is there already, or pending."""

    chunk: Chunk
    name: str
    found: Mapped | Pending[Mapped]


@dataclass(frozen=True, slots=True)
class ChunkWork:
    """Maps chunks by ``executor``, with the results that ``kept`` holds.

    A serial executor works with ``keying`` itself; other processes make their own from ``setup``. ``seen_level`` says
    how far the first sights of the chunks before have come.
    """

    executor: Executor
    keying: Keying
    setup: KeyingSetup
    kept: Kept | None
    seen_level: Callable[[], int]

    def results(self, chunks: Iterable[tuple[Chunk, int]]) -> Iterator[tuple[Chunk, Mapped]]:
        """Yield each chunk with what it comes to, in order; ``chunks`` are read a few ahead of that.

        Where reading fails, the chunks before come first: a run fails alike wherever it runs.
        """
        base = _name_of_setup(self.setup) if self.kept is not None else b""
        flying: deque[_Flying] = deque()
        try:
            for chunk, dropped in chunks:
                flying.append(self._begun(base, chunk, dropped))
                if len(flying) > self.executor.window:
                    yield self._landed(flying.popleft())
        except Exception:
            while flying:
                yield self._landed(flying.popleft())
            raise
        while flying:
            yield self._landed(flying.popleft())

    def _begun(self, base: bytes, chunk: Chunk, dropped: int) -> _Flying:
        name, found = "", None
        if self.kept is not None:
            name = _name_of_chunk(base, chunk, dropped)
            found = self.kept.get(name)
        level = self.seen_level()
        if isinstance(found, Mapped) and found.seen_level <= level:
            return _Flying(chunk, name, found)
        if self._here:
            return _Flying(chunk, name, self.executor.submit(mapped_by, self.keying, chunk, dropped, level))
        return _Flying(chunk, name, self.executor.submit(mapped, self.setup, chunk, dropped, level))

    def _landed(self, flying: _Flying) -> tuple[Chunk, Mapped]:
        tokenizer = self.keying.tokenizer
        if isinstance(flying.found, Mapped):
            result, counted = flying.found, False
        else:
            result, counted = flying.found.result(), self._here
            if self.kept is not None:
                self.kept.put(flying.name, result)
        if result.checks is not None and isinstance(tokenizer, CheckedTokenizer) and not counted:
            tokenizer.add_checks(result.checks)
        return flying.chunk, result

    @property
    def _here(self) -> bool:
        return isinstance(self.executor, Serial)


def _name_of_setup(setup: KeyingSetup) -> bytes:
    """Return a digest of all that decides about the keys besides the chunk: a tokenizer is its file's bytes."""
    template = setup.template
    tokenizer = b""
    if setup.tokenizer != BYTES_TOKENIZER:
        tokenizer = hashlib.sha256(tokenizer_file(setup.tokenizer)[1].read_bytes()).digest()
    parts = (
        __version__, template.source, template.tool_source, sorted(template.special_tokens.items()),
        template.clock.isoformat(), template.tools_as_logged, setup.tokenizer, setup.fast, setup.block_size,
        setup.rules, setup.strict, setup.kind,
    )  # fmt: skip
    return hashlib.sha256(msgspec.json.encode(parts) + tokenizer).digest()


def _name_of_chunk(base: bytes, chunk: Chunk, dropped: int) -> str:
    digest = hashlib.sha256(base)
    for table in (chunk.requests, chunk.rejects):
        columns = [arrow_column(table, name) for name in table.columns]
        digest.update(pa.RecordBatch.from_arrays(columns, list(table.columns)).serialize())
    digest.update(msgspec.json.encode((chunk.records, dropped, sorted(chunk.repaired.items()))))
    return digest.hexdigest()
