"""``kvtools convert IN… -o OUT --to FORMAT``: a log in another format, with or without its text."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import click

from kvtools.cli.options import FILE, INTAKE, only_given, with_options
from kvtools.cli.output import keep_apart
from kvtools.cli.values import at_least_one

if TYPE_CHECKING:
    from pathlib import Path

CONVERSION = (
    click.option("-o", "--output", required=True, type=FILE, metavar="FILE", help="Where to write the log."),
    click.option(
        "--to",
        required=True,
        metavar="FORMAT",
        help="Format to write (kvtools formats: those with *).",
    ),
    click.option(
        "--block-size", type=at_least_one, metavar="TOKENS", help="Tokens of a block of --to mooncake."
    ),
    click.option("--anonymize", is_flag=True, help="Leave the text out and hash ids, users and routes."),
    click.option(
        "--key", metavar="TEXT", envvar="KVTOOLS_KEY", help="Key of the hashes (default: a random one)."
    ),
)


@click.command("convert")
@click.argument("paths", nargs=-1, required=True, metavar="PATH…")
@with_options(CONVERSION, INTAKE)
def command(paths: tuple[str, ...], output: Path, *, anonymize: bool, key: str | None, **given: Any) -> None:
    """Write the requests in PATH… as another format.

    With --anonymize the result holds times, lengths and block ids only, and still replays to the same hits.
    The same --key gives the same hashes, so that two exports can be joined; without it nobody can link them.
    """
    from kvtools.cli.progress import watched  # noqa: PLC0415 - heavy
    from kvtools.flow import ConvertOptions, convert  # noqa: PLC0415 - heavy

    if key is not None and not anonymize:
        raise click.UsageError("--key is for --anonymize: give both, or neither.")
    keep_apart(paths, {"-o": output, "--rejects": given["rejects"]})
    secret = (key.encode() if key else secrets.token_bytes(32)) if anonymize else None
    options = ConvertOptions(target=output, key=secret, **only_given(given))
    with watched("converting") as watcher:
        done = convert(paths, options, watcher)
    counts = done.counts
    click.echo(
        f"wrote {done.requests:,} requests to {output} ({counts.records:,} records read, "
        f"{counts.rejected.total():,} rejected, {counts.duplicates:,} duplicates)",
        err=True,
    )
    if done.lost_columns:
        click.echo(f"  this format has no place for: {', '.join(done.lost_columns)}", err=True)
