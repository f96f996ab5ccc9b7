"""``plan audit``: a vLLM command line or config against a log."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from kvtools import __version__
from kvtools.errors import InputError, UsageError
from kvtools.flow.analyze import AnalyzeOptions, analyzed
from kvtools.flow.intake import Intake, IntakeOptions, PathLike, Watcher, take_in
from kvtools.flow.plan_audit_lists import add_checklists, tiers_of
from kvtools.flow.plan_audit_log import LADDER, AuditLog
from kvtools.plan.audit_cache import audit_cache, block_of
from kvtools.plan.audit_limits import audit_limits
from kvtools.plan.audit_line import audit_words
from kvtools.plan.audit_model import Findings, NotJudged, Setup
from kvtools.plan.audit_room import RoomOptions, model_facts, room_of
from kvtools.plan.audit_traffic import audit_traffic
from kvtools.plan.flags import committed_table
from kvtools.plan.flags_config import read_config
from kvtools.plan.flags_installed import ask_installed, is_installed
from kvtools.plan.flags_parse import parse_config, parse_line
from kvtools.plan.serve_args import read_line
from kvtools.report.model import SCHEMA_VERSION
from kvtools.report.plan_audit import AuditReport, Configured, Flags, NotAudited, audit_entries, block_sizes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from kvtools.plan.audit_model import LogFacts, Room
    from kvtools.plan.flags import FlagTable
    from kvtools.plan.flags_parse import Parsed
    from kvtools.report.model import Report

__all__ = ["AuditOptions", "RoomOptions", "plan_audit"]

FlagsFrom: TypeAlias = Literal["auto", "installed", "table"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOptions(IntakeOptions):
    """What ``plan audit`` can be told besides how to read.

    ``serve_args`` is a command line, ``serve_config`` a file of flags (YAML as vLLM's ``--config``, or JSON of engine
    arguments): one of them. ``flags_from``: whose flags they are judged by; ``auto`` is the installed vLLM's, else the
    table's. ``room``: what is known of memory and model.
    """

    serve_args: str | None = None
    serve_config: Path | None = None
    flags_from: FlagsFrom = "auto"
    room: RoomOptions = field(default_factory=RoomOptions)

    def __post_init__(self) -> None:
        if (self.serve_args is None) == (self.serve_config is None):
            raise UsageError(
                "give the configuration once: --serve-args 'vllm serve …' or --serve-config FILE."
            )


@dataclass(frozen=True, slots=True)
class _Line:
    """The configuration as it was read, and whose flags it was judged by."""

    program: str
    parsed: Parsed
    environment: Mapping[str, str]
    table: FlagTable
    refused: str | None
    installed: bool


def plan_audit(
    paths: Sequence[PathLike] | PathLike, options: AuditOptions, watcher: Watcher | None = None
) -> AuditReport:
    """Return what the configuration does to the log, and what is wrong with it.

    Raises:
        InputError: the log, the config file or the model's config cannot be read, or no request has a prompt.
        UsageError: the command line starts no vLLM server, or the options contradict each other.
        EngineError: ``flags_from`` is ``installed`` and vLLM is not, or its parser failed.
    """
    line = _line(options)
    return take_in(paths, options, watcher or Watcher(), lambda intake: _audit(intake, line, options))


def _line(options: AuditOptions) -> _Line:
    serve = None if options.serve_args is None else read_line(options.serve_args)
    held = None if options.serve_config is None else read_config(options.serve_config)
    installed = options.flags_from == "installed" or (options.flags_from == "auto" and is_installed())
    asked = None
    if installed:
        asked = ask_installed(*(() if serve is None else (serve.program, serve.argv)))
    table = committed_table() if asked is None else asked.table
    refused = None if asked is None else asked.refused
    if serve is not None:
        parsed = parse_line(serve, table)
        # A value that only the shell knows is no value for the parser.
        refused = refused if not any("$" in word for word in serve.argv) else None
        return _Line(serve.program, parsed, serve.environment, table, refused, installed)
    name = str(options.serve_config)
    python = name.endswith(".json")
    parsed = parse_config(held or {}, table, name, engine_arguments=python)
    return _Line("config", parsed, {}, table, None, installed)


def _audit(intake: Intake, line: _Line, options: AuditOptions) -> AuditReport:
    given = block_of(line.parsed)
    report = analyzed(intake, AnalyzeOptions(findings=False))
    size, rules = intake.keying.block_size, intake.keying.rules
    if report.cache is None or size is None or rules is None:
        raise InputError(
            f"no request with a prompt in {intake.tallies[0].path}: lengths alone do not say what a configuration hits."
        )
    log = AuditLog(tuple(sorted({*LADDER, given})))
    log.read(intake)
    size = size if 0 in log.keys else given
    room = room_of(line.parsed, options.room, size)
    facts = log.measured(size, room.capacity_blocks, rules)
    findings = Findings()
    setup = Setup(line.parsed, line.environment, line.table, model_facts(options.room.model_config), room)
    audit_words(setup, line.refused, findings)
    audit_cache(setup, facts, findings)
    audit_limits(setup, facts, findings)
    audit_traffic(setup, facts, tiers_of(report), findings)
    if report.sessions is None:
        findings.not_judged.append(
            NotJudged("sessions", None, "every request stands alone: no conversation grows")
        )
    for one in line.parsed.given.values():
        if not one.known:
            findings.not_judged.append(
                NotJudged("shell", one.flag.name, "its value is known to the shell only")
            )
    add_checklists(report, facts, room.capacity_blocks, findings)
    return _report(report, line, room, facts, findings)


def _report(report: Report, line: _Line, room: Room, facts: LogFacts, findings: Findings) -> AuditReport:
    on = line.parsed.value("enable_prefix_caching", default=True) is not False
    return AuditReport(
        schema_version=SCHEMA_VERSION,
        kvtools_version=__version__,
        inputs=report.inputs,
        settings=report.settings,
        coverage=report.coverage,
        requests=report.requests,
        flags=Flags(
            source="installed" if line.installed else "table",
            vllm=line.table.vllm,
            made=line.table.made or None,
            count=len(line.table.flags),
        ),
        configuration=Configured(
            program=line.program,
            model=line.parsed.model,
            set_flags=sorted(one.flag.name for one in line.parsed.given.values()),
            block_size=facts.block_size,
            capacity_blocks=room.capacity_blocks,
            capacity_basis=room.basis,
            prefix_caching=on,
            hit_tokens=facts.hit_tokens if on else 0,
            queried_tokens=facts.queried_tokens,
            hit_rate=facts.hit_rate if on else 0.0,
        ),
        audit=audit_entries(findings.found),
        not_judged=[NotAudited(rule=one.rule, flag=one.flag, why=one.why) for one in findings.not_judged],
        block_sizes=block_sizes(facts.steps),
    )
