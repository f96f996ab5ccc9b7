"""``lint_templates``: what templates do to the prefix, before a request is sent."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvtools import __version__
from kvtools.errors import InputError, UsageError
from kvtools.linting import (
    CHANGES,
    Changes,
    Finding,
    TemplateLint,
    lint_template,
    probe_chat_templates,
    read_templates,
)
from kvtools.linting.chat_check import is_chat_template, lint_chat_template
from kvtools.linting.check import unreadable
from kvtools.linting.pieces import Unparsable
from kvtools.linting.probing import SECONDS, Job
from kvtools.linting.sources import Sources
from kvtools.normalize.manifest import read_manifest
from kvtools.report.lint import (
    LINT_SCHEMA_VERSION,
    LintCounts,
    LintFinding,
    LintReport,
    LintSettings,
    LintTemplate,
    Proposal,
)
from kvtools.tokens import DEFAULT_TOKENIZER, load_tokenizer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kvtools.flow.intake import PathLike
    from kvtools.linting.sources import Source
    from kvtools.normalize.manifest import FieldEntry
    from kvtools.tokens import Tokenizer


_VARIES: Changes = "request"


@dataclass(frozen=True, slots=True, kw_only=True)
class LintOptions:
    """How to lint.

    ``changes`` states by name how often a placeholder's value changes, where its name does not tell.
    ``min_stable_tokens`` fails a prompt template with fewer leading stable tokens. ``probe_seconds`` is what rendering
    one chat template may take.
    """

    tokenizer: str = DEFAULT_TOKENIZER
    changes: Mapping[str, Changes] = field(default_factory=dict)
    min_stable_tokens: int | None = None
    probe_seconds: float = SECONDS


def lint_templates(paths: Sequence[PathLike] | PathLike, options: LintOptions | None = None) -> LintReport:
    """Return what stands in the templates of ``paths`` in the way of reuse; ``report.exit_code`` is the gate's.

    Raises:
        InputError: a path is missing, or no template could be read.
        UsageError: ``changes`` states what is none of ``never``, ``class``, ``unknown``, ``history``, ``request``.
    """
    chosen = options or LintOptions()
    for name, changes in chosen.changes.items():
        if changes not in CHANGES:
            raise UsageError(f"{name}={changes}: a value changes {', '.join(CHANGES)}; name one of these.")
    named = [str(path) for path in (paths if isinstance(paths, (list, tuple)) else [paths])]
    sources, varying = _learned(read_templates(named), named)
    tokenizer = load_tokenizer(chosen.tokenizer, fast=False)
    linted = _linted(sources, tokenizer, chosen, varying)
    if all(one.kind == "unreadable" for one in linted):
        raise _nothing_read(linted, sources)
    templates = [_figures(_gated(one, chosen.min_stable_tokens)) for one in linted]
    severities = Counter(found.severity for one in templates for found in one.findings)
    return LintReport(
        schema_version=LINT_SCHEMA_VERSION,
        kvtools_version=__version__,
        settings=LintSettings(
            tokenizer=tokenizer.name,
            changes=dict(sorted(chosen.changes.items())),
            min_stable_tokens=chosen.min_stable_tokens,
        ),
        counts=LintCounts(
            templates=len(templates),
            unreadable=sum(one.kind == "unreadable" for one in templates),
            skipped_files=len(sources.skipped),
            errors=severities["error"],
            warnings=severities["warning"],
            infos=severities["info"],
        ),
        templates=templates,
        skipped_files=list(sources.skipped),
    )


def _learned(sources: Sources, named: Sequence[str]) -> tuple[Sources, dict[str, dict[str, Changes]]]:
    """Return what is to be linted, and by template what the log it was learned from says of its fields.

    A learned template has the values behind that varied in front of stable text: that is a fact, and a name is a hint.
    Of a folder of learned templates only those are linted that a service is to use; ``logged`` keeps what was logged.
    """
    entries_of = cache(_entries)
    shown = {Path(path).resolve() for path in named}
    kept, skipped, varying = [], list(sources.skipped), {}
    for source in sources.templates:
        path = Path(source.name).resolve()
        as_logged = entries_of(path.parent.parent).get(f"{path.parent.name}/{path.name}")
        if as_logged and not {path, path.parent} & shown and set(path.parents) & shown:
            skipped.append(source.name)
            continue
        kept.append(source)
        fields = entries_of(path.parent).get(path.name, [])
        varying[source.name] = dict.fromkeys((one.name for one in fields if one.moved), _VARIES)
    return Sources(tuple(kept), sources.unreadable, tuple(sorted(skipped))), varying


def _entries(folder: Path) -> dict[str, list[FieldEntry]]:
    """Return the fields of learned templates by file, as logged and as served; nothing where none were learned."""
    try:
        manifest = read_manifest(folder)
    except InputError:
        return {}  # no manifest of ours that can be relied on: the templates are linted like any others
    entries = manifest.templates if manifest else []
    return {name: entry.fields for entry in entries for name in (entry.file, entry.logged)}


def _linted(
    sources: Sources,
    tokenizer: Tokenizer,
    options: LintOptions,
    varying: Mapping[str, Mapping[str, Changes]],
) -> list[TemplateLint]:
    found = [unreadable(file.name, Unparsable(file.line, file.reason)) for file in sources.unreadable]
    chats: list[Source] = []
    for source in sources.templates:
        try:
            chat = source.chat or is_chat_template(source.text)
        except (Unparsable, RecursionError):
            chat = False
        if chat:
            chats.append(source)
        else:
            given = {**varying[source.name], **options.changes}
            found.append(lint_template(source.name, source.text, tokenizer, given))
    jobs = [Job(source.name, source.text, source.special_tokens) for source in chats]
    answers: list[dict[str, Any]] = probe_chat_templates(jobs, options.probe_seconds)
    found += [
        lint_chat_template(source.name, source.text, answer, tokenizer)
        for source, answer in zip(chats, answers, strict=True)
    ]
    return sorted(found, key=lambda one: one.name)


def _nothing_read(linted: Sequence[TemplateLint], sources: Sources) -> InputError:
    if not linted:
        looked = len(sources.skipped)
        return InputError(
            f"no templates: {looked:,} {'file' if looked == 1 else 'files'} looked at, none a .j2, .jinja, .jinja2 or "
            ".txt with placeholders, or a tokenizer_config.json with a chat_template; name another folder."
        )
    first = linted[0]
    more = f" ({len(linted) - 1:,} more could not be read either)" if len(linted) > 1 else ""
    reason = first.findings[0].sentence.split(": correct it")[0].removeprefix("the template ")
    return InputError(
        f"{first.name}:{first.findings[0].line}: no template could be read: {reason}{more}; correct it."
    )


def _gated(one: TemplateLint, least: int | None) -> TemplateLint:
    if least is None or one.kind != "prompt" or one.stable is None or one.stable.leading >= least:
        return one
    stop = f" before {{{{ {one.stable.stopped_by} }}}}" if one.stable.stopped_by else ""
    sentence = (
        f"{one.stable.leading:,} leading stable tokens{stop}, at least {least:,} are wanted: move what changes behind "
        "the stable text, or lengthen the text in front."
    )
    found = Finding(one.stable.line or 1, "too-few-stable-tokens", "error", sentence)
    return replace(one, findings=(*one.findings, found))


def _figures(one: TemplateLint) -> LintTemplate:
    stable = one.stable
    proposal = None
    if one.order is not None and one.order_tokens is not None:
        proposal = Proposal(
            text=one.order.text, leading_stable_tokens=one.order_tokens, place_words=one.order.place_words
        )
    return LintTemplate(
        path=one.name,
        kind=one.kind,
        leading_stable_tokens=stable.leading if stable else None,
        stopped_by=stable.stopped_by if stable else None,
        stopped_at_line=stable.line if stable else None,
        stable_tokens_behind=stable.behind if stable else None,
        findings=[
            LintFinding(line=found.line, rule=found.rule, severity=found.severity, sentence=found.sentence)
            for found in one.findings
        ],
        proposal=proposal,
        no_proposal=one.no_order,
    )
