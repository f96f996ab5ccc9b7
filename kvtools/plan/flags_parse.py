"""A vLLM command line taken apart as vLLM's parser does it, with every fault instead of the first.

Rules of argparse (Python 3.11) with the changes of vLLM 0.32, which ``flags_words`` holds. A word that only the shell
knows (``$MODEL``) is taken as a value that is not known.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from kvtools.errors import InputError
from kvtools.plan.flags import match, nearest
from kvtools.plan.flags_config import read_config, words_of
from kvtools.plan.flags_values import value_of
from kvtools.plan.flags_words import Word, prepared

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kvtools.plan.flags import Flag, FlagTable
    from kvtools.plan.serve_args import ServeLine

FaultKind: TypeAlias = Literal[
    "unknown", "ambiguous", "takes_no_value", "needs_value", "bad_value", "twice", "stray",
    "config_ignored", "config_unread", "config_dropped", "deprecated",
]  # fmt: skip

_NEGATIVE = re.compile(r"-\d+|-\d*\.\d+")
_TRUTH = frozenset({"true", "false", "1", "0", "yes", "no", "on", "off"})


@dataclass(frozen=True, slots=True)
class Fault:
    """Something wrong with the line: the words ``written``, the ``flag`` meant (if any), what else there is to say."""

    kind: FaultKind
    written: str
    flag: str | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Given:
    """A flag that was set: ``value`` as vLLM reads it; ``known`` is false where only the shell knows it."""

    flag: Flag
    value: Any
    written: str
    known: bool = True
    from_file: str = ""


@dataclass(slots=True)
class Parsed:
    """``given``: what is set, by the engine argument (``max_model_len``); the last one wins, as in vLLM."""

    model: str | None = None
    given: dict[str, Given] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    def value(self, dest: str, default: Any = None) -> Any:
        """Return the value of an engine argument, ``default`` where it is not set or only the shell knows it."""
        held = self.given.get(dest)
        return held.value if held is not None and held.known else default

    def is_set(self, dest: str) -> bool:
        """Whether the line sets an engine argument to a value that is known."""
        return dest in self.given and self.given[dest].known


def parse_line(line: ServeLine, table: FlagTable) -> Parsed:
    """Return what a command line sets. Files that it names with ``--config`` are read where they can be."""
    names, parsed = table.by_name(), Parsed()
    words = _with_config([Word(text, text) for text in line.argv], names, parsed, program=line.program)
    _Reader(names, parsed, prepared(words)).read()
    return parsed


def parse_config(held: Mapping[str, Any], table: FlagTable, source: str, *, engine_arguments: bool) -> Parsed:
    """Return what the flags ``held`` in a file set; ``source`` names it. See ``flags_config.words_of``."""
    names, parsed = table.by_name(), Parsed()
    words = _from_file(held, names, parsed, source, engine_arguments=engine_arguments)
    _Reader(names, parsed, prepared(words)).read()
    return parsed


def _from_file(
    held: Mapping[str, Any], names: dict[str, Flag], parsed: Parsed, source: str, *, engine_arguments: bool
) -> list[Word]:
    config = words_of(held, names, engine_arguments=engine_arguments)
    for key in config.dropped:
        parsed.faults.append(Fault("config_dropped", key, f"--{key.replace('_', '-')}", source))
    return [Word(text, text, source) for text in config.words]


def _with_config(words: list[Word], names: dict[str, Flag], parsed: Parsed, *, program: str) -> list[Word]:
    """Put the words of ``--config FILE`` where vLLM puts them: in front of all flags, so that the line wins."""
    texts = [word.text for word in words]
    for text in texts:
        if text.startswith("--config="):
            parsed.faults.append(Fault("config_ignored", text, "--config"))
    if "--config" not in texts[:-1]:
        return words
    at = texts.index("--config")
    path, rest = texts[at + 1], words[:at] + words[at + 2 :]
    try:
        held = _read_as_vllm(Path(path))
    except InputError as error:
        parsed.faults.append(Fault("config_unread", f"--config {path}", "--config", str(error)))
        return rest
    front = 1 if program == "serve" and rest and not rest[0].text.startswith("-") else 0
    return rest[:front] + _from_file(held, names, parsed, path, engine_arguments=False) + rest[front:]


def _read_as_vllm(path: Path) -> dict[str, Any]:
    if path.suffix not in {".yaml", ".yml"}:
        raise InputError(f"{path}: vLLM reads .yaml and .yml files only; rename it.")
    return read_config(path)


@dataclass(slots=True)
class _Reader:
    names: dict[str, Flag]
    parsed: Parsed
    words: list[Word]
    place: int = 0

    def read(self) -> None:
        """Read all words."""
        while self.place < len(self.words):
            word = self.words[self.place]
            self.place += 1
            if word.text == "--":
                for left in self.words[self.place :]:
                    self._positional(left)
                return
            if self._is_flag(word.text):
                self._flag(word)
            else:
                self._positional(word)

    def _is_flag(self, text: str) -> bool:
        if len(text) < 2 or not text.startswith("-") or text == "--" or _NEGATIVE.fullmatch(text):
            return False
        return " " not in text or match(self.names, text).flag is not None

    def _values(self, most: int | None = None) -> list[Word]:
        """Take the words that follow and are no flags."""
        start = self.place
        while self.place < len(self.words) and not self._is_flag(self.words[self.place].text):
            if self.words[self.place].text == "--" or self.place - start == most:
                break
            self.place += 1
        return self.words[start : self.place]

    def _positional(self, word: Word) -> None:
        if self.parsed.model is None:
            self.parsed.model = word.text
        else:
            self.parsed.faults.append(Fault("stray", word.written))

    def _flag(self, word: Word) -> None:
        found = match(self.names, word.text)
        if found.flag is None:
            if found.candidates:
                self._values()
                near = ", ".join(found.candidates[:4])
                self.parsed.faults.append(Fault("ambiguous", word.written, None, near))
                return
            # A value behind a flag that nobody knows would be taken for the model where none was named before.
            self._values()
            self.parsed.faults.append(Fault("unknown", word.written, nearest(self.names, word.text)))
            return
        if found.flag.deprecated:
            self.parsed.faults.append(Fault("deprecated", word.written, found.flag.name))
        if found.flag.kind in {"switch", "on_off"}:
            self._switch(found.flag, found.spelling, found.value, word)
        else:
            self._valued(found.flag, found.value, word)

    def _switch(self, flag: Flag, spelling: str, explicit: str | None, word: Word) -> None:
        following = self.words[self.place].text if self.place < len(self.words) else ""
        if explicit is None and following.lower() in _TRUTH:
            explicit = following
            self.place += 1
        if explicit is not None:
            self.parsed.faults.append(Fault("takes_no_value", f"{word.written}", flag.name, explicit))
        self._set(Given(flag, not spelling.startswith("--no-"), word.written, from_file=word.from_file))

    def _valued(self, flag: Flag, explicit: str | None, word: Word) -> None:
        if explicit is not None:
            texts = [explicit]
        else:
            most = None if flag.nargs in {"+", "*"} else 1
            texts = [value.text for value in self._values(most)]
        if not texts and flag.nargs not in {"?", "*"}:
            self.parsed.faults.append(Fault("needs_value", word.written, flag.name))
            return
        if any("$" in text for text in texts):
            self._set(Given(flag, None, word.written, known=False, from_file=word.from_file))
            return
        try:
            values = [value_of(flag, text) for text in texts]
        except ValueError as error:
            self.parsed.faults.append(Fault("bad_value", word.written, flag.name, str(error)))
            return
        several = flag.nargs in {"+", "*"}
        value = values if several else values[0] if values else True
        if flag.dest == "model" and self.parsed.model is None:
            self.parsed.model = str(value)
        self._set(Given(flag, value, word.written, from_file=word.from_file))

    def _set(self, given: Given) -> None:
        before = self.parsed.given.get(given.flag.dest)
        if before is not None and before.from_file == given.from_file and given.flag.kind != "append":
            self.parsed.faults.append(Fault("twice", given.written, given.flag.name))
        self.parsed.given[given.flag.dest] = given
