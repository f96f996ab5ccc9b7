"""What varying values are: a catalogue of typed patterns in a data file, which users extend with a file of their own.

Who names a value, in this order: the user's patterns; forms that show their kind (a UUID, a time); labels beside it
(``订单[NO:874635]``); bare forms that a label would overrule (ten digits that may be a time). Within each the leftmost
match wins, then the longest, then the order of the file.
"""

from __future__ import annotations

from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kvtools.fields.catalogue_values import nearly_all, plain_kind, seen_granularity
from kvtools.fields.mask import mask
from kvtools.fields.patterns import GRANULARITIES, Granularity, Kind, PatternFile, Span, read_patterns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvtools.fields.patterns_automaton import Automaton
    from kvtools.fields.patterns_labels import LabelRule
    from kvtools.fields.patterns_user import UserPatterns

__all__ = ["Catalogue", "Granularity", "Kind", "Span", "mask"]

_FILE = Path(__file__).with_name("patterns.toml")
_NEAR = 200
"""How many characters around a value are looked at."""


class _Tiers(NamedTuple):
    shapes: Automaton
    labels: Automaton
    bare: Automaton


class _Seen(NamedTuple):
    text: str
    kind: Kind


class _Compiled:
    """The bundled file, compiled when it is first used."""

    @cached_property
    def file(self) -> PatternFile:
        return read_patterns(_FILE)

    @cached_property
    def tiers(self) -> _Tiers:
        from kvtools.fields.patterns_automaton import Automaton, Entry  # noqa: PLC0415 - heavy

        def entries(*, bare: bool) -> list[Entry]:
            chosen = [pattern for pattern in self.file.patterns if pattern.bare is bare]
            return [Entry(pattern.regex, pattern.kind if pattern.field else None) for pattern in chosen]

        labels = [
            Entry(label.regex(), label.kind) for label in self.file.labels if label.value or label.spaced
        ]
        return _Tiers(Automaton(entries(bare=False)), Automaton(labels), Automaton(entries(bare=True)))

    @cached_property
    def rules(self) -> list[LabelRule]:
        from kvtools.fields.patterns_automaton import TextRegex  # noqa: PLC0415 - heavy
        from kvtools.fields.patterns_labels import LabelRule  # noqa: PLC0415 - heavy

        return [LabelRule(label, TextRegex) for label in self.file.labels]


class Catalogue:
    """Finds typed values in texts, and says what a field is from its values."""

    def __init__(self, compiled: _Compiled, user: UserPatterns | None = None) -> None:
        self._compiled = compiled
        self._user = user

    @classmethod
    def bundled(cls) -> Catalogue:
        """Return the catalogue that ships with kvtools; it is compiled once per process, on first use."""
        return _bundled()

    def extended(self, path: Path) -> Catalogue:
        """Return this catalogue with the patterns of the file ``path`` before its own; they win where they overlap.

        The file has the form of the bundled one; its expressions may use all of the module ``regex``.

        Raises:
            InputError: the file cannot be read, or is not TOML.
            UsageError: an entry is wrong; the sentence names the file, the entry and the key.
        """
        from kvtools.fields.patterns_user import UserPatterns  # noqa: PLC0415 - heavy

        return Catalogue(self._compiled, UserPatterns(path, read_patterns(path)))

    def unmatched(self) -> list[str]:
        """Return the names of the user's patterns that have matched nothing in any text given to ``spans`` so far."""
        return self._user.unmatched() if self._user else []

    def stopped(self) -> list[str]:
        """Return the names of the user's patterns that took over a second on one text and are left out since."""
        return list(self._user.stopped) if self._user else []

    def spans(self, text: str) -> list[Span]:
        """Return the typed values in ``text``, in order, none over another."""
        data = text.encode("utf-8", "surrogatepass")
        found: list[tuple[int, int, Kind | None]] = []
        if self._user:
            places = _Places(text, data)
            found = [
                (places.byte(start), places.byte(end), kind) for start, end, kind in self._user.find(text)
            ]
        for tier in self._compiled.tiers:
            matches = tier.find(data, [(start, end) for start, end, _ in found])
            if matches:
                found += [(start, end, tier.entries[place].kind) for start, end, place in matches]
                found.sort(key=_start)
        places = _Places(text, data)
        return [
            Span(places.character(s), places.character(e), kind) for s, e, kind in found if kind is not None
        ]

    def kind_of(self, values: Sequence[str], before: str = "", after: str = "") -> Kind:
        """Return what a field is, from several of its ``values`` and the text ``before`` and ``after`` it.

        The kind whose patterns fit nine in ten values as a whole; else of the longer value that the varying part
        belongs to (the minutes of a time); else what the label before it says; else ``number``, ``hex`` or ``text``.
        A time is as coarse as its values show: seconds that are always 0 make it one of minutes.
        """
        stripped = [value.strip() for value in values if value.strip()]
        if not stripped:
            return Kind("text")
        return (
            self._whole(stripped, bare=False)
            or self._around(values, before[-_NEAR:], after[:_NEAR])
            or self._labelled(stripped, before[-_NEAR:])
            or self._whole(stripped, bare=True)
            or plain_kind(stripped)
        )

    def _whole(self, values: Sequence[str], *, bare: bool) -> Kind | None:
        tier = self._compiled.tiers.bare if bare else self._compiled.tiers.shapes
        seen = []
        for value in values:
            kinds = list(self._user.fitting(value)) if self._user and not bare else []
            own = (tier.entries[place].kind for place in tier.fitting(value.encode("utf-8", "surrogatepass")))
            kinds += [kind for kind in own if kind is not None]
            seen.append([_Seen(value, kind) for kind in kinds])
        return _agreed(seen)

    def _around(self, values: Sequence[str], before: str, after: str) -> Kind | None:
        seen = []
        for value in values:
            text = before + value + after
            start, end = len(before), len(before) + len(value)
            over = [span for span in self.spans(text) if span.start <= start and end <= span.end]
            longer = [span for span in over if (span.start, span.end) != (start, end)]
            seen.append([_Seen(text[span.start : span.end], span.kind) for span in longer])
        return _agreed(seen)

    def _labelled(self, values: Sequence[str], before: str) -> Kind | None:
        rules: list[LabelRule] = [*(self._user.rules if self._user else ()), *self._compiled.rules]
        for rule in rules:
            if rule.stands_in(before) and nearly_all(sum(map(rule.fits, values)), len(values)):
                return rule.kind
        return None


@cache
def _bundled() -> Catalogue:
    return Catalogue(_Compiled())


def _agreed(values: Sequence[Sequence[_Seen]]) -> Kind | None:
    """Return the kind that nine in ten values have; of several the most frequent, then the first of the file."""
    count: dict[str, int] = {}
    first: dict[str, int] = {}
    for seen in values:
        for place, name in enumerate(dict.fromkeys(one.kind.name for one in seen)):
            count[name] = count.get(name, 0) + 1
            first[name] = min(place, first.get(name, place))
    agreed = [name for name, number in count.items() if nearly_all(number, len(values))]
    if not agreed:
        return None
    name = min(agreed, key=lambda name: (-count[name], first[name], name))
    chosen = [one for seen in values for one in seen if one.kind.name == name]
    fine = {one.kind.granularity for one in chosen}
    finest = next((granularity for granularity in GRANULARITIES if granularity in fine), None)
    if finest is None or name != "time":
        return Kind(name, finest)
    return Kind(name, seen_granularity([one.text for one in chosen], finest))


def _start(found: tuple[int, int, Kind | None]) -> int:
    return found[0]


class _Places:
    """Turns places in UTF-8 into places in characters and back; asked from left to right, one pass in all."""

    def __init__(self, text: str, data: bytes) -> None:
        self._text = text
        self._data = data
        self._plain = len(text) == len(data)
        self._byte = self._character = 0

    def character(self, byte: int) -> int:
        """Return the character that begins at ``byte``."""
        if self._plain:
            return byte
        self._character += len(self._data[self._byte : byte].decode("utf-8", "surrogatepass"))
        self._byte = byte
        return self._character

    def byte(self, character: int) -> int:
        """Return the byte at which ``character`` begins."""
        if self._plain:
            return character
        self._byte += len(self._text[self._character : character].encode("utf-8", "surrogatepass"))
        self._character = character
        return self._byte
