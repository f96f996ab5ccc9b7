"""The group of all commands: imports a command only to run it, and knows when nobody reads on."""

from __future__ import annotations

from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class OutputClosed(Exception):  # noqa: N818 - names what happened
    """Whoever read our output has seen enough. No ``OSError``: click would end the process with 1 for that."""


@contextmanager
def closed_output_told() -> Iterator[None]:
    """Turn a closed pipe into ``OutputClosed``."""
    try:
        yield
    except BrokenPipeError:
        raise OutputClosed from None


class LazyGroup(click.Group):
    """Commands by name, each with its module and its one-line help."""

    def __init__(self, *args: Any, lazy: Mapping[str, tuple[str, str]], **attrs: Any) -> None:
        super().__init__(*args, **attrs)
        self._lazy = lazy

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Parse; ``--help`` prints here."""
        with closed_output_told():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with closed_output_told():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names in their order."""
        return list(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the command."""
        if cmd_name not in self._lazy:
            return None
        command: click.Command = import_module(self._lazy[cmd_name][0]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write names and helps without importing anything."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, short_help) for name, (_, short_help) in self._lazy.items()])
