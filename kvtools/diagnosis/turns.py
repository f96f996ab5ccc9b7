"""Why a later prompt of one conversation does not extend the earlier one, and how it would look if it did.

A conversation whose prompts only grow is computed once: each turn hits all of the turn before. ``parted`` names what
breaks that; a replay of ``rebuilt`` turns says what it costs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kvtools.diagnosis.deployment import injected_clock
from kvtools.diagnosis.turn_json import tool_list_kind
from kvtools.diagnosis.turn_messages import messages_parted, messages_rebuilt, sections_of
from kvtools.diagnosis.turn_model import Break, Turn
from kvtools.diagnosis.turn_prompts import PLACE as PROMPT
from kvtools.diagnosis.turn_prompts import prompts_parted, prompts_rebuilt, starts_with_two_bos
from kvtools.diagnosis.turn_tokens import PLACE as TOKENS
from kvtools.diagnosis.turn_tokens import tokens_parted, tokens_rebuilt

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Break", "Turn", "parted", "rebuilt", "starts_with_two_bos"]

TOOLS, REQUEST = "tools", "request"


def parted(earlier: Turn, later: Turn) -> Break | None:
    """Return what keeps ``later`` from extending ``earlier``; ``None`` where it does, or continues nothing of it.

    Judged by what the engine saw: token ids where both turns have them, else the rendered text, else the messages and
    tools. The cause is named from what tells most: the request's namespace, tools and messages, text, ids. Kinds
    that end in ``_order``, ``line_ends``, ``trailing_blanks``, ``unicode_form``, ``whitespace`` and ``json_spacing``
    are drifts of form: the meaning is equal.
    """
    found = _content_parted(earlier, later)
    names = _namespace_parted(earlier, later)
    return names if names is not None and (found is not None or _continues(earlier, later)) else found


def _namespace_parted(earlier: Turn, later: Turn) -> Break | None:
    if (earlier.lora or None) != (later.lora or None):
        return Break(
            "adapter", REQUEST, 0, "The turns name different adapters, whose blocks are never shared."
        )
    if (earlier.cache_salt or None) != (later.cache_salt or None):
        return Break(
            "salt", REQUEST, 0, "The turns carry different cache salts, whose blocks are never shared."
        )
    return None


def _continues(earlier: Turn, later: Turn) -> bool:
    """Return whether the prompts begin alike, or nothing is known of them."""
    pairs = [
        (list(earlier.token_ids or [])[:1], list(later.token_ids or [])[:1]),
        ((earlier.prompt or "")[:16], (later.prompt or "")[:16]),
        (
            [section.key for section in sections_of(earlier.messages)[:1]],
            [section.key for section in sections_of(later.messages)[:1]],
        ),
    ]
    known = [(one, other) for one, other in pairs if one and other]
    return not known or any(one == other for one, other in known)


def _content_parted(earlier: Turn, later: Turn) -> Break | None:
    both = {
        TOKENS: earlier.token_ids is not None and later.token_ids is not None,
        PROMPT: earlier.prompt is not None and later.prompt is not None,
        "messages": earlier.messages is not None and later.messages is not None,
    }
    looks: dict[str, Callable[[], Break | None]] = {
        TOKENS: lambda: tokens_parted(earlier, later),
        PROMPT: lambda: _prompts(earlier, later),
        "messages": lambda: _tools_parted(earlier, later) or messages_parted(earlier, later),
    }
    levels = [level for level, known in both.items() if known]
    if not levels:
        return None
    truth = looks[levels[0]]()
    if truth is None or len(levels) == 1:
        return truth
    if truth.kind == "double_bos":
        return truth
    causes = [looks[level]() for level in reversed(levels[1:])]
    cause = next((found for found in causes if found is not None), None)
    if cause is None and levels[0] == TOKENS and both[PROMPT]:
        return tokens_parted(earlier, later, same_text=True)
    return cause or truth


def _prompts(earlier: Turn, later: Turn) -> Break | None:
    found = prompts_parted(earlier, later)
    if found is None or found.kind != "restamped_history" or later.messages is None:
        return found
    texts = [section.text for turn in (earlier, later) for section in sections_of(turn.messages)]
    if injected_clock(earlier.prompt or "", later.prompt or "", texts) is None:
        return found
    detail = "The server or its template writes a date that the client's messages do not hold."
    return replace(found, kind="server_injected_date", detail=detail)


def _tools_parted(earlier: Turn, later: Turn) -> Break | None:
    one, other = (list(turn.tools) if isinstance(turn.tools, list) else [] for turn in (earlier, later))
    found = tool_list_kind(one, other)
    if found is None or not _continues(earlier, later):
        return None
    return Break(found[0], TOOLS, 0, found[1])


def rebuilt(earlier: Turn, later: Turn, found: Break) -> Turn | None:
    """Return ``later`` as it would be without the break ``found``, ``None`` where that cannot be known.

    The history is untrimmed, reasoning and generated ids are kept, outputs are whole, and what drifted in form is
    as it was sent first. Of several breaks only this one is mended. Text or ids that were logged beside mended
    messages are left out, since they belong to what was sent. Passages are put in the earlier order: right as a
    measure, but a model reads order. An adapter, an edit and the order inside a schema are never undone.
    """
    if found.place == REQUEST:
        return replace(later, cache_salt=earlier.cache_salt) if found.kind == "salt" else None
    if found.place == TOOLS:
        known = found.kind in ("tool_order", "json_key_order")
        return replace(later, tools=earlier.tools, prompt=None, token_ids=None) if known else None
    if found.place == TOKENS:
        return tokens_rebuilt(earlier, later, found)
    if found.place == PROMPT:
        kind = "restamped_history" if found.kind == "server_injected_date" else found.kind
        return prompts_rebuilt(earlier, later, replace(found, kind=kind))
    return messages_rebuilt(earlier, later, found.kind)
