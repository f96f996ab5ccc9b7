"""``kvtools normalize PATH… -o OUT``: prompts with their stable text in front, nothing lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kvtools.cli.gate_options import gate_output
from kvtools.cli.options import CACHE, FILE, INTAKE, only_given, sized, with_options
from kvtools.cli.output import keep_apart, result_to
from kvtools.cli.report_files import LANG
from kvtools.cli.values import comma_list

if TYPE_CHECKING:
    from pathlib import Path

REWRITING = (
    click.option(
        "-o", "--output", type=FILE, metavar="OUT", help="Where to write the log, in its own format."
    ),
    click.option(
        "--mode",
        "modes",
        type=comma_list,
        metavar="MODE,…",
        help="hoist moves values (default), canonicalize makes one byte form, mask loses values.",
    ),
    click.option(
        "--fields",
        type=comma_list,
        metavar="NAME,…",
        help="Fields to move (default: those that pay by replay).",
    ),
    click.option(
        "--in",
        "within",
        type=click.Choice(["all", "system", "user"]),
        help="Messages to rewrite (default: all).",
    ),
    click.option(
        "--place",
        type=click.Choice(["message", "prompt-end"]),
        help="Where values go (default: message); prompt-end crosses roles.",
    ),
    click.option(
        "--forms",
        type=comma_list,
        metavar="RULE,…",
        help="Rules of canonicalize: all, RULE to add, -RULE to leave.",
    ),
    click.option(
        "--inline", is_flag=True, default=None, help="Write what restores a line into its metadata."
    ),
    click.option("--refused", type=FILE, metavar="FILE", help="List what stays, and why, in FILE."),
    click.option("--learn", type=FILE, metavar="DIR", help="Write a jinja2 template per cluster into DIR."),
    click.option("--templates", type=FILE, metavar="DIR", help="Move what the templates in DIR say."),
    click.option("--patterns", type=FILE, metavar="FILE", help="Further kinds of values, in TOML."),
)

RUN = (
    click.option("--diff", "shown", is_flag=True, help="Show the text of the first ten changes."),
    click.option("--dry-run", is_flag=True, help="Write nothing; say what would change."),
    click.option("--check", is_flag=True, help="Write nothing; exit 1 where anything would change."),
    click.option(
        "--format",
        "output_format",
        type=click.Choice(["text", "json"]),
        default="text",
        help="Form of the report.",
    ),
)


@click.command("normalize")
@click.argument("paths", nargs=-1, required=True, metavar="PATH…")
@with_options(REWRITING, RUN, (LANG,), CACHE, INTAKE)
def command(
    paths: tuple[str, ...],
    output: Path | None,
    output_format: str,
    lang: str,
    *,
    shown: bool,
    dry_run: bool,
    check: bool,
    **given: Any,
) -> None:
    """Rewrite the prompts in PATH… so that their stable text stands in front, losing nothing.

    Every rewrite is restored byte for byte before it counts; what cannot be is passed through and counted.
    """
    from kvtools.cli.progress import watched  # noqa: PLC0415 - heavy
    from kvtools.flow import NormalizeOptions, normalize  # noqa: PLC0415 - heavy
    from kvtools.report.normalize import render_normalize  # noqa: PLC0415 - heavy
    from kvtools.report.normalize_diff import Changes  # noqa: PLC0415 - heavy

    if (output is None) != (dry_run or check):
        raise click.UsageError("name OUT with -o, or ask for --dry-run or --check: one of them.")
    beside = None if output is None else output.with_name(output.name + ".kvtools")
    keep_apart(
        paths,
        {"-o": output, "OUT.kvtools": beside, "--rejects": given["rejects"], "--refused": given["refused"]},
    )
    changes = Changes() if shown else None
    options = NormalizeOptions(target=output, changed=changes, **only_given(sized(given)))
    with gate_output(), result_to(None, utf8=output_format == "json") as write:
        with watched("normalizing") as watcher:
            report = normalize(paths, options, watcher)
        if changes is not None:
            write(changes.text())
        write(report.to_json() if output_format == "json" else render_normalize(report, lang))
    if check and report.requests.changed:
        from kvtools.errors import GateFailed  # noqa: PLC0415 - used only here

        raise GateFailed(f"{report.requests.changed:,} requests would change; run normalize with -o OUT.")
