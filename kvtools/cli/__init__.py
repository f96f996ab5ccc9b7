"""The command line: parse, call one verb of ``kvtools.flow``, render, exit. The one place that ends a process.

Commands are imported when they are run: ``kvtools --help`` loads nothing but click.
"""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import suppress
from pathlib import Path

import click

from kvtools import __version__
from kvtools.cli.group import LazyGroup, OutputClosed, closed_output_told
from kvtools.errors import EXIT_BUG, EXIT_DONE, EXIT_INTERRUPTED, InputError, KvtoolsError

_COMMANDS = {
    "analyze": ("kvtools.cli.analyze", "Say how well a log's prompts reuse the prefix cache."),
    "explain": ("kvtools.cli.explain", "Show where a request parts from the nearest earlier one."),
    "diff": ("kvtools.cli.diff", "Compare two requests of a log, or two logs."),
    "normalize": ("kvtools.cli.normalize", "Rewrite prompts: stable text in front, nothing lost."),
    "restore": ("kvtools.cli.restore", "Write the log back that normalize read."),
    "replay": ("kvtools.cli.replay", "Replay a log through the simulator, vLLM or a server."),
    "plan": ("kvtools.cli.plan", "Route, size and configure the fleet, answered from a log."),
    "warmup": ("kvtools.cli.warmup", "Choose the prefixes to compute beforehand, and send them."),
    "lint-templates": ("kvtools.cli.lint", "Find what in prompt and chat templates breaks the prefix."),
    "check": ("kvtools.cli.check", "Fail when a log or templates break their limits: the CI gate."),
    "baseline": ("kvtools.cli.baseline", "Write what later checks are compared with."),
    "report": ("kvtools.cli.report", "Show a stored report as an HTML page, Markdown or text."),
    "compare": ("kvtools.cli.compare", "Set two stored reports side by side."),
    "rules": ("kvtools.cli.rules", "Write the line between hot and cold as rules for nginx and vLLM."),
    "label": ("kvtools.cli.label", "Label each request of a log hot or cold by such rules."),
    "export": ("kvtools.cli.export", "Write alerts, a dashboard and metrics for the servers of a log."),
    "lint-queries": ("kvtools.cli.lint_queries", "Find dashboard and alert queries that show no hit rate."),
    "watch": ("kvtools.cli.watch", "Follow a growing log or a server: hit rate, line by line."),
    "convert": ("kvtools.cli.convert", "Write a log in another format, with or without its text."),
    "formats": ("kvtools.cli.formats", "List the log formats, each with an example line."),
    "doctor": ("kvtools.cli.doctor", "Say what this installation can do."),
    "sample": ("kvtools.cli.sample", "Write a bundled synthetic log to try kvtools on."),
}


@click.group(cls=LazyGroup, lazy=_COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="kvtools %(version)s")
@click.option("--traceback", "show_traceback", is_flag=True, help="Show where in kvtools an error arose.")
def cli(show_traceback: bool) -> None:  # noqa: FBT001 - read by main()
    """What vLLM's prefix cache reuses of a request log, and what stops it.

    Works offline: no GPU, no model weights, no network.
    """


def main() -> None:
    """Run the command line and exit: 0 done, 1 gate failed, 2 usage, 3 input, 4 engine, 70 a bug of ours."""
    # Arrow's own allocator keeps what it frees: 30 MB more at the peak, and no faster here.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # started with it closed
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - as long as the process
    code = _exit_code()
    try:
        sys.stdout.flush()
    except OSError:
        # What could not be written has been told, or nobody reads it: the interpreter must not try again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def _exit_code() -> int:  # noqa: PLR0911 - a line per kind of end
    try:
        return _run()
    except OutputClosed:
        return EXIT_DONE
    except (KeyboardInterrupt, click.Abort):
        return _fail("interrupted.", EXIT_INTERRUPTED)
    except click.UsageError as error:
        return _fail(_usage_sentence(error), error.exit_code)
    except click.ClickException as error:
        return _fail(error.format_message(), click.UsageError.exit_code)
    except KvtoolsError as error:
        return _fail(str(error), error.exit_code)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"{where}{error.strerror or error}; check the path and the disk.", InputError.exit_code)
    except Exception as error:  # noqa: BLE001 - the one boundary
        return _fail(
            f"a bug of ours: {type(error).__name__}: {error}; please report it (--traceback shows where).",
            EXIT_BUG,
        )


def _run() -> int:
    value = cli(prog_name="kvtools", standalone_mode=False)
    with closed_output_told():
        sys.stdout.flush()
    return value if isinstance(value, int) else EXIT_DONE


def _usage_sentence(error: click.UsageError) -> str:
    hint = f" See '{error.ctx.command_path} --help'." if error.ctx else ""
    if type(error).__name__ == "NoArgsIsHelpError":
        # Newer versions of click make the whole help page the message.
        return f"a command or a path is missing.{hint}"
    return f"{error.format_message().rstrip('.')}.{hint}"


def _fail(sentence: str, code: int) -> int:
    # Nobody may be left to read it.
    with suppress(BrokenPipeError):
        if "--traceback" in sys.argv[1:2]:
            traceback.print_exc()
        click.echo(f"kvtools: {sentence}", err=True)
    return code
