"""``--report KIND=FILE`` and the forms in which a report is written."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvtools.cli.next_steps import next_command
from kvtools.cli.options import FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kvtools.report.documents import Document

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


FORM = click.option(
    "--format", "output_format", type=click.Choice(sorted(KINDS)), default="text", help="Form of the result."
)
FORMS = (FORM, click.option("-o", "--output", type=FILE, metavar="FILE", help="Write the result to FILE."))
LANG = click.option(
    "--lang",
    type=click.Choice(["en", "zh"]),
    default="en",
    help="Language of what people read; JSON has one.",
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
    LANG,
)


def kind_by_ending(output: Path | None) -> str:
    """Return the form that a file's ending asks for, ``text`` for every other."""
    endings = {".html": "html", ".htm": "html", ".md": "md", ".json": "json"}
    return endings.get(output.suffix.lower(), "text") if output else "text"


def made_by(paths: tuple[str, ...]) -> str | None:
    """Return the command that makes this report again; none where its input is gone or it may carry a secret."""
    words = sys.argv[1:]
    if any(
        word.startswith("--api-key") or ("://" in word and ("@" in word or "?" in word)) for word in words
    ):
        return None
    return next_command(paths)


def named_apart(reports: Sequence[tuple[str, Path]]) -> Mapping[str, Path]:
    """Return the files of ``--report`` by what they are called in an error."""
    return {f"--report {kind} {number}": path for number, (kind, path) in enumerate(reports, 1)}


def rendered(
    report: Document, kind: str, *, lang: str = "en", command: str | None = None, everything: bool = False
) -> str:
    """Return a report in one of the ``KINDS``."""
    from kvtools.report import documents  # noqa: PLC0415 - heavy

    return documents.rendered(report, kind, lang=lang, command=command, everything=everything)


def write_reports(
    report: Document,
    reports: Sequence[tuple[str, Path]],
    *,
    lang: str = "en",
    command: str | None = None,
    everything: bool = False,
) -> None:
    """Write each further report whole, and say on standard error where it is."""
    from kvtools.report.files import replacing  # noqa: PLC0415 - heavy

    for kind, path in reports:
        with replacing(path) as file:
            file.write(rendered(report, kind, lang=lang, command=command, everything=everything))
        click.echo(f"{kind} report: {path}", err=True)
