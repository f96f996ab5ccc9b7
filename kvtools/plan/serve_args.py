"""A command line that starts vLLM, as people write it down: what runs, its arguments, the variables set for it.

Known forms: ``vllm serve …``, ``python -m vllm.entrypoints.openai.api_server …``, ``docker run … IMAGE …`` (also
podman and nerdctl) whose image starts the server, ``sh -c "vllm serve …"``, and flags alone. Assignments, ``env``,
``export`` and other commands may stand in front; what follows a ``;``, a pipe or a redirection belongs to others.
Nothing is run and no variable is replaced.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from kvtools.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

Program: TypeAlias = Literal["serve", "api_server"]

_API_SERVER = "vllm.entrypoints.openai.api_server"
_CONTAINERS = frozenset({"docker", "podman", "nerdctl"})
_SHELLS = frozenset({"sh", "bash", "zsh", "dash"})
_OPERATOR = re.compile(r"[;&|<>]+")
_ASSIGNED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_SERVER_IMAGE = re.compile(r"(^|/)vllm[^/]*$")

_ALONE = frozenset(
    {
        "-d", "-i", "-t", "-it", "-ti", "-dit", "-itd", "-P", "--detach", "--init", "--interactive", "--privileged",
        "--publish-all", "--read-only", "--rm", "--tty", "--no-healthcheck", "--oom-kill-disable", "--sig-proxy",
        "--quiet", "-q",
    }
)  # fmt: skip
"""Options of ``docker run`` that take no word after them; all others do, unless they hold a ``=``."""


@dataclass(frozen=True, slots=True)
class ServeLine:
    """``argv``: the arguments behind the program; ``environment``: what is set for it on the line."""

    program: Program
    argv: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)


def read_line(text: str) -> ServeLine:
    """Return the one vLLM server that a command line starts.

    Raises:
        UsageError: a quote is not closed, it starts no vLLM server, or several.
    """
    commands = _commands(text)
    found = []
    exported: dict[str, str] = {}
    for words in commands:
        line = _server(words)
        if line is not None:
            found.append(replace(line, environment=exported | line.environment))
        elif all(_ASSIGNED.fullmatch(word) for word in words[words[:1] == ["export"] :]):
            exported |= _assigned(words)
    if len(found) > 1:
        raise UsageError(f"--serve-args starts {len(found)} vLLM servers: give one command line at a time.")
    if found:
        return found[0]
    if len(commands) == 1 and commands[0][0].startswith("-"):
        return ServeLine("api_server", tuple(commands[0]))
    raise UsageError(
        f"--serve-args {_shortened(text)}: starts no vLLM server; give vllm serve MODEL …, or its flags alone."
    )


def _commands(text: str) -> list[list[str]]:
    """Return the words of each command; redirections and what is behind them are left out."""
    lexer = shlex.shlex(_one_line(text), posix=True, punctuation_chars=";&|<>")
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError as error:
        raise UsageError(f"--serve-args {_shortened(text)}: {error}; close the quote.") from None
    commands: list[list[str]] = [[]]
    redirected = False
    for word in words:
        if _OPERATOR.fullmatch(word):
            redirected = "<" in word or ">" in word
            if redirected and commands[-1][-1:] in (["1"], ["2"]):
                commands[-1].pop()  # the stream that is redirected
            if not redirected:
                commands.append([])
        elif redirected:
            redirected = False
        else:
            commands[-1].append(word)
    return [command for command in commands if command]


def _one_line(text: str) -> str:
    """Drop comment lines, join continued lines, and end a command at each other line feed outside quotes."""
    joined = re.sub(r"\\\r?\n", " ", re.sub(r"(?m)^\s*#.*$", "", text))
    quote, parts = "", []
    for place, letter in enumerate(joined):
        if letter in {"'", '"'} and (not quote or letter == quote) and joined[place - 1 : place] != "\\":
            quote = "" if quote else letter
        parts.append(" ; " if letter == "\n" and not quote else letter)
    return "".join(parts)


def _server(words: Sequence[str]) -> ServeLine | None:
    """Return the server that one command starts, ``None`` where it starts none."""
    for place, word in enumerate(words):
        name = word.rsplit("/", 1)[-1]
        rest = words[place + 1 :]
        before = _assigned(words[:place])
        if name == "vllm" and rest[:1] == ["serve"]:
            return ServeLine("serve", tuple(rest[1:]), before)
        if name == _API_SERVER or word.endswith("vllm/entrypoints/openai/api_server.py"):
            return ServeLine("api_server", tuple(rest), before)
        if name in _CONTAINERS and "run" in rest:
            inner = _in_container(rest[rest.index("run") + 1 :])
            return None if inner is None else replace(inner, environment=before | inner.environment)
        if name in _SHELLS and "-c" in rest[:-1]:
            inner = _only(_commands(rest[rest.index("-c") + 1]))
            return None if inner is None else replace(inner, environment=before | inner.environment)
    return None


def _only(commands: list[list[str]]) -> ServeLine | None:
    return next((line for line in map(_server, commands) if line is not None), None)


def _in_container(words: Sequence[str]) -> ServeLine | None:
    """Return the server of a container: the options of ``run``, the image, the arguments of what it starts."""
    given: dict[str, str] = {}
    entrypoint = ""
    place = 0
    while place < len(words) and words[place].startswith("-"):
        option, equals, value = words[place].partition("=")
        if not equals and option not in _ALONE:
            place += 1
            value = words[place] if place < len(words) else ""
        if option in {"-e", "--env"}:
            given |= _assigned([value])
        if option == "--entrypoint":
            entrypoint = value
        place += 1
    image, rest = words[place : place + 1], list(words[place + 1 :])
    inner = _server([entrypoint, *rest] if entrypoint else rest)
    if inner is not None:
        return replace(inner, environment=given | inner.environment)
    name = image[0].partition("@")[0].partition(":")[0] if image else ""
    if entrypoint or not _SERVER_IMAGE.search(name):
        return None
    return ServeLine("serve", tuple(rest), given)


def _assigned(words: Sequence[str]) -> dict[str, str]:
    pairs = (_ASSIGNED.fullmatch(word) for word in words)
    return {pair[1]: pair[2] for pair in pairs if pair is not None}


def _shortened(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 40 else f"{flat[:40]}…"
