"""The report on one request: the nearest earlier one, where they part, what it cost. Figures: docs/metrics.md."""

from __future__ import annotations

import msgspec

from kvtools.report.model import Coverage, Input, Settings


class RequestName(msgspec.Struct, frozen=True, kw_only=True):
    """One request of a log: id (``None``: the log has none), ``path:line``, arrival in µs, prompt length in tokens."""

    id: str | None
    source: str
    arrival_us: int | None
    prompt_tokens: int


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """What one prompt holds where two part. Letters are ``x`` and digits ``0`` unless text was asked for.

    ``cut``: the value goes on. ``section`` is a message, a text part or the tools (``None``: the template's own text,
    or not known), ``section_character`` the first differing character in it.
    """

    section: str | None
    section_character: int | None
    before: str | None
    value: str | None
    after: str | None
    cut: bool


class Parting(msgspec.Struct, frozen=True, kw_only=True):
    """Where two prompts part, counted from 0: so many tokens, blocks and characters are equal before it.

    ``token`` is ``None`` where only block ids are known, ``character`` where no text is. ``media``: the tokens are
    equal there, a picture or sound is not. ``field``: what kind of value differs, where that is known.
    """

    token: int | None
    block: int
    character: int | None
    media: bool
    field: str | None
    masked: bool
    this: Shown
    that: Shown


class CacheFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The cache that the hits were predicted for."""

    model: str
    block_size: int
    capacity_blocks: int | None
    rules: str


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """All that ``kvtools explain`` knows of one request.

    ``outcome``: ``first`` (no earlier request in its namespace), ``parted``, ``continues`` (it begins with the whole
    earlier prompt) or ``contained`` (the earlier prompt begins with all of it). Tokens; ``None``: not known.
    """

    schema_version: int
    kvtools_version: str
    inputs: list[Input]
    settings: Settings
    coverage: Coverage
    cache: CacheFigures
    request: RequestName
    place: int
    requests: int
    outcome: str
    nearest: RequestName | None
    earlier_us: int | None
    shared_tokens: int
    shared_blocks: int
    parting: Parting | None
    identical_tokens_behind: int | None
    queried_tokens: int
    hit_tokens: int
    ceiling_hit_tokens: int
    reported_hit_tokens: int | None

    def to_json(self) -> str:
        """Return the report as indented JSON with a final line feed."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode() + "\n"
