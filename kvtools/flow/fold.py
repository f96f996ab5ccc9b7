"""The one pass over a log that ``analyze`` makes: its profile, and what findings and classes take besides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtools.executors import executor
from kvtools.executors.kept import Kept
from kvtools.flow.keyed_chunks import ChunkWork, KeyingSetup, Mapped, mapped_by
from kvtools.profile import LogProfile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvtools.executors import Executor
    from kvtools.flow.diagnose import Gathered
    from kvtools.flow.heat import HeatStage
    from kvtools.flow.intake import Intake
    from kvtools.readers import Chunk


def fold_log(intake: Intake, gathered: Gathered, heat: HeatStage) -> LogProfile:
    """Return the profile of the log; ``gathered`` and ``heat`` take what they need of each chunk."""
    profile = LogProfile()
    with executor(intake.options.work) as runner:
        for chunk, result in _mapped(intake, runner, profile):
            intake.rejects.add(chunk.reject_rows())
            intake.rejects.add(result.keyed.rejects)
            profile.merge(result.profile)
            gathered.add(chunk, result.keyed)
            heat.add(chunk, result.keyed)
    return profile


def _mapped(intake: Intake, runner: Executor, profile: LogProfile) -> Iterator[tuple[Chunk, Mapped]]:
    """Yield the chunks with what they come to, to be merged with ``profile`` at once.

    Those before the first prompt settle the keying, and are mapped here.
    """
    chunks = intake.fresh_chunks()
    for chunk, dropped in chunks:
        yield chunk, mapped_by(intake.keying, chunk, dropped)
        if intake.keying.kind is not None:
            break
    kept = _kept(intake)
    work = ChunkWork(runner, intake.keying, _setup(intake), kept, lambda: profile.seen.level)
    yield from work.results(chunks)
    if kept is not None:
        kept.prune()


def _setup(intake: Intake) -> KeyingSetup:
    keying = intake.keying
    return KeyingSetup(
        template=keying.template,
        tokenizer=intake.options.tokenizer,
        fast=intake.fast,
        block_size=keying.block_size,
        rules=keying.rules,
        strict=keying.strict,
        kind=keying.kind,
    )


def _kept(intake: Intake) -> Kept | None:
    folder = intake.options.work.cache_dir
    if folder is None:
        return None
    kept = Kept.at(folder)
    if kept is None:
        intake.watcher.warn(
            f"--cache-dir {folder}: not a folder of yours alone that can be written; nothing is kept."
        )
    return kept
