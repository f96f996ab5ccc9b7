"""The result of a command: to standard output, or whole to a file."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvtools.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


@contextmanager
def result_to(output: Path | None, *, utf8: bool = False) -> Iterator[Callable[[str], object]]:
    """Yield what prints the result (with ``utf8`` whatever the locale), or writes it to ``output``, whole.

    The file is opened before the work begins, so that a place that cannot be written is told at once.
    """
    if output is None:
        yield partial(_print, utf8=utf8)
        return
    from kvtools.report.files import replacing  # noqa: PLC0415 - heavy

    with replacing(output) as file:
        yield file.write


def _print(text: str, *, utf8: bool) -> None:
    # A terminal that lacks a character shows a question mark; a reader of JSON needs every one of them.
    encoding = sys.stdout.encoding or "utf-8"
    try:
        click.echo(text.encode() if utf8 else text.encode(encoding, "replace").decode(encoding), nl=False)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(f"standard output: cannot be written ({error.strerror}); use -o FILE.") from None


def styled(output: Path | None) -> bool:
    """Return whether the result may carry colour and weight: on a terminal, unless NO_COLOR or TERM=dumb forbid it."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return output is None and sys.stdout.isatty() and not plain


def keep_apart(paths: Sequence[str], outputs: Mapping[str, Path | None]) -> None:
    """Raise a usage error where an output (by option) would overwrite an input or another output."""
    taken = {Path(path).resolve(): f"the input {path}" for path in paths if Path(path).is_file()}
    for option, path in outputs.items():
        if path is None or (path.exists() and not path.is_file()):
            continue
        place = path.resolve()
        if place in taken:
            raise click.UsageError(f"{option} {path} would overwrite {taken[place]}; name another file.")
        taken[place] = f"what {option} writes"
