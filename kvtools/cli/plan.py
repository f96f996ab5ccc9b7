"""``kvtools plan``: routing, sizing and configuration, answered from the log. Each verb has a file of its own."""

from __future__ import annotations

import click

from kvtools.cli.group import LazyGroup

_COMMANDS = {
    "routing": ("kvtools.cli.plan_routing", "Replay the log on several replicas, by each way to route."),
    "sizing": ("kvtools.cli.plan_sizing", "Say how much KV memory which part of the hits takes."),
    "schedule": ("kvtools.cli.plan_schedule", "Say what other scheduling policies would do with the log."),
    "audit": ("kvtools.cli.plan_audit", "Judge a vLLM command line or config by the log."),
}


@click.group("plan", cls=LazyGroup, lazy=_COMMANDS)
def command() -> None:
    """Answer from a log how to route, size and configure the fleet that serves it."""
