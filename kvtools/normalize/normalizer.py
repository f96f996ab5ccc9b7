"""Templates at work in a service: each request is rewritten on its way to the engine, and can be taken back.

It loads no pandas and no numpy, and keeps nothing of what it has seen: one object may serve many threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kvtools.errors import InputError
from kvtools.fields.sections import FLAT, texts_of, with_texts
from kvtools.normalize.given_templates import read_templates
from kvtools.normalize.hoist import Moved
from kvtools.normalize.references import refers_to_place

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from os import PathLike

    from kvtools.normalize.hoist import Moves
    from kvtools.normalize.manifest import TemplateFile

Messages = list[dict[str, Any]]
"""A chat in the form of the OpenAI API."""

Values = list[dict[str, Any]]
"""What ``restore`` needs, as JSON: ``{"message": i, "template": name, "values": {name: value}}`` per rewritten text.

``message`` is ``None`` for a flat prompt; ``values`` are all values of the template, moved or not.
"""


class _Hoisted(NamedTuple):
    name: str
    values: dict[str, str]
    text: str
    proven: bool
    has_lines: bool


class Normalizer:
    """Moves values behind the stable text of their message, as ``kvtools normalize`` does with the same templates.

    Each rewriting is tried backwards and a second time before it counts: what cannot be taken back, or would change
    again, passes unchanged.
    """

    def __init__(self, templates: Iterable[TemplateFile]) -> None:
        """Take templates; those in which nothing moves have no effect."""
        self._moves: dict[str, Moves] = {}
        self._of_role: dict[str, list[tuple[str, Moves]]] = {}
        for one in templates:
            if one.moves.gaps:
                self._moves[one.name] = one.moves
                self._of_role.setdefault(one.moves.template.role, []).append((one.name, one.moves))

    @classmethod
    def load(cls, directory: str | PathLike[str]) -> Normalizer:
        """Return the normalizer of a folder that ``kvtools normalize --learn`` wrote, or of templates written by hand.

        Raises:
            InputError: the folder or a template cannot be read; the sentence names path and line.
        """
        from pathlib import Path  # noqa: PLC0415 - only here

        return cls(read_templates(Path(directory)))

    def normalize(self, messages: Messages) -> tuple[Messages, Values]:
        """Return the messages rewritten, in a new list, and what restores them; the same list where nothing fits."""
        try:
            hoisted = self._hoisted_of(messages)
        except UnicodeEncodeError:  # a lone surrogate, which no engine takes either
            return messages, []
        changed = [one for one in hoisted if one is not None]
        if not changed or not all(one.proven for one in changed):
            return messages, []
        out, values = list(messages), []
        for place, one in enumerate(hoisted):
            if one is not None:
                out[place] = _with_text(messages[place], one.text)
                values.append({"message": place, "template": one.name, "values": one.values})
        return out, values

    def restore(self, messages: Messages, values: Values) -> Messages:
        """Return the messages as they were before ``normalize``, in a new list. Further ones behind them stay.

        Raises:
            InputError: the values are not those of these messages and templates.
        """
        out = list(messages)
        for entry in values:
            place = entry.get("message")
            if not isinstance(place, int) or not 0 <= place < len(out):
                raise InputError(
                    f"values for message {place}: there is no such message; give those of normalize."
                )
            message = out[place]
            text = next((text for _, text in texts_of([message])), "") if isinstance(message, dict) else ""
            out[place] = _with_text(message, self._logged(entry, text))
        return out

    def prompt(self, text: str) -> tuple[str, Values]:
        """Return a flat prompt rewritten and what restores it; the same text where nothing fits."""
        try:
            one = self._hoisted(FLAT, text)
        except UnicodeEncodeError:  # as above
            return text, []
        if one is None or not one.proven:
            return text, []
        return one.text, [{"message": None, "template": one.name, "values": one.values}]

    def restore_prompt(self, text: str, values: Values) -> str:
        """Return a flat prompt as it was before ``prompt``.

        Raises:
            InputError: the values are not those of this prompt and these templates.
        """
        for entry in values:
            text = self._logged(entry, text)
        return text

    def _hoisted_of(self, messages: Messages) -> list[_Hoisted | None]:
        """Return what becomes of each message, ``None`` where it stays."""
        hoisted = [self._of_message(message) for message in messages]
        if any(one is not None and one.has_lines for one in hoisted) and _referred(messages, hoisted):
            return [None if one is None or one.has_lines else one for one in hoisted]
        return hoisted

    def _of_message(self, message: Any) -> _Hoisted | None:
        if not isinstance(message, dict):
            return None
        for role, text in texts_of([message]):
            return self._hoisted(role, text)
        return None

    def _hoisted(self, role: str, text: str) -> _Hoisted | None:
        """Return what the first template that fits makes of a text."""
        for name, moves in self._of_role.get(role, ()):
            moved = moves.moved(text)
            if isinstance(moved, Moved):
                template = moves.template
                values = template.match(text) or ()
                held = {gap.name: value for gap, value in zip(template.gaps, values, strict=True)}
                proven = template.render(values) == text == moved.logged() and self._stays(role, moved.text)
                has_lines = any(template.gaps[gap].shape == "section" for gap in moves.gaps)
                return _Hoisted(name, held, moved.text, proven, has_lines)
        return None

    def _stays(self, role: str, text: str) -> bool:
        return not any(isinstance(moves.moved(text), Moved) for _, moves in self._of_role[role])

    def _logged(self, entry: dict[str, Any], text: str) -> str:
        """Return the logged text of an entry, whose rewritten form ``text`` must be."""
        name, values = entry.get("template"), entry.get("values")
        moves = self._moves.get(name) if isinstance(name, str) else None
        if moves is None or not isinstance(values, dict):
            raise InputError(
                f"values of template {name!r}: it is none of these; load the templates of normalize."
            )
        held = [values.get(gap.name) for gap in moves.template.gaps]
        if all(isinstance(value, str) for value in held):
            logged = moves.template.render([str(value) for value in held])
            if moves.apply(logged) == text:
                return logged
        raise InputError(
            f"values of template {name}: they do not give this text; restore what normalize returned."
        )


def _with_text(message: dict[str, Any], text: str) -> dict[str, Any]:
    changed = with_texts([message], lambda *_: text)
    return message if changed is None else changed[0]


def _referred(messages: Messages, hoisted: Sequence[_Hoisted | None]) -> bool:
    """Tell whether a text beside the lines that move refers to their number or place."""
    beside = [
        message
        for message, one in zip(messages, hoisted, strict=True)
        if isinstance(message, dict) and (one is None or not one.has_lines)
    ]
    return any(refers_to_place(text) for _, text in texts_of(beside))
