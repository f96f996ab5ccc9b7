"""``kvtools sample``: a bundled synthetic log to try kvtools on."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("sample")
@click.argument("name", metavar="NAME")
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="FILE|DIR",
    type=click.Path(path_type=Path),
    help="Where to write it.",
)
def command(name: str, output: Path) -> None:
    """Write the synthetic log NAME: shop-assistant (a file) or canonical (a folder).

    shop-assistant: 5,000 requests to a Chinese e-commerce assistant, with user id, time and order id
    scattered through flat prompts. canonical: six requests in every format that kvtools reads.
    """
    from kvtools.flow import write_sample  # noqa: PLC0415 - heavy

    for path in write_sample(name, output):
        click.echo(f"wrote {path}", err=True)
