"""The command line: parse, call one verb of ``kvtools.flow``, render, exit. The one place that ends a process.

Commands are imported when they are run: ``kvtools --help`` loads nothing but click.
"""

from __future__ import annotations

import os
import sys
import traceback
from importlib import import_module

import click

from kvtools import __version__
from kvtools.errors import EXIT_BUG, EXIT_INTERRUPTED, KvtoolsError

_COMMANDS = {
    "analyze": ("kvtools.cli.analyze", "Say how well a log's prompts reuse the prefix cache."),
    "sample": ("kvtools.cli.sample", "Write a bundled synthetic log to try kvtools on."),
}


class _LazyGroup(click.Group):
    """A group that knows its commands' names and one-line helps, and imports a command only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = import_module(_COMMANDS[cmd_name][0]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, short_help) for name, (_, short_help) in _COMMANDS.items()])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="kvtools %(version)s")
@click.option("--traceback", "show_traceback", is_flag=True, help="Show where in kvtools an error arose.")
def cli(show_traceback: bool) -> None:  # noqa: FBT001 - read by main()
    """What vLLM's prefix cache reuses of a request log, and what stops it.

    Works offline: no GPU, no model weights, no network.
    """


def main() -> None:
    """Run the command line and exit: 0 done, 1 gate failed, 2 usage, 3 input, 4 engine, 70 a bug of ours."""
    try:
        code = cli(standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has seen enough; the interpreter must not complain about the closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except (KeyboardInterrupt, click.Abort):
        code = _fail("interrupted.", EXIT_INTERRUPTED)
    except click.UsageError as error:
        hint = f" See '{error.ctx.command_path} --help'." if error.ctx else ""
        code = _fail(f"{error.format_message().rstrip('.')}.{hint}", error.exit_code)
    except click.ClickException as error:
        code = _fail(error.format_message(), click.UsageError.exit_code)
    except KvtoolsError as error:
        code = _fail(str(error), error.exit_code)
    except Exception as error:  # noqa: BLE001 - the one boundary
        code = _fail(
            f"a bug of ours: {type(error).__name__}: {error}; please report it (--traceback shows where).",
            EXIT_BUG,
        )
    sys.exit(code if isinstance(code, int) else 0)


def _fail(sentence: str, code: int) -> int:
    if "--traceback" in sys.argv[1:2]:
        traceback.print_exc()
    click.echo(f"kvtools: {sentence}", err=True)
    return code
