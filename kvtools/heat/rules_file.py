"""Rules as a YAML file: written for people to read and change, read as if a stranger had written it.

The file is plain data (YAML's safe subset): no tags, no anchors, no repeated keys, at most 1 MiB.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import yaml

from kvtools.errors import InputError
from kvtools.heat.rules import Label, Rule, RuleSet

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike

VERSION = 1
MAX_BYTES = 1 << 20

_STEP = re.compile(r"\.(\w+)|\[(\d+)\]")


class _File(msgspec.Struct, forbid_unknown_fields=True):
    kvtools_rules: int
    default: Label
    rules: tuple[Rule, ...] = ()


class _Refused(yaml.MarkedYAMLError):
    """YAML that is well formed, but not plain data."""


class _Loader(yaml.SafeLoader):
    """The safe loader without what can hide a value, or make a small file a large one."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.get_event().start_mark  # type: ignore[no-untyped-call]
            raise _Refused(problem="anchors and aliases are not read", problem_mark=mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag != "tag:yaml.org,2002:str":
                raise _Refused(problem="a key is not a plain name", problem_mark=key.start_mark)
            if key.value in seen:
                raise _Refused(problem=f"{key.value[:40]!r} is given twice", problem_mark=key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


def rules_yaml(rules: RuleSet, notes: Sequence[str] = ()) -> str:
    """Return the rules as YAML, ``notes`` as comments on top; ``read_rules`` gives back an equal rule set."""
    plain = msgspec.to_builtins(_File(VERSION, rules.default, rules.rules))
    head = "".join(f"# {line}\n" for note in notes for line in note.splitlines() or [""])
    return head + yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=100)


def read_rules(path: str | PathLike[str]) -> RuleSet:
    """Return the rules of a file.

    Raises:
        InputError: the file is missing, too large, no plain YAML, of another version, or has a rule that is none;
            the sentence names path and line.
    """
    text = _text(path)
    try:
        root, plain = _parsed(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{path}:{mark.line + 1}" if mark else str(path)
        raise InputError(f"{place}: not plain YAML ({error.problem}); {_FIX}") from None
    except (yaml.YAMLError, ValueError) as error:  # a character YAML has not; a number or date Python has not
        raise InputError(f"{path}: not plain YAML ({str(error).splitlines()[0]}); {_FIX}") from None
    except RecursionError:
        raise InputError(f"{path}: nested too deeply to be a rule file; {_FIX}") from None
    if not isinstance(plain, dict) or "kvtools_rules" not in plain:
        raise InputError(f"{path}:1: no rule file: the key kvtools_rules is missing; {_FIX}")
    if plain["kvtools_rules"] != VERSION or isinstance(plain["kvtools_rules"], bool):
        line = _line(root, ".kvtools_rules")
        raise InputError(
            f"{path}:{line}: rules of version {str(plain['kvtools_rules'])[:20]}, and this kvtools reads version "
            f"{VERSION}; write them again with kvtools rules."
        )
    try:
        file = msgspec.convert(plain, _File)
    except msgspec.ValidationError as error:
        said, _, place = str(error).partition(" - at `$")
        raise InputError(f"{path}:{_line(root, place)}: {said}; {_FIX}") from None
    return RuleSet(file.rules, file.default)


_FIX = "see docs/hot-cold-rules.md for the form."


def _text(path: str | PathLike[str]) -> str:
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); name a rule file.") from None
    if len(data) > MAX_BYTES:
        raise InputError(f"{path}: larger than 1 MiB, which no rule file is; name a rule file.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}:{line}: not UTF-8; save the file as UTF-8.") from None


def _parsed(text: str) -> tuple[yaml.Node | None, Any]:
    loader = _Loader(text)
    try:
        root = loader.get_single_node()
        return root, None if root is None else loader.construct_document(root)
    finally:
        loader.dispose()


def _line(root: yaml.Node | None, place: str) -> int:
    """Return the line of ``.rules[0].when`` or of the last node on the way there."""
    node = root
    for key, index in _STEP.findall(place):
        below = None
        if isinstance(node, yaml.MappingNode):
            below = next((value for name, value in node.value if name.value == key), None)
        elif isinstance(node, yaml.SequenceNode) and index:
            below = node.value[int(index)]
        if below is None:
            break
        node = below
    return 1 if node is None else node.start_mark.line + 1
