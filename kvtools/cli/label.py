"""``kvtools label PATH… --rules FILE -o OUT``: the class of each request by given rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kvtools.cli.options import FILE, INTAKE, only_given, with_options
from kvtools.cli.output import keep_apart

if TYPE_CHECKING:
    from pathlib import Path

LABELS = (
    click.option(
        "--rules", "rules_file", required=True, type=FILE, metavar="FILE", help="The rules.yaml to follow."
    ),
    click.option(
        "-o",
        "--output",
        "target",
        required=True,
        type=FILE,
        metavar="FILE",
        help="Where to write id, class and rule of each request: FILE.jsonl or FILE.parquet.",
    ),
)


@click.command("label")
@click.argument("paths", nargs=-1, required=True, metavar="PATH…")
@with_options(LABELS, INTAKE)
def command(paths: tuple[str, ...], rules_file: Path, target: Path, **given: Any) -> None:
    """Label each request in PATH… hot or cold by the rules that kvtools rules wrote.

    The first rule that fits decides; a rule on what the log does not say fits no request.
    """
    from kvtools.cli.progress import watched  # noqa: PLC0415 - heavy
    from kvtools.flow import LabelOptions, label  # noqa: PLC0415 - heavy

    keep_apart((*paths, str(rules_file)), {"-o": target, "--rejects": given["rejects"]})
    options = LabelOptions(rules_file=rules_file, target=target, **only_given(given))
    with watched("reading") as watcher:
        done = label(paths, options, watcher)
    hot, cold = done.count("hot"), done.count("cold")
    missing = f", {done.left_out:,} without a prompt left out" if done.left_out else ""
    missing += f", {done.rejected:,} records rejected" if done.rejected else ""
    click.echo(f"labelled {hot + cold:,} requests in {target}: {hot:,} hot, {cold:,} cold{missing}", err=True)
    for name, kind, count in done.by_rule:
        click.echo(f"  {name or 'no rule fits'} ({kind}): {count:,}", err=True)
    if done.unknown:
        names = ", ".join(done.unknown)
        click.echo(f"  not known of any request, so that rules on it fit none: {names}", err=True)
