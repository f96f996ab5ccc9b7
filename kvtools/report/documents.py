"""Every report that a command writes as JSON: read back by what it holds, and written in each form for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from kvtools.errors import InputError
from kvtools.report.check import Verdict
from kvtools.report.model import SCHEMA_VERSION, Report
from kvtools.report.replay import ReplayReport
from kvtools.report.warmup import WarmupReport

if TYPE_CHECKING:
    from collections.abc import Callable

Document: TypeAlias = Report | ReplayReport | WarmupReport | Verdict
"""What ``analyze logs``, ``replay``, ``warmup`` and ``check`` write."""

_RUNS: dict[str, type[ReplayReport | WarmupReport]] = {"replays": ReplayReport, "evaluation": WarmupReport}
"""Reports by a name that only they have at the top of their JSON."""


def read_document(data: bytes | str) -> Document:
    """Return the report that JSON holds, of whatever command.

    Raises:
        InputError: it is none of them, or one of another schema version.
    """
    try:
        names: Any = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InputError(f"not a kvtools report ({error}); write one with --format json.") from None
    if "checks" in names:
        return Verdict.from_json(data)
    if "causes_gone" in names:
        raise InputError("two reports compared; give the two to kvtools compare, which writes all forms.")
    kind = next((kind for name, kind in _RUNS.items() if name in names), None)
    if kind is None:
        return Report.from_json(data)
    version = names.get("schema_version", b"null")
    if bytes(version) != str(SCHEMA_VERSION).encode():
        raise InputError(
            f"the report has schema version {bytes(version)[:20].decode(errors='replace')}, "
            f"this kvtools reads {SCHEMA_VERSION}."
        )
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InputError(f"not a kvtools report ({error}); write one with --format json.") from None


def rendered(
    document: Document, kind: str, *, lang: str = "en", command: str | None = None, everything: bool = False
) -> str:
    """Return a report as ``json``, ``md``, ``html`` or ``text``, for people in ``lang``; ``command`` made it.

    ``everything`` lists the findings of a log that cost next to nothing as well.

    Raises:
        UsageError: a language that reports are not written in.
    """
    if kind == "json":
        return document.to_json()
    if isinstance(document, Report):
        return _log(document, kind, lang, command, everything=everything)
    forms: dict[str, Callable[[Any, str, str | None], str]] = {"html": _html, "md": _md, "text": _text}
    return forms[kind](document, lang, command)


def _log(report: Report, kind: str, lang: str, command: str | None, *, everything: bool) -> str:
    if kind == "md":
        from kvtools.report.markdown import render_markdown  # noqa: PLC0415 - heavy

        return render_markdown(report)
    if kind == "html":
        from kvtools.report.html import render_html  # noqa: PLC0415 - heavy

        return render_html(report, lang=lang, command=command, everything=everything)
    from kvtools.report.text import render_text  # noqa: PLC0415 - heavy

    return render_text(report, everything=everything, lang=lang)


def _html(document: ReplayReport | WarmupReport | Verdict, lang: str, command: str | None) -> str:
    from kvtools.report import html  # noqa: PLC0415 - heavy

    if isinstance(document, ReplayReport):
        return html.render_replay_html(document, lang=lang, command=command)
    if isinstance(document, WarmupReport):
        return html.render_warmup_html(document, lang=lang, command=command)
    return html.render_check_html(document, lang=lang, command=command)


def _md(document: ReplayReport | WarmupReport | Verdict, _lang: str, _command: str | None) -> str:
    if isinstance(document, Verdict):
        from kvtools.report.gate_markdown import render_comment  # noqa: PLC0415 - heavy

        return render_comment(document)
    from kvtools.report.markdown_runs import replay_markdown, warmup_markdown  # noqa: PLC0415 - heavy

    return replay_markdown(document) if isinstance(document, ReplayReport) else warmup_markdown(document)


def _text(document: ReplayReport | WarmupReport | Verdict, lang: str, _command: str | None) -> str:
    if isinstance(document, ReplayReport):
        from kvtools.report.replay_text import render_replay  # noqa: PLC0415 - heavy

        return render_replay(document, lang=lang)
    if isinstance(document, WarmupReport):
        from kvtools.report.warmup_text import render_warmup  # noqa: PLC0415 - heavy

        return render_warmup(document, lang=lang)
    from kvtools.report.check_text import render_check  # noqa: PLC0415 - heavy

    return render_check(document, lang=lang)
