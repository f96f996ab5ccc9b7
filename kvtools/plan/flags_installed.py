"""The flags of the vLLM that is installed beside kvtools, asked in a process of its own."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import msgspec

from kvtools.errors import EngineError, MissingExtra
from kvtools.plan.flags import FlagTable

if TYPE_CHECKING:
    from collections.abc import Sequence

_WORKER = "kvtools.plan.flags_worker"


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The flags, and what vLLM's parser says against the command line (``None``: it takes it, or was not asked)."""

    table: FlagTable
    refused: str | None = None


def is_installed() -> bool:
    """Return whether vLLM can be imported here; it is not imported for that."""
    return importlib.util.find_spec("vllm") is not None


def ask_installed(program: str | None = None, argv: Sequence[str] = ()) -> Asked:
    """Return the flags of the installed vLLM; it takes as long as importing it, some 20 s of CPU time.

    ``program`` (``serve`` or ``api_server``) and ``argv``: the command line to put to its parser.

    Raises:
        MissingExtra: vLLM is not installed.
        EngineError: it is, and its parser cannot be made.
    """
    question = {} if program is None else {"program": program, "argv": list(argv)}
    command = [sys.executable, "-m", _WORKER]
    done = subprocess.run(command, input=json.dumps(question).encode(), capture_output=True, check=False)  # noqa: S603
    try:
        answer: dict[str, Any] = msgspec.json.decode(done.stdout)
    except msgspec.DecodeError:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        said = lines[-1] if lines else "it said nothing"
        raise EngineError(
            f"vLLM's parser ended early (exit {done.returncode}): {said}; audit with --flags-from table."
        ) from None
    if answer.get("kind") == "missing":
        raise MissingExtra(
            "vLLM is not installed; pip install 'kvtools[vllm]', or audit with --flags-from table."
        )
    if "failed" in answer:
        raise EngineError(f"vLLM's parser cannot be made: {answer['failed']}; audit with --flags-from table.")
    return msgspec.convert(answer, Asked)
