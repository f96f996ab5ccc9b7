"""``kvtools lint-templates PATH…``: what templates do to the prefix, as a gate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kvtools.cli.gate_options import gate_output
from kvtools.cli.options import RESULT, only_given, with_options
from kvtools.cli.output import keep_apart, result_to
from kvtools.cli.values import at_least_one

if TYPE_CHECKING:
    from pathlib import Path

LINTING = (
    click.option(
        "--tokenizer",
        metavar="FILE|DIR|bytes",
        help="tokenizer.json, tekken.json, *.tiktoken, *.model or model folder (default: deepseek).",
    ),
    click.option(
        "--min-stable-tokens",
        type=at_least_one,
        metavar="N",
        help="Fail a prompt template with fewer leading stable tokens.",
    ),
    click.option(
        "--changes",
        "stated",
        multiple=True,
        metavar="NAME=HOW",
        help="How often a placeholder's value changes: never, class, history or request; repeatable.",
    ),
)


@click.command("lint-templates")
@click.argument("paths", nargs=-1, required=True, metavar="PATH…")
@with_options(LINTING, RESULT)
def command(
    paths: tuple[str, ...], output_format: str, output: Path | None, stated: tuple[str, ...], **given: Any
) -> int:
    """Find what in templates breaks the prefix: PATH is a file or a folder.

    Reads .j2, .jinja, .jinja2 and .txt files and the chat templates of tokenizer_config.json. Exits with 1 where an
    error or a warning was found. A better order is printed, never written.
    """
    from kvtools.flow import LintOptions, lint_templates  # noqa: PLC0415 - heavy
    from kvtools.report.lint_text import render_lint  # noqa: PLC0415 - heavy

    keep_apart(paths, {"-o": output})
    changes = dict(_pair(entry) for entry in stated)
    options = LintOptions(changes=changes, **only_given(given))
    with gate_output(), result_to(output, utf8=output_format == "json") as write:
        report = lint_templates(paths, options)
        write(report.to_json() if output_format == "json" else render_lint(report))
    return report.exit_code


def _pair(entry: str) -> tuple[str, Any]:
    name, _, how = entry.partition("=")
    if not name or not how:
        raise click.UsageError(f"--changes {entry}: write NAME=HOW, such as --changes plan=class.")
    return name, how
