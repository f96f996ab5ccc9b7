"""One chunk of the request table to prompt tokens and block keys."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import msgspec
import numpy as np

from kvtools.blocks import block_count, block_keys, given_keys
from kvtools.chat import malformed_arguments
from kvtools.errors import InputError, RejectedInput, TemplateError
from kvtools.model import DEFAULT_BLOCK_TOKENS, TRACE_BLOCK_TOKENS
from kvtools.profile.media import MediaFinder, holds_media
from kvtools.table import Ragged, concat_ragged, integer_column, present, ragged_column, text_column

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from kvtools.blocks import MediaSpans
    from kvtools.chat import ChatTemplate
    from kvtools.model import Rules
    from kvtools.tokens import Tokenizer


NEVER_SENT = frozenset({"connection_error", "cache_hit"})
"""Statuses of calls that no engine saw: the connection failed, or a gateway answered from a cache of its own."""


@dataclass(frozen=True, slots=True, eq=False)
class Keyed:
    """The requests of a chunk that have a prompt, as engines see them.

    ``rows`` are their places in the chunk; ``prompt_tokens`` and ``keys`` have one entry each, in that order.
    ``tokens`` is ``None`` for a hash trace. ``rejects`` are requests that cannot be keyed, as rows of the
    table of rejects; ``not_sent`` counts those that never reached an engine. ``media`` stand in the prompts;
    ``with_media`` counts chat requests with some, ``bad_arguments`` those with tool-call arguments that are no object.
    """

    rows: NDArray[np.int64]
    prompt_tokens: NDArray[np.int64]
    keys: Ragged
    tokens: Ragged | None
    rejects: list[tuple[str, str, str]] = field(default_factory=list)
    not_sent: int = 0
    media: MediaSpans | None = None
    with_media: int = 0
    bad_arguments: int = 0


@dataclass(slots=True)
class _Chats:
    """The chat requests of a chunk: their rows and prompts, what stands in them, and which could not be rendered."""

    rows: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    rejects: list[tuple[str, str, str]] = field(default_factory=list)
    media: MediaFinder = field(default_factory=MediaFinder)
    bad_arguments: int = 0


@dataclass(slots=True)
class Keying:
    """How prompts become keys. ``block_size`` in tokens: as asked for, else as the log says, else the default.

    ``rules`` and ``kind`` (of what the log gives) are settled by the first chunk that has prompts or block ids.
    """

    template: ChatTemplate
    tokenizer: Tokenizer
    block_size: int | None = None
    rules: Rules | None = None
    strict: bool = False
    kind: Literal["prompts", "ids"] | None = None

    def key(self, table: pd.DataFrame) -> Keyed:
        """Return the chunk's prompts as keys; requests without a prompt are left out.

        Raises:
            InputError: block ids and prompts in one log, or ids of another block size than before.
            RejectedInput: ``strict`` and a request cannot be keyed.
        """
        sent = sent_rows(table)
        if not sent.all():
            return self._key_sent(table, np.flatnonzero(sent))
        has_ids = present(table, "block_keys")
        has_prompt = present(table, "messages") | present(table, "prompt") | present(table, "token_ids")
        if has_ids.any() and (has_prompt.any() or self.kind == "prompts"):
            raise self._mixed(table, has_prompt if has_prompt.any() else has_ids)
        if has_prompt.any() and self.kind == "ids":
            raise self._mixed(table, has_prompt)
        if has_ids.any():
            self.kind = "ids"
            return self._given(table)
        if has_prompt.any():
            self.kind = "prompts"
            self._settle(DEFAULT_BLOCK_TOKENS, "vllm")
        return self._from_tokens(table)

    def _key_sent(self, table: pd.DataFrame, rows: NDArray[np.int64]) -> Keyed:
        keyed = self.key(table.iloc[rows].reset_index(drop=True))
        return replace(keyed, rows=rows[keyed.rows], not_sent=len(table) - len(rows))

    def _mixed(self, table: pd.DataFrame, where: NDArray[np.bool_]) -> InputError:
        place = text_column(table, "source")[int(where.argmax())]
        return InputError(
            f"{place}: prompts and block ids in one run; block ids cannot be compared with prompts: "
            "analyze them apart."
        )

    def _settle(self, block_size: int, rules: Rules) -> None:
        self.block_size = self.block_size or block_size
        self.rules = self.rules or rules

    def _given(self, table: pd.DataFrame) -> Keyed:
        sizes = integer_column(table, "block_size", missing=0)
        named = np.unique(sizes[sizes > 0]).tolist()
        self._settle(named[0] if named else TRACE_BLOCK_TOKENS, "trace")
        size = self.block_size or TRACE_BLOCK_TOKENS
        if any(other != size for other in named):
            at = text_column(table, "source")[int(((sizes > 0) & (sizes != size)).argmax())]
            raise InputError(
                f"{at}: block ids of {next(o for o in named if o != size)} tokens where {size} are expected; "
                "ids cannot be cut anew: leave out --block-size, or analyze such files apart."
            )
        ids = ragged_column(table, "block_keys")
        tokens = integer_column(table, "prompt_tokens", missing=0)
        counts = ids.lengths()
        fits = counts == block_count(tokens, size, partial=True)
        rejects = [
            (place or "", "bad_hash_ids", f"{have:,} ids cannot cover {of:,} tokens in blocks of {size}")
            for place, have, of, ok in zip(text_column(table, "source"), counts, tokens, fits, strict=True)
            if have and not ok
        ]
        if 2 * len(rejects) > int((counts > 0).sum()):
            raise _other_block_size(table, counts, tokens, size)
        self._refuse(rejects)
        rows = np.flatnonzero((counts > 0) & fits)
        if self.rules == "vllm":
            ids = _without_partial(ids, tokens // size)
        namespaces = text_column(table, "namespace")
        keys = given_keys(ids.take(rows), [namespaces[row] for row in rows])
        return Keyed(rows, tokens[rows], keys, None, rejects)

    def _from_tokens(self, table: pd.DataFrame) -> Keyed:
        chats = self._render(table)
        rows, tokens = self._tokens(table, chats)
        self._refuse(chats.rejects)
        namespaces = text_column(table, "namespace")
        media = chats.media.spans(table, rows, self.tokenizer)
        keys = block_keys(
            tokens,
            [namespaces[row] for row in rows],
            self.block_size or DEFAULT_BLOCK_TOKENS,
            partial=self.rules == "trace",
            media=media,
        )
        return Keyed(
            rows,
            tokens.lengths(),
            keys,
            tokens,
            chats.rejects,
            media=media,
            with_media=chats.media.requests,
            bad_arguments=chats.bad_arguments,
        )

    def _tokens(self, table: pd.DataFrame, chats: _Chats) -> tuple[NDArray[np.int64], Ragged]:
        has_ids = present(table, "token_ids")
        has_prompt = present(table, "prompt") & ~has_ids & ~present(table, "messages")
        prompts = text_column(table, "prompt")
        raw = np.flatnonzero(has_prompt)
        given = np.flatnonzero(has_ids)
        parts = [
            self.tokenizer.encode(chats.texts),
            self.tokenizer.framed([prompts[row] or "" for row in raw]),
            ragged_column(table, "token_ids").take(given),
        ]
        rows = np.concatenate((chats.rows, raw, given)).astype(np.int64)
        order = np.argsort(rows, kind="stable")
        return rows[order], concat_ragged(parts, np.int32).take(order)

    def _render(self, table: pd.DataFrame) -> _Chats:
        """Return the prompts of the requests that have messages and no token ids."""
        messages, tools = text_column(table, "messages"), text_column(table, "tools")
        sources = text_column(table, "source")
        chats = _Chats()
        for row in np.flatnonzero(present(table, "messages") & ~present(table, "token_ids")).tolist():
            encoded, tool_list = messages[row] or "[]", tools[row]
            decoded = msgspec.json.decode(encoded)
            own_tools = msgspec.json.decode(tool_list) if tool_list else None
            try:
                text = self.template.render(decoded, own_tools)
            except TemplateError as error:
                chats.rejects.append((sources[row] or "", "template_refuses", str(error)))
                continue
            chats.rows.append(row)
            chats.texts.append(text)
            # Only a list of parts holds media; looking for nine words in a long text is a sixth of rendering it.
            if any(isinstance(message.get("content"), list) for message in decoded) and holds_media(encoded):
                chats.media.add(row, text, decoded, own_tools, self.template)
            if '"tool_calls"' in encoded:
                chats.bad_arguments += bool(malformed_arguments(decoded))
        return chats

    def _refuse(self, rejects: list[tuple[str, str, str]]) -> None:
        if self.strict and rejects:
            source, _, detail = rejects[0]
            raise RejectedInput(f"{source}: {detail}; leave out --strict to count it and read on.")


def sent_rows(table: pd.DataFrame) -> NDArray[np.bool_]:
    """Return which requests reached an engine: a retry after a lost connection is a lookup, the lost one is none."""
    return np.array([status not in NEVER_SENT for status in text_column(table, "status")], dtype=np.bool_)


def _other_block_size(
    table: pd.DataFrame, counts: NDArray[np.int64], tokens: NDArray[np.int64], size: int
) -> InputError:
    """Say which block size the ids were cut with, where most of them do not fit the one that was taken."""
    some, several = counts > 0, counts > 1
    least = int((-(-tokens[some] // counts[some])).max())
    most = int(((tokens[several] - 1) // (counts[several] - 1)).min()) if several.any() else least
    fitting = 1 << (least - 1).bit_length()
    advice = f"give --block-size {fitting}" if least <= fitting <= most else "check --block-size"
    place = text_column(table, "source")[int(some.argmax())]
    return InputError(
        f"{place}: most block ids do not fit blocks of {size} tokens; ids cannot be cut anew: {advice}."
    )


def _without_partial(ids: Ragged, full_blocks: NDArray[np.int64]) -> Ragged:
    lengths = np.minimum(ids.lengths(), full_blocks)
    rows = [ids.row(i)[:length] for i, length in enumerate(lengths.tolist())]
    return concat_ragged([Ragged(row, np.array([0, len(row)], dtype=np.int64)) for row in rows], np.uint64)
