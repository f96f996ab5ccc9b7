"""The forms that ``kvtools check`` writes a verdict in, by the KIND of ``--report KIND=FILE``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    # The verdict's types stand in this room, which lies before the gate; kvtools.gate.verdict names them as well.
    from kvtools.report.check import Verdict


def _json(verdict: Verdict) -> str:
    return verdict.to_json()


def _text(verdict: Verdict) -> str:
    from kvtools.report.check_text import render_check  # noqa: PLC0415 - only where it is asked for

    return render_check(verdict)


def _junit(verdict: Verdict) -> str:
    from kvtools.report.gate_junit import render_junit  # noqa: PLC0415 - only where it is asked for

    return render_junit(verdict)


def _sarif(verdict: Verdict) -> str:
    from kvtools.report.gate_sarif import render_sarif  # noqa: PLC0415 - only where it is asked for

    return render_sarif(verdict)


def _github(verdict: Verdict) -> str:
    from kvtools.report.gate_pipelines import render_github  # noqa: PLC0415 - only where it is asked for

    return render_github(verdict)


def _gitlab(verdict: Verdict) -> str:
    from kvtools.report.gate_pipelines import render_gitlab  # noqa: PLC0415 - only where it is asked for

    return render_gitlab(verdict)


def _html(verdict: Verdict) -> str:
    return written(verdict, "html")


def _md(verdict: Verdict) -> str:
    from kvtools.report.gate_markdown import render_comment  # noqa: PLC0415 - only where it is asked for

    return render_comment(verdict)


KINDS: dict[str, Callable[[Verdict], str]] = {
    "github": _github,
    "gitlab": _gitlab,
    "html": _html,
    "json": _json,
    "junit": _junit,
    "md": _md,
    "sarif": _sarif,
    "text": _text,
}
"""What writes a verdict as text, by kind."""


def written(verdict: Verdict, kind: str, *, lang: str = "en", command: str | None = None) -> str:
    """Return the verdict as one of ``KINDS``; ``command`` made it, and pages for people are in ``lang``.

    Raises:
        UsageError: a language that reports are not written in.
    """
    if kind in {"html", "text"}:
        from kvtools.report.documents import rendered  # noqa: PLC0415 - only where it is asked for

        return rendered(verdict, kind, lang=lang, command=command)
    return KINDS[kind](verdict)
