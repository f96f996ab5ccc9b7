"""The verdict as SARIF 2.1.0, for GitHub's code scanning and editors.

Format: https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/sarif-v2.1.0-errata01-os-complete.html
"""

from __future__ import annotations

import re
from posixpath import normpath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from kvtools.report.gate_results import posix, results

if TYPE_CHECKING:
    from kvtools.report.check import Place, Verdict
    from kvtools.report.gate_results import Result

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
ROOT = "%SRCROOT%"
"""The base of relative paths; whoever reads the file knows the folder (3.14.14 of the standard)."""

FINGERPRINT = "kvtools/v1"
_PLACEHOLDER = re.compile(r"\{(\d+)\}")
_LINK = re.compile(r"\[([^\]]*)\]\(")
_HELP = "kvtools check --explain prints where each limit was set; docs/metrics.md defines every figure."


def render_sarif(verdict: Verdict) -> str:
    """Return the failed checks and the causes as one run with one result each."""
    found = results(verdict)
    rules = {one.rule: one for one in found}
    index = {rule: number for number, rule in enumerate(rules)}
    run = {
        "tool": {
            "driver": {
                "name": "kvtools",
                "version": verdict.kvtools_version,
                "rules": [_rule(one) for one in rules.values()],
            }
        },
        "columnKind": "unicodeCodePoints",
        "results": [_result(one, index[one.rule]) for one in found],
    }
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return msgspec.json.format(msgspec.json.encode(log), indent=2).decode() + "\n"


def _rule(one: Result) -> dict[str, Any]:
    return {
        "id": one.rule,
        "shortDescription": {"text": one.what},
        "fullDescription": {"text": one.what},
        "help": {"text": f"{one.what} {_HELP}"},
        "defaultConfiguration": {"level": one.level},
    }


def _result(one: Result, index: int) -> dict[str, Any]:
    return {
        "ruleId": one.rule,
        "ruleIndex": index,
        "level": one.level,
        "message": {"text": _literal(one.message)},
        "locations": [] if one.place is None else [{"physicalLocation": _location(one.place)}],
        "partialFingerprints": {FINGERPRINT: one.fingerprint},
    }


def _literal(message: str) -> str:
    """Return text without SARIF's own placeholders and links (3.11.5, 3.11.6): neither may come out of a log.

    Other braces and brackets stay as they are: GitHub shows doubled ones doubled.
    """
    return _LINK.sub(r"\\[\1\\](", _PLACEHOLDER.sub(r"{{\1}}", message))


def _location(place: Place) -> dict[str, Any]:
    uri, relative = uri_of(place.path)
    artifact = {"uri": uri, "uriBaseId": ROOT} if relative else {"uri": uri}
    # Without a line, the whole file is meant; GitHub wants a region all the same.
    return {"artifactLocation": artifact, "region": {"startLine": place.line or 1}}


def uri_of(path: str) -> tuple[str, bool]:
    """Return a path as a URI, and whether it is one below the root. An address such as ``s3://…`` stays absolute."""
    slashed = posix(path)
    if "://" in slashed:
        return _quoted(slashed, safe="/:?&=%"), False
    if slashed.startswith("/"):
        return f"file://{_quoted(slashed)}", False
    if slashed[1:3] == ":/":
        return f"file:///{_quoted(slashed, safe='/:')}", False
    short = normpath(slashed)
    return _quoted(short), not short.startswith("../")


def _quoted(path: str, safe: str = "/") -> str:
    try:
        # Python holds the bytes of a name that is no UTF-8 as half characters: they come out as they are on the disk.
        return quote(path, safe=safe, errors="surrogateescape")
    except UnicodeEncodeError:
        return quote(path, safe=safe, errors="surrogatepass")
