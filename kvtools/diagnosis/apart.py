"""What keeps equal prompts apart although no text of theirs differs: salts, adapters, media, caches of instances.

Each is a finding of the whole log. Where it can be mended without harm, the mended log is replayed; a salt that
requests share and an adapter are told with their cost only, since to remove them would mix what has to stay apart.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from kvtools.diagnosis.ranking import severity_of
from kvtools.table import digest64, text_column

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from kvtools.diagnosis.ranking import Severity
    from kvtools.diagnosis.whatif import Outcome
    from kvtools.profile import Keyed

_JOINED = re.compile(
    r"(?:model=(?P<model>.*?))?(?: ?adapter=(?P<adapter>.*?))?(?: ?salt=(?P<salt>.*))?", re.DOTALL
)
_SOME = 2
EQUAL_TOKENS = 16
"""Token ids behind two media that have to be equal for their text to count as shared."""

SENTENCES = {
    "salt_per_request": "send no new cache_salt with each request: one per tenant keeps tenants apart as well",
    "salt_per_tenant": "keep them: salts that requests share are somebody's isolation; this is what it costs",
    "adapter": "nothing to fix: blocks of another adapter hold other values; this is what the split costs",
    "image_before_text": "put the text in front of the image; an answer can change with their order: test it",
    "image_before_text_unpriced": (
        "put the text in front of the image; token ids do not tell where a message ends, so no replay"
    ),
    "instances": "route the turns of a conversation, and prompts that begin alike, to one instance",
    "deployment_hash_seed": (
        "no instance hit what another had computed: attach one external cache, with PYTHONHASHSEED equal on all"
    ),
}
"""What to do, by kind. vLLM hashes salt and adapter into the first or every block, a medium into those it touches."""


@dataclass(frozen=True, slots=True)
class ApartFinding:
    """One cause: ``requests`` show it; ``lost_tokens`` and ``fixed`` are by replay, ``None`` where none can be had.

    ``gain`` (0..1) is what the fix adds to the hit rate: 0 where none is advised.
    """

    kind: str
    requests: int
    lost_tokens: int | None
    fixed: Outcome | None
    gain: float
    sentence: str

    @property
    def severity(self) -> Severity:
        """How much the gain matters."""
        return severity_of(self.gain)

    @property
    def finding_id(self) -> str:
        """A name made of the kind: the same on every run and in any order of the log."""
        return f"{digest64('apart ' + self.kind):016x}"[:8]


def mended(kind: str, requests: int, now: Outcome, fixed: Outcome) -> ApartFinding:
    """Return the finding of a cause whose fix was replayed."""
    gain = max((fixed.hit_rate or 0.0) - (now.hit_rate or 0.0), 0.0)
    lost = max(fixed.hit_tokens - now.hit_tokens, 0)
    return ApartFinding(kind, requests, lost, fixed, gain, SENTENCES[kind])


def told(kind: str, requests: int, lost_tokens: int | None, sentence: str | None = None) -> ApartFinding:
    """Return a finding without a fix to advise; ``sentence`` names another sentence than that of the kind."""
    return ApartFinding(kind, requests, lost_tokens, None, 0.0, SENTENCES[sentence or kind])


def without(namespace: str | None, *, salt: bool = False, adapter: bool = False) -> str | None:
    """Return a namespace's name without its salt or its adapter, ``None`` where nothing is left."""
    parts = _JOINED.fullmatch(namespace or "")
    if parts is None:
        return namespace
    dropped = {name for name, drop in (("salt", salt), ("adapter", adapter)) if drop}
    kept = [f"{name}={value}" for name, value in parts.groupdict().items() if value and name not in dropped]
    return " ".join(kept) or None


def _part(namespace: str | None, name: str) -> str | None:
    parts = _JOINED.fullmatch(namespace or "")
    return None if parts is None else parts[name]


@dataclass(slots=True)
class Apart:
    """What the first pass keeps: per request digests of salt and adapter (0: none), and media in front of equal ids.

    ``with_media`` says whether any chat holds a picture; ``behind`` are, by what follows a medium among given token
    ids (a digest of 16 ids), the media that were seen there with how many requests.
    """

    salts: list[NDArray[np.uint64]] = field(default_factory=list)
    adapters: list[NDArray[np.uint64]] = field(default_factory=list)
    with_media: bool = False
    behind: dict[int, dict[int, int]] = field(default_factory=dict)

    def add(self, table: pd.DataFrame, keyed: Keyed) -> None:
        """Take in a chunk of the first pass."""
        names = text_column(table, "namespace")
        part_of = {name: (_part(name, "salt"), _part(name, "adapter")) for name in set(names)}
        parts = [part_of[names[row]] for row in keyed.rows.tolist()]
        self.salts.append(np.array([digest64(salt) for salt, _ in parts], dtype=np.uint64))
        self.adapters.append(np.array([digest64(adapter) for _, adapter in parts], dtype=np.uint64))
        self.with_media = self.with_media or keyed.with_media > 0
        if keyed.media is not None and keyed.tokens is not None and not keyed.with_media:
            self._add_media(keyed)

    def _add_media(self, keyed: Keyed) -> None:
        media, tokens = keyed.media, keyed.tokens
        if media is None or tokens is None:
            return
        columns = (media.request.tolist(), (media.offset + media.length).tolist(), media.digest.tolist())
        for request, end, digest in zip(*columns, strict=True):
            after = tokens.row(request)[end : end + EQUAL_TOKENS]
            if len(after) == EQUAL_TOKENS:
                seen = self.behind.setdefault(digest64(after.tobytes().hex()), {})
                seen[digest] = seen.get(digest, 0) + 1

    def media_before_equal_ids(self) -> int:
        """Return the requests in which another medium stands in front of the same token ids."""
        return sum(sum(seen.values()) for seen in self.behind.values() if len(seen) > 1)

    def salted(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which requests carry a salt of their own, and which one that others share.

        Own salts are a misconfiguration where they are at least half of all and two or more; else they are the salts
        of those who asked once.
        """
        salts = _joined(self.salts)
        _, place, count = np.unique(salts, return_inverse=True, return_counts=True)
        carries = salts != 0
        own = carries & (count[place] == 1)
        if own.sum() < _SOME or 2 * own.sum() < carries.sum():
            own = np.zeros_like(carries)
        return own, carries & ~own

    def splits(self, names: Sequence[NDArray[np.uint64]], rows: NDArray[np.bool_]) -> bool:
        """Return whether the requests of the log stand apart by the names of ``rows`` (none is a name too)."""
        values = np.where(rows, _joined(names), np.uint64(0))
        return bool(rows.any()) and len(np.unique(values)) > 1

    def adapted(self) -> NDArray[np.bool_]:
        """Return which requests name an adapter."""
        rows: NDArray[np.bool_] = _joined(self.adapters) != 0
        return rows


def _joined(parts: Sequence[NDArray[np.uint64]]) -> NDArray[np.uint64]:
    return np.concatenate([np.empty(0, dtype=np.uint64), *parts])


def text_first(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]] | None:
    """Return the messages with each text in front of the media of its message, ``None`` where that is as it was."""
    out, changed = [], False
    for message in messages:
        content = message.get("content")
        if isinstance(content, list):
            ordered = sorted(
                content, key=lambda part: not (isinstance(part, dict) and part.get("type") == "text")
            )
            changed = changed or ordered != content
            out.append({**message, "content": ordered})
        else:
            out.append(message)
    return out if changed else None
