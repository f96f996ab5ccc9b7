"""From the log to what the scheduler simulator runs: block ids of prompt and output, and when requests arrive."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kvtools.blocks import chained_keys
from kvtools.cache import Interner, Workload
from kvtools.errors import InputError
from kvtools.replay.log import UNKNOWN
from kvtools.table import Ragged, offsets_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvtools.model import CacheSpec
    from kvtools.replay.log import ReplayLog


def output_lengths(log: ReplayLog, spec: CacheSpec) -> NDArray[np.int64]:
    """Return how many tokens each request generates, at least 1 (``spec.outputs`` says which).

    ``text``: the recorded answer's tokens and the one that ends it.

    Raises:
        InputError: the log holds no output lengths, or no answers, at all.
    """
    if spec.outputs == "one":
        return np.ones(len(log), dtype=np.int64)
    if spec.outputs == "lengths":
        if len(log) and (log.output_tokens == UNKNOWN).all():
            raise InputError("--outputs lengths: the log holds no output lengths; replay with --outputs one.")
        return np.maximum(log.output_tokens, 1)
    if log.answer_tokens is None or (len(log) and not log.answer_tokens.lengths().any()):
        raise InputError(
            "--outputs text: the log holds no recorded answers; replay with --outputs one or lengths."
        )
    return log.answer_tokens.lengths() + 1


def workload(log: ReplayLog, spec: CacheSpec) -> Workload:
    """Return the log as the simulator takes it: dense ids of the full blocks of prompt and output.

    Raises:
        InputError: the log lacks what ``spec.outputs`` needs.
    """
    outputs = output_lengths(log, spec)
    ids = _block_ids(log, spec, outputs)
    return Workload(
        prompt_tokens=log.prompt_tokens,
        output_tokens=outputs,
        block_ids=ids.values,
        offsets=ids.offsets,
        arrival_us=log.arrival_us,
        priority=log.priority,
        skip_lookup=log.skip_lookup,
    )


def _block_ids(log: ReplayLog, spec: CacheSpec, outputs: NDArray[np.int64]) -> Ragged:
    if spec.outputs == "text" and log.tokens is not None and log.answer_tokens is not None:
        return _interned(_with_answers(log, log.tokens, log.answer_tokens, spec.block_size))
    prompts = _interned(log.keys)
    if spec.outputs == "one":
        return prompts
    # A block that holds a generated token belongs to this request alone: it gets an id that no other has.
    own = np.maximum((log.prompt_tokens + outputs - 1) // spec.block_size - prompts.lengths(), 0)
    offsets = offsets_of(prompts.lengths() + own)
    values = np.empty(int(offsets[-1]), dtype=np.int64)
    is_prompt = np.zeros(len(values), dtype=np.bool_)
    starts = np.repeat(offsets[:-1] - prompts.offsets[:-1], prompts.lengths())
    is_prompt[np.arange(len(prompts.values)) + starts] = True
    values[is_prompt] = prompts.values
    known = int(prompts.values.max()) + 1 if len(prompts.values) else 0
    values[~is_prompt] = np.arange(known, known + int(own.sum()))
    return Ragged(values, offsets)


def _interned(keys: Ragged) -> Ragged:
    return Ragged(Interner().intern(keys.values).astype(np.int64), keys.offsets)


def _with_answers(log: ReplayLog, prompts: Ragged, answers: Ragged, block_size: int) -> Ragged:
    rows = [np.concatenate((prompts.row(i), answers.row(i))) for i in range(len(prompts))]
    tokens = Ragged(np.concatenate(rows), offsets_of(prompts.lengths() + answers.lengths()))
    return chained_keys(tokens, log.namespace, block_size)
