"""``normalize``: a log with its prompts rewritten, proven line by line, and replayed before and after."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from kvtools import __version__
from kvtools.errors import InputError
from kvtools.flow.diagnose import Gathered
from kvtools.flow.intake import PathLike, Watcher, take_in
from kvtools.flow.normalize_stage import NormalizeOptions, Stage, again, quiet, staged
from kvtools.flow.rewrites import measured
from kvtools.normalize.modes import MODES
from kvtools.normalize.rules import chosen_rules
from kvtools.normalize.sidecar import SUFFIX, restored_file, restored_inline
from kvtools.report.coverage import coverage
from kvtools.report.files import replacing
from kvtools.report.model import SCHEMA_VERSION
from kvtools.report.normalize import HitRates, MovedField, NormalizedRequests, NormalizeReport

if TYPE_CHECKING:
    from collections.abc import Sequence


def normalize(
    paths: Sequence[PathLike] | PathLike, options: NormalizeOptions, watcher: Watcher | None = None
) -> NormalizeReport:
    """Rewrite the prompts of a log and return what was changed, with the hit rate before and after.

    Raises:
        InputError: the log cannot be read, is in a format whose lines cannot be rewritten, or has no prompt.
        UsageError: an option is wrong.
    """
    watch = watcher or Watcher()
    with ExitStack() as open_files:
        work = Path(open_files.enter_context(tempfile.TemporaryDirectory(prefix="kvtools-")))
        out = None if options.target is None else open_files.enter_context(replacing(options.target))
        beside = _sidecar_of(options)
        notes = None if beside is None else open_files.enter_context(replacing(beside))
        refused = None if options.refused is None else open_files.enter_context(replacing(options.refused))
        stages: list[Stage] = []
        for mode in (mode for mode in MODES if mode in options.modes):
            last = stages[-1] if stages else None
            stages.append(staged(paths, mode, options, last, work / f"{mode}.jsonl", refused, watch))
        last = stages[-1]
        after = _after(last, options, watch)
        _copied(last.path, out)
        _copied(last.sidecar, notes)
    return _report(stages, after, options)


def restore(path: Path, target: Path, sidecar: Path | None = None) -> int:
    """Write the log that ``normalize`` read to make ``path``; return its number of lines.

    ``sidecar`` is ``path`` + ``.kvtools`` where it is not given; lines that hold what restores them need none.

    Raises:
        InputError: a file is missing, or is not what ``normalize`` wrote.
    """
    beside = sidecar or path.with_name(path.name + SUFFIX)
    if not path.is_file():
        raise InputError(f"{path}: no such file; name what normalize wrote.")
    if sidecar is not None and not sidecar.is_file():
        raise InputError(f"{sidecar}: no such file; name the file beside OUT, OUT{SUFFIX}.")
    lines = restored_file(path, beside) if beside.is_file() else restored_inline(path)
    count = 0
    with replacing(target) as file:
        for raw in lines:
            file.buffer.write(raw)
            count += 1
    return count


def _sidecar_of(options: NormalizeOptions) -> Path | None:
    target = options.target
    if target is None or options.inline or "mask" in options.modes:
        return None
    return target.with_name(target.name + SUFFIX)


def _after(last: Stage, options: NormalizeOptions, watcher: Watcher) -> float | None:
    """Return the hit rate of what was written: read, rendered and replayed as any log is."""
    if not last.tally.changed:
        return last.log.now.hit_rate
    given = again(options, last)
    return take_in(
        [last.path],
        given,
        quiet(watcher),
        lambda intake: measured(intake, Gathered(None), options.capacity_blocks, options.memory).now.hit_rate,
    )


def _copied(source: Path, file: TextIO | None) -> None:
    if file is not None:
        with source.open("rb") as stream:
            shutil.copyfileobj(stream, file.buffer, 1 << 20)


def _report(stages: Sequence[Stage], after: float | None, options: NormalizeOptions) -> NormalizeReport:
    first, last = stages[0], stages[-1]
    spec, tally = first.log.whatif.spec, last.tally
    fields = _fields(last)
    return NormalizeReport(
        schema_version=SCHEMA_VERSION,
        kvtools_version=__version__,
        inputs=first.inputs,
        settings=first.settings,
        coverage=coverage(first.log.profile.counts, first.skipped),
        mode=[mode for mode in MODES if mode in options.modes],
        place=options.place,
        within=options.within,
        forms=list(chosen_rules(options.forms)) if "canonicalize" in options.modes else [],
        block_size=spec.block_size,
        capacity_blocks=spec.capacity_blocks,
        requests=NormalizedRequests(
            changed=tally.changed,
            unchanged=tally.unchanged,
            refused=tally.refused,
            not_read=tally.not_read,
            reasons=dict(sorted(sum((stage.tally.reasons for stage in stages), Counter()).items())),
        ),
        hit_rate=HitRates(before=first.log.now.hit_rate, after=after),
        fields=fields,
        templates=sorted({field.template for field in fields}),
        restorable="mask" not in options.modes,
        output=None if options.target is None else str(options.target),
    )


def _fields(stage: Stage) -> list[MovedField]:
    fields = []
    for moves in stage.chosen.moves:
        template = moves.template
        for name in dict.fromkeys(template.gaps[gap].name for gap in moves.gaps):
            requests = stage.tally.moved[template.template_id, name]
            gap = next(gap for gap in template.gaps if gap.name == name)
            if requests:
                fields.append(
                    MovedField(
                        name=name,
                        kind="section" if gap.shape == "section" else gap.kind.name,
                        granularity=gap.kind.granularity,
                        template=template.template_id,
                        role=template.role,
                        route=stage.chosen.routes.get(template.template_id),
                        requests=requests,
                    )
                )
    return sorted(fields, key=lambda field: (-field.requests, field.template, field.name))
