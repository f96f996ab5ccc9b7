"""The verdict of ``kvtools check``: what was held against which limit, and what causes a failure.

``Verdict.from_json(verdict.to_json())`` gives an equal verdict; nothing in it depends on the wall clock. Figures:
docs/metrics.md.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from kvtools.errors import EXIT_DONE, EXIT_GATE_FAILED
from kvtools.report.model import Input
from kvtools.report.read_back import read_back

VERDICT_SCHEMA_VERSION = 1

Status: TypeAlias = Literal["pass", "fail", "n/a"]
Unit: TypeAlias = Literal["share", "points", "tokens", "requests"]
Level: TypeAlias = Literal["error", "warning", "note"]


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a file, counted from 1; ``None`` where only the file is known."""

    path: str
    line: int | None


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One figure against its limit.

    ``name`` is a stable id and ``title`` short words for people; ``scope`` is the template, route or class that it is
    about, ``None`` the whole log. ``measured``, ``limit`` and ``baseline`` are in ``unit``: shares are 0..1, and
    ``points`` are differences of shares (0.02 is two points on screen). ``message`` is one line with the figures and
    no text of a prompt. ``limit_from`` says where the limit was set. A check that does not gate only informs.
    """

    name: str
    title: str
    scope: str | None
    status: Status
    measured: float | int | None
    limit: float | int | None
    unit: Unit | None
    baseline: float | None
    message: str
    limit_from: str
    gates: bool


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """What breaks the prefix, and where. ``rule`` is a stable id, ``fingerprint`` is equal for equal causes."""

    rule: str
    message: str
    place: Place
    level: Level
    fingerprint: str


class VerdictSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the figures depend on; a baseline has to have the same."""

    tokenizer: str
    chat_template: str
    order: str
    measure_from: float
    cache_model: str
    block_size: int
    capacity_blocks: int | None
    rules: str
    outputs: str


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """All checks and causes. ``passed`` where no check that gates failed; the exit code follows from it."""

    schema_version: int
    kvtools_version: str
    inputs: tuple[Input, ...]
    settings: VerdictSettings
    checks: tuple[Check, ...]
    causes: tuple[Cause, ...]
    passed: bool

    @property
    def exit_code(self) -> int:
        """0 where the gate passed, 1 where it failed."""
        return EXIT_DONE if self.passed else EXIT_GATE_FAILED

    def to_json(self) -> str:
        """Return the verdict as indented JSON with a final line feed."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode() + "\n"

    @classmethod
    def from_json(cls, data: bytes | str) -> Verdict:
        """Read a verdict back.

        Raises:
            InputError: not a verdict, or one of another schema version.
        """
        return read_back(data, cls, VERDICT_SCHEMA_VERSION, "verdict")
