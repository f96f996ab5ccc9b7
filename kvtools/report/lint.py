"""The report of ``kvtools lint-templates``, and its exit code. Figures: docs/lint-templates.md."""

from __future__ import annotations

import msgspec

from kvtools.errors import EXIT_DONE, EXIT_GATE_FAILED

LINT_SCHEMA_VERSION = 1


class LintFinding(msgspec.Struct, frozen=True, kw_only=True):
    """One finding: ``line`` from 1, ``severity`` ``error``, ``warning`` or ``info``, one sentence on what to do."""

    line: int
    rule: str
    severity: str
    sentence: str


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """A better order, only ever printed. ``place_words``: the text says "above" or "below"; look before using it."""

    text: str
    leading_stable_tokens: int
    place_words: bool


class LintTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """One template. ``kind``: ``prompt``, ``chat`` or ``unreadable``.

    ``leading_stable_tokens`` stand in front of ``stopped_by``, the first value that changes from request to request,
    ``stable_tokens_behind`` it; ``None`` where that is not known. ``no_proposal`` says why no order is proposed.
    """

    path: str
    kind: str
    leading_stable_tokens: int | None
    stopped_by: str | None
    stopped_at_line: int | None
    stable_tokens_behind: int | None
    findings: list[LintFinding]
    proposal: Proposal | None
    no_proposal: str | None


class LintSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the figures depend on."""

    tokenizer: str
    changes: dict[str, str]
    min_stable_tokens: int | None


class LintCounts(msgspec.Struct, frozen=True, kw_only=True):
    """``templates`` include the ``unreadable`` ones; ``skipped_files`` of a folder are no templates."""

    templates: int
    unreadable: int
    skipped_files: int
    errors: int
    warnings: int
    infos: int


class LintReport(msgspec.Struct, frozen=True, kw_only=True):
    """All templates, by path."""

    schema_version: int
    kvtools_version: str
    settings: LintSettings
    counts: LintCounts
    templates: list[LintTemplate]
    skipped_files: list[str]

    @property
    def exit_code(self) -> int:
        """1 where an error or a warning was found, else 0: notes (``info``) do not fail."""
        return EXIT_GATE_FAILED if self.counts.errors or self.counts.warnings else EXIT_DONE

    def to_json(self) -> str:
        """Return the report as indented JSON with a final line feed."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode() + "\n"
