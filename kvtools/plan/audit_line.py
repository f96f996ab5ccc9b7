"""What is wrong with the words of the line: flags that vLLM does not have, values that it refuses, variables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtools.plan.audit_model import AuditFinding
from kvtools.plan.flags import nearest
from kvtools.plan.flags_folklore import GONE_VARIABLES, told_of

if TYPE_CHECKING:
    from kvtools.plan.audit_model import Findings, Setup, Severity
    from kvtools.plan.flags_parse import Fault

_STOPS = "vLLM does not start"
_FAULTS: dict[str, tuple[Severity, str, str, str]] = {
    "ambiguous": ("high", "a shortened flag could be several", _STOPS, "write the flag out: {detail}"),
    "takes_no_value": (
        "high", "a flag that takes no value has one", _STOPS,
        "write {flag}, or --no-… to switch it off, without {detail}",
    ),
    "needs_value": ("high", "a flag lacks its value", _STOPS, "give {flag} a value, or leave it out"),
    "bad_value": ("high", "a value that vLLM refuses", f"{_STOPS}: {{detail}}", "correct the value of {flag}"),
    "twice": ("medium", "a flag is given twice", "the last one wins", "keep one {flag}"),
    "stray": ("high", "a word that belongs to no flag", _STOPS, "remove it, or put the flag in front of it"),
    "config_ignored": (
        "medium", "a config file is not read", "vLLM reads --config FILE as two words and takes no notice of this form",
        "write --config and the file as two words",
    ),
    "config_unread": ("medium", "a config file was not audited", "{detail}", "run the audit where the file is"),
    "config_dropped": (
        "medium", "a false in the config file has no effect",
        "vLLM makes --no-<key> of a false only where the key is spelt with hyphens; this one it drops",
        "write the key with hyphens: {hyphens}: false",
    ),
    "deprecated": ("info", "a deprecated flag", "vLLM will drop it", "see vLLM's help on {flag}"),
}  # fmt: skip


def audit_words(setup: Setup, refused: str | None, findings: Findings) -> None:
    """Add what is wrong with the words; ``refused``: what vLLM's own parser says, where it was asked."""
    before = len(findings.found)
    for fault in setup.parsed.faults:
        findings.found.append(_unknown(setup, fault) if fault.kind == "unknown" else _fault(fault))
    _methods(setup, findings)
    fatal = any(one.severity == "high" for one in findings.found[before:])
    if refused and not fatal:
        findings.found.append(
            AuditFinding(
                rule="refused", flag=None, severity="high", symptom=_STOPS,
                measured=f"vLLM's own parser: {refused}", cause="the parser refuses the line",
                advice="correct what it names",
            )
        )  # fmt: skip
    _variables(setup, findings)


def _unknown(setup: Setup, fault: Fault) -> AuditFinding:
    written = fault.written.partition("=")[0]
    told = told_of(written)
    near = fault.flag
    if told is not None:
        advice = f"leave it out: {told}"
    elif near is not None:
        advice = f"leave it out, or write {near} if that is meant"
    else:
        advice = "leave it out"
    return AuditFinding(
        rule="unknown-flag", flag=written, severity="high", symptom="a flag that vLLM does not have",
        measured=f"none of the {len(setup.table.flags)} flags of vLLM {setup.table.vllm} has this name"
        + (f"; the nearest is {near}" if near else ""),
        cause=f"{_STOPS}: unrecognized arguments", advice=advice,
    )  # fmt: skip


def _fault(fault: Fault) -> AuditFinding:
    severity, symptom, cause, advice = _FAULTS[fault.kind]
    # What stands behind a "=" may be a secret; only a file is worth naming.
    written = fault.written if fault.kind.startswith("config") else fault.written.partition("=")[0]
    said = {
        "flag": fault.flag or "",
        "detail": fault.detail,
        "hyphens": fault.written.replace("_", "-"),
    }
    return AuditFinding(
        rule=fault.kind.replace("_", "-"),
        flag=fault.flag or fault.written,
        severity=severity,
        symptom=symptom,
        measured=f"the line has {written}"
        if fault.kind != "config_dropped"
        else f"{fault.detail} has {written}: false",
        cause=cause.format(**said),
        advice=advice.format(**said),
    )


def _methods(setup: Setup, findings: Findings) -> None:
    """``--quantization`` takes any word in the parser; the engine then knows these methods and no others."""
    method = setup.parsed.value("quantization")
    if method is None:
        return
    table, allowed = setup.table, setup.parsed.value("allow_deprecated_quantization", default=False)
    known = method in table.quantization
    if known and (method not in table.deprecated_quantization or allowed):
        return
    what = "deprecated" if known else "unknown"
    findings.found.append(
        AuditFinding(
            rule="quantization", flag="--quantization", severity="high",
            symptom=f"a quantization method that is {what}",
            measured=f"vLLM {table.vllm} has {len(table.quantization)} methods; {method!r} is {what}",
            cause=_STOPS, advice="give --allow-deprecated-quantization, or another method" if known
            else f"take one of {', '.join(table.quantization[:8])}, …, or leave it out: a checkpoint names its own",
        )
    )  # fmt: skip


def _variables(setup: Setup, findings: Findings) -> None:
    known = set(setup.table.environment)
    for name in setup.environment:
        if not name.startswith("VLLM_") or name in known:
            continue
        told = GONE_VARIABLES.get(name)
        near = nearest([f"--{one}" for one in sorted(known)], f"--{name}")
        advice = told or (f"{near.removeprefix('--')} is near" if near else "vLLM takes no notice of it")
        findings.found.append(
            AuditFinding(
                rule="unknown-variable", flag=name, severity="medium",
                symptom="a variable that vLLM does not read",
                measured=f"none of the {len(known)} variables of vLLM {setup.table.vllm} has this name",
                cause="it has no effect", advice=f"leave it out: {advice}",
            )
        )  # fmt: skip
