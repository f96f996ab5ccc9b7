"""Phrases that several reports have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtools.report.numbers import counted, short
from kvtools.report.words import say, told

if TYPE_CHECKING:
    from kvtools.report.model import Settings


def prompt_tokens(count: int) -> str:
    """Return ``1.10 M prompt tokens``."""
    return say("{total} prompt tokens", total=short(count))


def size_of(capacity_blocks: int | None) -> str:
    """Return the size of a cache, ``unlimited cache`` where it has no limit."""
    return say("unlimited cache") if capacity_blocks is None else counted(capacity_blocks, "block")


def made_of(settings: Settings) -> str:
    """Return the tokenizer, and the chat template where text was rendered with one."""
    tokenizer = told(settings.tokenizer)
    if settings.tokenizer_check == "not needed":
        return tokenizer
    return say("{tokenizer}, {template} template", tokenizer=tokenizer, template=settings.chat_template)
