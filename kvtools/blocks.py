"""Token ids to block keys: one 64-bit key per block, chained, so that equal keys mean equal prefixes.

As in vLLM (``kv_cache_utils.hash_block_tokens``) a block's key covers its own tokens, the key of the block
before it, and the request's namespace; where a picture or sound touches it, also that medium's hash and its place
in the block (``generate_block_hash_extra_keys``). vLLM takes SHA-256; 64 bits suffice to count: among 1e8 distinct
blocks two keys are equal by chance with probability 2.7e-4 (n**2 / 2**65).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kvtools.jit import kernel
from kvtools.table import Ragged, digest64, offsets_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

# MurmurHash3's 64-bit constants and finalizer (Austin Appleby, public domain).
_C1 = np.uint64(0x87C37B91114253D5)
_C2 = np.uint64(0x4CF5AD432745937F)
_F1 = np.uint64(0xFF51AFD7ED558CCD)
_F2 = np.uint64(0xC4CEB9FE1A85EC53)
_FIVE = np.uint64(5)
_ADD = np.uint64(0x52DCE729)
_R27, _R31, _R33, _R37 = np.uint64(27), np.uint64(31), np.uint64(33), np.uint64(37)


@kernel
def mix64(value: np.uint64) -> np.uint64:
    """Spread every bit of ``value`` over all 64 (MurmurHash3 fmix64; a bijection)."""
    value ^= value >> _R33
    value *= _F1
    value ^= value >> _R33
    value *= _F2
    return value ^ (value >> _R33)


@kernel
def _absorb(state: np.uint64, token: np.uint64) -> np.uint64:
    word = token * _C1
    word = (word << _R31) | (word >> _R33)
    state ^= word * _C2
    state = (state << _R27) | (state >> _R37)
    return state * _FIVE + _ADD


@kernel
def _chain(
    tokens: NDArray[np.int32],
    offsets: NDArray[np.int64],
    seeds: NDArray[np.uint64],
    block_size: int,
    key_offsets: NDArray[np.int64],
    extra: NDArray[np.uint64],
    keys: NDArray[np.uint64],
) -> None:
    for request in range(len(offsets) - 1):
        state = mix64(seeds[request] ^ _C1)
        token, end = offsets[request], offsets[request + 1]
        for block in range(key_offsets[request], key_offsets[request + 1]):
            stop = min(token + block_size, end)
            while token < stop:
                state = _absorb(state, np.uint64(tokens[token]))
                token += 1
            if len(extra) and extra[block]:
                state = _absorb(state, extra[block])
            state = mix64(state)
            keys[block] = state


def block_count(tokens: NDArray[np.int64], block_size: int, *, partial: bool) -> NDArray[np.int64]:
    """Return how many blocks ``tokens`` tokens fill; with ``partial`` the last one may be incomplete."""
    counts: NDArray[np.int64] = (tokens + block_size - 1) // block_size if partial else tokens // block_size
    return counts


@dataclass(frozen=True, slots=True, eq=False)
class MediaSpans:
    """Pictures, sounds and films in prompts, one entry each: whose prompt, first token, tokens, and what it is.

    ``request`` is the prompt's row; ``offset`` and ``length`` are in tokens; ``digest`` (uint64) is equal for equal
    media. Placeholder tokens are the same whatever a medium shows: without its hash, prompts with different
    pictures would seem to hit each other.
    """

    request: NDArray[np.int64]
    offset: NDArray[np.int64]
    length: NDArray[np.int64]
    digest: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.request)


def block_keys(
    token_ids: Ragged,
    namespaces: Sequence[str | None],
    block_size: int,
    *,
    partial: bool = False,
    media: MediaSpans | None = None,
) -> Ragged:
    """Return the chained uint64 keys of each prompt's full blocks (with ``partial``, of its last tokens too).

    ``token_ids`` holds int32 ids, ``namespaces`` one name per row; ``block_size`` is in tokens. ``media`` enter the
    keys of the blocks that they touch.
    """
    return chained_keys(token_ids, namespace_seeds(namespaces), block_size, partial=partial, media=media)


def chained_keys(
    token_ids: Ragged,
    seeds: NDArray[np.uint64],
    block_size: int,
    *,
    partial: bool = False,
    media: MediaSpans | None = None,
) -> Ragged:
    """Return the keys as ``block_keys`` does, from the digests of the namespaces (uint64, one per row)."""
    key_offsets = offsets_of(block_count(token_ids.lengths(), block_size, partial=partial))
    keys = np.empty(int(key_offsets[-1]), dtype=np.uint64)
    extra = _media_in_blocks(media, block_size, key_offsets)
    _chain(token_ids.values, token_ids.offsets, seeds, block_size, key_offsets, extra, keys)
    return Ragged(keys, key_offsets)


def _media_in_blocks(
    media: MediaSpans | None, block_size: int, key_offsets: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """Return per block a hash of the media that touch it, with their places (0: none); empty without media."""
    if media is None or not len(media):
        return np.empty(0, dtype=np.uint64)
    extra = np.zeros(int(key_offsets[-1]), dtype=np.uint64)
    for request, offset, length, digest in zip(
        media.request.tolist(),
        media.offset.tolist(),
        media.length.tolist(),
        media.digest.tolist(),
        strict=True,
    ):
        first, end = int(key_offsets[request]), int(key_offsets[request + 1])
        touched = -(-(offset + length) // block_size)
        for block in range(offset // block_size, min(touched, end - first)):
            name = f"{int(extra[first + block])} {digest} {offset - block * block_size}"
            extra[first + block] = digest64(name) or 1
    return extra


@kernel
def _seed_given(
    given: NDArray[np.uint64], offsets: NDArray[np.int64], seeds: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    keys = np.empty(len(given), dtype=np.uint64)
    for request in range(len(offsets) - 1):
        for block in range(offsets[request], offsets[request + 1]):
            keys[block] = mix64(given[block]) ^ seeds[request]
    return keys


def given_keys(block_ids: Ragged, namespaces: Sequence[str | None]) -> Ragged:
    """Return keys for block ids that a trace lists: they stand for prefixes already, only the namespace is added."""
    return Ragged(
        _seed_given(block_ids.values, block_ids.offsets, namespace_seeds(namespaces)), block_ids.offsets
    )


def namespace_seeds(namespaces: Sequence[str | None]) -> NDArray[np.uint64]:
    """Return one uint64 per row: where the chain of that namespace starts."""
    seed_of = {name: digest64(name) for name in set(namespaces)}
    return np.array([seed_of[name] for name in namespaces], dtype=np.uint64)
