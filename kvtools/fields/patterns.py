"""The pattern catalogue as it stands in its file: read, checked, its parts put in. No engine compiles anything here."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from kvtools.errors import InputError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

Granularity: TypeAlias = Literal["second", "minute", "hour", "day"]

GRANULARITIES: tuple[Granularity, ...] = get_args(Granularity)
"""From fine to coarse."""

_PART = re.compile(r"<<(\w+)>>")
_KIND = re.compile(r"[a-z][a-z0-9_]*")
_DEPTH = 12
_LONGEST_REGEX = 100_000

SEPARATOR = (
    r"""["'”’*]{0,3}[ \t]{0,2}(?:[:：=#>]|\[(?:ID|NO|Id|No|id|no|编号)?[:：#.]|是|为)"""  # noqa: RUF001 - CJK forms
    r"""[ \t]{0,2}["'“‘*\[(（#]{0,3}"""  # noqa: RUF001 - CJK forms
)
"""What may stand between a label and its value: ``user_id: ``, ``"user_id": "``, ``用户[ID:``, ``会话#``, ``<id>``."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What a varying value is.

    ``name`` is a kind of the catalogue (``time``, ``date``, ``uuid``, ``order_id`` …), or ``number``, ``hex`` or
    ``text``. ``granularity`` is how fine a time or date is; ``None`` for everything else.
    """

    name: str
    granularity: Granularity | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """Where a value stands in a text: characters ``start`` to ``end``, half open."""

    start: int
    end: int
    kind: Kind


@dataclass(frozen=True, slots=True)
class Pattern:
    """One entry of a catalogue: the regular expression with its parts put in, and what it finds.

    ``field`` false: the text looks like a value and is none. ``bare``: a label beside it knows better.
    """

    name: str
    kind: Kind
    regex: str
    bare: bool = False
    field: bool = True


@dataclass(frozen=True, slots=True)
class Label:
    """A label and the values that stand behind it; ``value`` is ``None`` where it only names what is known to vary."""

    kind: Kind
    words: str
    value: str | None
    spaced: str | None
    fits: str

    def regex(self) -> str:
        """Return the expression that finds a label with its value; the value is its last group that took part."""
        forms = [f"{SEPARATOR}({self.value})"] if self.value else []
        if self.spaced:
            forms.append(f"[ ](?:is )?({self.spaced})\\b")
        return f"(?i:{self.words})(?:{'|'.join(forms)})"


@dataclass(frozen=True, slots=True)
class PatternFile:
    """All entries of one catalogue file, in its order."""

    patterns: tuple[Pattern, ...]
    labels: tuple[Label, ...]


def read_patterns(path: Path) -> PatternFile:
    """Return the entries of the catalogue file ``path``; the expressions are not yet compiled.

    Raises:
        InputError: the file cannot be read, or is not TOML.
        UsageError: an entry is wrong: an unknown key, a value of the wrong type, a name used twice, an unknown part.
    """
    try:
        with path.open("rb") as file:
            content = tomllib.load(file)
    except OSError as error:
        raise InputError(f"--patterns {path}: cannot be read ({error.strerror}).") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"--patterns {path}: not TOML ({error}).") from None
    return _Entries(path, content).read()


class _Entries:
    """The tables of one file, and the words for what is wrong with them."""

    def __init__(self, path: Path, content: dict[str, Any]) -> None:
        self._path = path
        self._content = content
        self._parts: dict[str, str] = {}

    def read(self) -> PatternFile:
        self._known("the file", self._content, ("parts", "pattern", "label"))
        parts = self._content.get("parts", {})
        if not isinstance(parts, dict) or not all(isinstance(part, str) for part in parts.values()):
            raise self._wrong("parts", "is a table of regular expressions")
        self._parts = parts
        patterns = tuple(self._pattern(*entry) for entry in self._tables("pattern"))
        labels = tuple(self._label(*entry) for entry in self._tables("label"))
        names: set[str] = set()
        for pattern in patterns:
            if pattern.name in names:
                raise self._wrong("pattern", f"has the name {pattern.name!r} twice; names are unique")
            names.add(pattern.name)
        return PatternFile(patterns, labels)

    def _tables(self, key: str) -> list[tuple[str, dict[str, Any]]]:
        tables = self._content.get(key, [])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise self._wrong(key, f"is a list of tables, each under [[{key}]]")
        return [(f"{key} {place}", table) for place, table in enumerate(tables, 1)]

    def _pattern(self, where: str, table: dict[str, Any]) -> Pattern:
        self._known(where, table, ("name", "kind", "regex", "granularity", "bare", "field"))
        name = self._text(where, table, "name")
        where = f"pattern {name!r}"
        granularity = table.get("granularity")
        if granularity is not None and granularity not in GRANULARITIES:
            raise self._wrong(f"{where}, key granularity", f"is one of {', '.join(GRANULARITIES)}")
        return Pattern(
            name,
            Kind(self._kind(where, table, name), granularity),
            self._regex(where, table, "regex"),
            bare=self._flag(where, table, "bare", default=False),
            field=self._flag(where, table, "field", default=True),
        )

    def _label(self, where: str, table: dict[str, Any]) -> Label:
        self._known(where, table, ("kind", "words", "value", "spaced", "fits"))
        return Label(
            Kind(self._kind(where, table, None)),
            self._regex(where, table, "words"),
            self._regex(where, table, "value") if "value" in table else None,
            self._regex(where, table, "spaced") if "spaced" in table else None,
            self._regex(where, table, "fits") if "fits" in table else r"\S+",
        )

    def _known(self, where: str, table: dict[str, Any], keys: tuple[str, ...]) -> None:
        for key in table:
            if key not in keys:
                raise self._wrong(where, f"has the unknown key {key!r}; it takes {', '.join(keys)}")

    def _text(self, where: str, table: dict[str, Any], key: str) -> str:
        text = table.get(key)
        if not isinstance(text, str) or not text:
            raise self._wrong(f"{where}, key {key}", "is missing" if text is None else "is a text, not empty")
        return text

    def _kind(self, where: str, table: dict[str, Any], default: str | None) -> str:
        name = default if default and "kind" not in table else self._text(where, table, "kind")
        if not _KIND.fullmatch(name):
            raise self._wrong(
                where, f"has the kind {name!r}; take lower-case letters, digits and _, as in order_id"
            )
        return name

    def _flag(self, where: str, table: dict[str, Any], key: str, *, default: bool) -> bool:
        flag = table.get(key, default)
        if not isinstance(flag, bool):
            raise self._wrong(f"{where}, key {key}", "is true or false")
        return flag

    def _regex(self, where: str, table: dict[str, Any], key: str) -> str:
        """Return the expression with every ``<<PART>>`` put in, parts of parts too."""
        regex = self._text(where, table, key)
        for _ in range(_DEPTH):
            for name in _PART.findall(regex):
                if name not in self._parts:
                    raise self._wrong(
                        f"{where}, key {key}", f"names the part <<{name}>>, which is not in [parts]"
                    )
            replaced = _PART.sub(lambda part: self._parts[part[1]], regex)
            if replaced == regex:
                return regex
            if len(replaced) > _LONGEST_REGEX:
                break
            regex = replaced
        raise self._wrong(f"{where}, key {key}", "has parts that contain themselves, or grows too long")

    def _wrong(self, where: str, what: str) -> UsageError:
        return UsageError(f"--patterns {self._path}: {where} {what}.")
