"""The verdict as annotations of GitHub's pull requests, and as GitLab's code quality report."""

from __future__ import annotations

from posixpath import normpath
from typing import TYPE_CHECKING, Any

import msgspec

from kvtools.report.explain_text import printable
from kvtools.report.gate_results import posix, results

if TYPE_CHECKING:
    from kvtools.report.check import Level, Place, Verdict

_COMMANDS: dict[Level, str] = {"error": "error", "warning": "warning", "note": "notice"}
_SEVERITIES: dict[Level, str] = {"error": "major", "warning": "minor", "note": "info"}


def render_github(verdict: Verdict) -> str:
    """Return a workflow command per result, the gravest first: GitHub shows ten of a kind for each step.

    Format: https://docs.github.com/en/actions/reference/workflow-commands-for-github-actions
    """
    lines = []
    for one in results(verdict):
        given = {} if one.place is None else {"file": _path(one.place)}
        if one.place is not None and one.place.line is not None:
            given["line"] = str(one.place.line)
        given["title"] = one.title
        properties = ",".join(f"{name}={property_text(value)}" for name, value in given.items())
        lines.append(f"::{_COMMANDS[one.level]} {properties}::{data_text(one.message)}\n")
    return "".join(lines)


def data_text(text: str) -> str:
    """Return text for behind the ``::`` of a workflow command, as the runner takes it back."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def property_text(text: str) -> str:
    """Return text for the value of a property of a workflow command, as the runner takes it back."""
    return data_text(text).replace(":", "%3A").replace(",", "%2C")


def render_gitlab(verdict: Verdict) -> str:
    """Return a JSON list with an entry per result; one without a file stands at ``-``, as GitLab wants a path.

    Format: https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format
    """
    entries: list[dict[str, Any]] = [
        {
            "description": one.message,
            "check_name": one.rule,
            "fingerprint": one.fingerprint,
            "severity": _SEVERITIES[one.level],
            "location": {
                "path": "-" if one.place is None else _path(one.place),
                "lines": {"begin": 1 if one.place is None else one.place.line or 1},
            },
        }
        for one in results(verdict)
    ]
    return msgspec.json.format(msgspec.json.encode(entries), indent=2).decode() + "\n"


def _path(place: Place) -> str:
    path = posix(place.path)
    return printable(path if "://" in path else normpath(path))
