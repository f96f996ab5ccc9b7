"""Every error a user can meet, with the exit code it ends in.

::

    KvtoolsError                 (never raised itself)
    ├── UsageError          2    the command line or an argument is wrong
    ├── InputError          3    the input cannot be read, or is too little to judge
    │   ├── RejectedInput   3    --strict, and at least one record was rejected
    │   ├── ChangedInput    3    a file is not what it was when it was read first
    │   └── TemplateError   3    a chat template is missing, broken or refuses its input
    ├── GateFailed          1    what was checked does not hold
    └── EngineError         4    an engine or an optional package is missing, or it failed
        └── MissingExtra    4    names the pip command that installs what is missing

Exit 0 is done, 1 is a failed gate and nothing else, 70 is a bug of ours, 130 is Ctrl-C.
A message is one sentence: what, where (``path:line``), what to do.
"""

from __future__ import annotations

from typing import ClassVar

EXIT_DONE = 0
EXIT_GATE_FAILED = 1
EXIT_BUG = 70
EXIT_INTERRUPTED = 130


class KvtoolsError(Exception):
    """Base of all errors that end a command with one clear sentence."""

    exit_code: ClassVar[int] = EXIT_BUG


class UsageError(KvtoolsError):
    """The call itself is wrong: an unknown name, a value out of range, options that exclude each other."""

    exit_code: ClassVar[int] = 2


class InputError(KvtoolsError):
    """The input is missing, unreadable, of an unknown format, or holds too little to judge."""

    exit_code: ClassVar[int] = 3


class ChangedInput(InputError):  # noqa: N818 - names what happened
    """A file changed between two passes over it."""


class RejectedInput(InputError):  # noqa: N818 - names what happened
    """At least one record was rejected and the caller asked for ``strict``."""


class TemplateError(InputError):
    """A chat template is missing, does not parse, or raised an error of its own."""


class GateFailed(KvtoolsError):  # noqa: N818 - names what happened
    """A check that was asked for failed; nothing else ends with 1."""

    exit_code: ClassVar[int] = EXIT_GATE_FAILED


class EngineError(KvtoolsError):
    """An engine is missing, unreachable, or failed while replaying."""

    exit_code: ClassVar[int] = 4


class MissingExtra(EngineError):  # noqa: N818 - names what happened
    """An optional package is not installed; the message names the pip command."""
