"""What a placeholder's name says about its value: how often it is another one, from request to request.

A name is a hint, not a proof: ``unknown`` is an answer, and the user may overrule every other one. The last word
decides (``query_type`` is a type, ``message_count`` a count), as in English compounds the thing itself stands last.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Changes: TypeAlias = Literal["never", "class", "unknown", "history", "request"]
"""How often: never (a constant of the deployment), between classes of requests, not known, by turns, always."""

CHANGES: tuple[Changes, ...] = get_args(Changes)

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
_LAST_N = re.compile(
    r"(?i)(?:last|recent|past|prev|previous)_?(?:\d+|n)?_?(?:messages|turns|msgs|chats|rounds)"
)


def _split(words: str) -> frozenset[str]:
    return frozenset(words.split())


_FORMS = _split("str string iso utc value val json formatted raw escaped local html md markdown")
"""Words at the end that name the form of a value, not what it is: ``date_string`` is a date."""
_PERSONS = _split("user customer client member buyer caller visitor patient account contact person")
_NAME_PARTS = _split("first last full given family nick user customer client display contact")
_OURS = _split("assistant bot agent company brand app shop store site org organization model")
_SPECIAL_TOKENS = _split("bos eos unk pad sep cls mask begin end start stop")
_LANGUAGE_LIKE = _split("country lang language currency region locale")
_BOOLEANS = _split("is has use enable enabled disable allow show include with")

_TIMES = _split("time date datetime timestamp now today ts clock hour minute second day weekday at deadline")
_IDS = _split(
    "id ids uuid guid ulid uid sid no number num nr hash digest nonce trace span session request ref reference ip "
    "email phone mobile address cookie fingerprint token username nickname"
)
_COUNTERS = _split(
    "count counter index idx seq sequence turn attempt attempts retry retries step page offset remaining balance "
    "amount price score quantity total seed latency elapsed duration age rank"
)
_TEXTS = _split(
    "question query text input message utterance content body comment review document documents doc docs context "
    "contexts passage passages chunk chunks snippet snippets article transcript summary answer response output result "
    "results payload feedback complaint issue ticket note notes title subject topic keywords search observation "
    "scratchpad reply sentence paragraph draft"
)
_HISTORIES = _split(
    "history messages conversation dialog dialogue chat turns memory rounds transcripts msgs chats"
)
_ENUMERATIONS = _split(
    "type kind category class tier level plan lang language locale region country currency mode role channel platform "
    "style tone format gender segment department tenant intent domain status state priority severity flag enabled "
    "timezone zone persona audience tools functions variant edition scene"
)
_CONSTANTS = _split("system instructions guidelines rules policy policies schema version")

_KINDS: tuple[tuple[frozenset[str], str, Changes], ...] = (
    (_TIMES, "a time", "request"),
    (_IDS, "an id", "request"),
    (_COUNTERS, "a counter", "request"),
    (_TEXTS, "free text", "request"),
    (_HISTORIES, "history", "history"),
    (_ENUMERATIONS, "an enumeration", "class"),
    (_CONSTANTS, "a constant", "never"),
)


@dataclass(frozen=True, slots=True)
class Judgement:
    """``kind`` in words for a sentence (``an id``), and how often such a value ``changes``."""

    kind: str
    changes: Changes


UNKNOWN = Judgement("a value of unknown kind", "unknown")
CONSTANT = Judgement("a constant", "never")


def judge(name: str, given: Mapping[str, Changes] | None = None) -> Judgement:
    """Return what ``name`` (dotted: ``user.id``) likely holds; ``given`` overrules, by the whole name or its root."""
    for stated in (name, name.split(".", 1)[0]):
        if given and stated in given:
            return Judgement(f"stated to change: {given[stated]}", given[stated])
    if _LAST_N.fullmatch(name.rsplit(".", 1)[-1]):
        return Judgement("history", "history")
    words = [word.lower() for word in _WORD.findall(name)]
    while len(words) > 1 and (words[-1] in _FORMS or words[-1].isdecimal()):
        words.pop()
    return _by_words(words) if words else UNKNOWN


def _by_words(words: Sequence[str]) -> Judgement:
    last, before = words[-1], set(words[:-1])
    judged = _by_company(last, before)
    if judged is None and before and words[0] in _BOOLEANS:
        judged = Judgement("a switch", "class")
    known = (Judgement(kind, changes) for of_kind, kind, changes in _KINDS if last in of_kind)
    return judged or next(known, UNKNOWN)


def _by_company(last: str, before: set[str]) -> Judgement | None:
    """Judge the words that mean another thing beside others: a name, a code, a prompt, a token."""
    judged: Judgement | None = None
    if last in {"token", "tokens"} and before & _SPECIAL_TOKENS:
        judged = CONSTANT
    elif last == "prompt":
        judged = CONSTANT if before & {"system", "base"} else Judgement("free text", "request")
    elif last == "name" and before & _OURS:
        judged = CONSTANT
    elif last == "name":
        judged = Judgement("a person's name", "request") if before & _NAME_PARTS else UNKNOWN
    elif last == "code" and before & _LANGUAGE_LIKE:
        judged = Judgement("an enumeration", "class")
    elif not before and last in _PERSONS:
        judged = Judgement("a person", "request")
    elif not before and last in _OURS:
        judged = CONSTANT
    return judged
