"""The options of the gate: limits, where templates and values are, and in which forms the verdict is written."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvtools.cli.options import FILE, only_given, sized

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kvtools.flow.check import CheckOptions

_LIMITS = {
    "min-hit-rate": (float, "SHARE", "Least hit rate, 0..1."),
    "max-drop": (float, "SHARE", "Most that the hit rate may be below the baseline's; 0.02 is two points."),
    "max-tokens-lost": (int, "TOKENS", "Most prompt tokens that all causes together may cost."),
    "min-stable-prefix": (
        int,
        "TOKENS",
        "Least tokens that all requests of a template (or route) begin with.",
    ),
    "max-variable-share": (float, "SHARE", "Largest share of text that varies, 0..1."),
    "min-jaccard": (float, "INDEX", "Least Jaccard of consecutive requests' text, 0..1."),
    "min-prefix-jaccard": (float, "INDEX", "Least Jaccard of consecutive requests' prefixes, 0..1."),
    "max-cold-share": (float, "SHARE", "Largest share of cold requests, 0..1."),
}
_NEEDED = {
    "min-requests": (int, "N", "With fewer requests there is too little to judge: exit 3 (default: 30)."),
    "min-coverage": (float, "SHARE", "With less of the log readable as prompts: exit 3 (default: 0.5)."),
}


def _limits(held: dict[str, tuple[type, str, str]]) -> tuple[Any, ...]:
    return tuple(
        click.option(f"--{name}", type=kind, metavar=unit, help=said)
        for name, (kind, unit, said) in held.items()
    )


LIMITS = _limits(_LIMITS)
NEEDED = _limits(_NEEDED)
JUDGED = (
    click.option("--templates", type=FILE, metavar="DIR", help="Judge the templates in DIR instead of a log."),
    click.option("--values", type=FILE, metavar="FILE", help="Recorded values to render the templates with."),
    click.option("--config", type=FILE, metavar="FILE", help="Limits (default: kvtools.toml, pyproject.toml here)."),
    click.option("--measure-from", type=float, metavar="SHARE", help="Count what follows this share of the log."),
    click.option("--patterns", type=FILE, metavar="FILE", help="Further kinds of values, in TOML."),
)  # fmt: skip


def verdict_kinds() -> Iterable[str]:
    """Return the kinds that a verdict can be written in."""
    from kvtools.report.gate_formats import KINDS  # noqa: PLC0415 - used only here

    return KINDS


def check_options(given: dict[str, Any]) -> tuple[CheckOptions, Path | None]:
    """Return the options of ``check``, and the configuration that they and a file make (its path, if any)."""
    from kvtools.flow.analyze import AnalyzeOptions  # noqa: PLC0415 - heavy
    from kvtools.flow.check import CheckOptions, configured  # noqa: PLC0415 - heavy

    limits = {name: given.pop(name.replace("-", "_"), None) for name in (*_LIMITS, *_NEEDED)}
    places = {name: given.pop(name, None) for name in ("baseline", "templates", "values")}
    config = given.pop("config")
    options = CheckOptions(analysis=AnalyzeOptions(**only_given(sized(given))), **places)
    options, found = configured(only_given(limits), options, config, Path())
    return options, found.file


@contextmanager
def gate_output() -> Iterator[None]:
    """Let a failed gate fail though nobody reads on: its exit code is the result, not its page."""
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
