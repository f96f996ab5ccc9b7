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
@click.option("--seed", type=int, metavar="N", help="Choose another log of the same kind.")
@click.option(
    "--cold-share", type=float, metavar="SHARE", help="mixed-traffic: cold requests (default: 0.15)."
)
def command(name: str, output: Path, seed: int | None, cold_share: float | None) -> None:
    """Write the synthetic log NAME: shop-assistant, mixed-traffic (a file) or canonical (a folder).

    shop-assistant: 5,000 requests to a Chinese e-commerce assistant, with user id, time and order id
    scattered through flat prompts. mixed-traffic: times, routes and lengths of 20,000
    requests, interactive ones mixed with bursts of reports. canonical: six requests in every format that kvtools reads.
    """
    from kvtools.flow import write_sample  # noqa: PLC0415 - heavy

    for path in write_sample(name, output, seed=seed, cold_share=cold_share):
        click.echo(f"wrote {path}", err=True)
