"""``kvtools doctor``: what this installation can do, and what it would take to do the rest."""

from __future__ import annotations

import click


@click.command("doctor")
def command() -> None:
    """Say what this installation can do, and what it would take to do the rest."""
    from kvtools.flow import doctor  # noqa: PLC0415 - heavy

    for ability in doctor():
        have = f"{ability.package} {ability.version}" if ability.version else f"missing: {ability.install}"
        click.echo(f"{'yes' if ability.version else 'no ':<4} {ability.what:<36} {have}")
