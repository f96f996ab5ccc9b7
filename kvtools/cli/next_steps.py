"""The commands that a page ends with, made of the one that printed it."""

from __future__ import annotations

import shlex
import sys


def next_command(paths: tuple[str, ...]) -> str | None:
    """Return the command to build the next step on; none where its input is gone or its URL may carry a secret."""
    if any(path == "-" or ("://" in path and ("@" in path or "?" in path)) for path in paths):
        return None
    return shlex.join(["kvtools", *sys.argv[1:]])


def fixing_command(paths: tuple[str, ...]) -> str | None:
    """Return the command that makes the fixes; none where this one has options that normalize has not."""
    from kvtools.cli.normalize import command as normalize  # noqa: PLC0415 - used only here

    words = [word for word in sys.argv[1:] if word not in ("analyze", "logs")]
    shared = {name for option in normalize.params for name in option.opts} - {"-o", "--output", "--format"}
    if any(word.startswith("-") and word.partition("=")[0] not in shared for word in words):
        return None
    name = f"{paths[0].rpartition('.')[0] or paths[0]}.norm.jsonl" if len(paths) == 1 else "normalized.jsonl"
    return shlex.join(["kvtools", "normalize", *words, "-o", name])
