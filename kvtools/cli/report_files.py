"""``--report KIND=FILE`` and the forms in which a report is written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvtools.cli.options import FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kvtools.report.model import Report

KINDS = ("html", "json", "md", "text")


class KindAndFile(click.ParamType[tuple[str, Path]]):
    """``KIND=FILE``; ``kinds`` are asked for when one is given, since some are heavy to import."""

    name = "KIND=FILE"

    def __init__(self, kinds: Callable[[], Iterable[str]]) -> None:
        self._kinds = kinds

    def convert(
        self, value: str | tuple[str, Path], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, Path]:
        """Return kind and path."""
        if isinstance(value, tuple):
            return value
        kinds = sorted(self._kinds())
        kind, equals, path = value.partition("=")
        if kind not in kinds or not equals or not path:
            self.fail(f"{value!r}: write KIND=FILE with a KIND of {', '.join(kinds)}.", param, ctx)
        return kind, Path(path)


FORMS = (
    click.option(
        "--format",
        "output_format",
        type=click.Choice(sorted(KINDS)),
        default="text",
        help="Form of the result.",
    ),
    click.option("-o", "--output", type=FILE, metavar="FILE", help="Write the result to FILE."),
)
REPORTS = (
    click.option(
        "--report",
        "reports",
        type=KindAndFile(lambda: KINDS),
        multiple=True,
        metavar="KIND=FILE",
        help=f"Write the report also as KIND ({', '.join(KINDS)}); repeatable.",
    ),
    click.option("--lang", type=click.Choice(["en", "zh"]), default="en", help="Language of the HTML page."),
)


def rendered(
    report: Report, kind: str, *, lang: str = "en", command: str | None = None, everything: bool = False
) -> str:
    """Return a report in one of the ``KINDS``."""
    if kind == "json":
        return report.to_json()
    if kind == "md":
        from kvtools.report.markdown import render_markdown  # noqa: PLC0415 - heavy

        return render_markdown(report)
    if kind == "html":
        from kvtools.report.html import render_html  # noqa: PLC0415 - heavy

        return render_html(report, lang=lang, command=command, everything=everything)
    from kvtools.report.text import render_text  # noqa: PLC0415 - heavy

    return render_text(report, everything=everything)


def write_reports(
    report: Report, reports: Sequence[tuple[str, Path]], *, lang: str = "en", command: str | None = None
) -> None:
    """Write each further report whole, and say on standard error where it is."""
    from kvtools.report.files import replacing  # noqa: PLC0415 - heavy

    for kind, path in reports:
        with replacing(path) as file:
            file.write(rendered(report, kind, lang=lang, command=command))
        click.echo(f"{kind} report: {path}", err=True)
