"""One mode of ``normalize`` over one log: what it moves is chosen, then every line is rewritten and proven."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TextIO

import msgspec

from kvtools.errors import InputError, UsageError
from kvtools.flow.diagnose import Gathered, diagnosis_catalogue
from kvtools.flow.intake import Intake, IntakeOptions, PathLike, Watcher, take_in
from kvtools.flow.rewrites import Chosen, given, measured, named, paying
from kvtools.normalize.files import FileRewriter, Tally
from kvtools.normalize.lines import LineRewriter, NewLine, Where
from kvtools.normalize.manifest import ValuesFile, templates_written
from kvtools.normalize.modes import MODES, Canonical, Masking, Mode, Within
from kvtools.normalize.places import REWRITABLE
from kvtools.normalize.rules import chosen_rules
from kvtools.normalize.sidecar import SUFFIX, SidecarReader, SidecarWriter
from kvtools.readers.sources import opened
from kvtools.report.model import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from kvtools.fields.catalogue import Catalogue
    from kvtools.flow.rewrites import Measured
    from kvtools.flow.sizing import CacheMemory
    from kvtools.normalize.modes import TextRewriter
    from kvtools.report.model import Input


@dataclass(frozen=True, slots=True, kw_only=True)
class NormalizeOptions(IntakeOptions):
    """What ``normalize`` can be told besides how to read.

    ``target`` receives the log (``None``: nothing is written), ``target`` + ``.kvtools`` what restores it, or each
    line does with ``inline``. ``fields`` are moved whether they pay or not. ``forms`` are the rules of mode
    ``canonicalize``. ``learn`` receives the templates with their values, ``templates`` are taken instead of looking for
    what pays. ``refused`` receives a JSON line per text that stays. ``changed`` is shown each rewritten line:
    its source, as it was, and what became of it.
    """

    target: Path | None = None
    modes: tuple[Mode, ...] = ("hoist",)
    fields: tuple[str, ...] | None = None
    within: Within = "all"
    place: Where = "message"
    forms: tuple[str, ...] = ("default",)
    inline: bool = False
    refused: Path | None = None
    patterns: Path | None = None
    learn: Path | None = None
    templates: Path | None = None
    capacity_blocks: int | None = None
    memory: CacheMemory | None = None
    changed: Callable[[str, NewLine], None] | None = None

    def __post_init__(self) -> None:
        unknown = [mode for mode in self.modes if mode not in MODES]
        if unknown or not self.modes:
            raise UsageError(f"--mode {','.join(unknown)}: not a mode; take {', '.join(MODES)}.")
        if "mask" in self.modes and len(self.modes) > 1:
            raise UsageError("--mode mask loses values: it stands alone.")
        if self.templates is not None and self.fields is not None:
            raise UsageError("--templates says what moves: leave out --fields.")
        if "hoist" not in self.modes and (self.learn or self.templates):
            raise UsageError("--learn and --templates are for --mode hoist.")
        if self.learn is not None and self.target is None:
            raise UsageError("--learn writes templates: name OUT with -o as well.")
        if self.target is not None and self.target.suffix in {".gz", ".zst"}:
            raise UsageError(
                f"-o {self.target}: OUT is written as plain text; leave out {self.target.suffix}."
            )
        chosen_rules(self.forms)


@dataclass(slots=True)
class Stage:
    """One mode done: the log before it, what it rewrote, and where the result is.

    ``origins`` say for the lines of the result which file they are from: how many lines stand before that file.
    """

    log: Measured
    chosen: Chosen
    tally: Tally
    inputs: list[Input]
    settings: Settings
    skipped: tuple[str, ...]
    path: Path
    sidecar: Path
    log_format: str
    origins: list[tuple[int, str]]


def again(options: NormalizeOptions, last: Stage) -> NormalizeOptions:
    """Return the options with which what a stage wrote is read."""
    return replace(options, input_format=last.log_format, rejects=None, strict=False)


def quiet(watcher: Watcher) -> Watcher:
    """Return a watcher of a pass over lines that were read before: what is wrong with them has been told."""
    return watcher.quiet()


def staged(
    paths: Sequence[PathLike] | PathLike,
    mode: Mode,
    options: NormalizeOptions,
    last: Stage | None,
    path: Path,
    refused: TextIO | None,
    watcher: Watcher,
) -> Stage:
    """Run one mode over ``paths``, or over what the ``last`` stage wrote; the result is in ``path``.

    Raises:
        InputError: the log cannot be read, is in a format whose lines cannot be rewritten, or has no prompt.
        UsageError: a field that was named does not vary.
    """
    with_options, warn = options, watcher.warn
    if last is not None:
        paths = [last.path]
        with_options = again(options, last)
        watcher = quiet(watcher)
    return take_in(
        paths,
        with_options,
        watcher,
        lambda intake: _run(intake, mode, with_options, last, path, refused, warn),
    )


def _run(
    intake: Intake,
    mode: Mode,
    options: NormalizeOptions,
    last: Stage | None,
    path: Path,
    refused: TextIO | None,
    warn: Callable[[str], None],
) -> Stage:
    log_format = _one_format(intake)
    catalogue = diagnosis_catalogue(options.patterns)
    gathered = Gathered(catalogue if mode == "hoist" and options.templates is None else None)
    log = measured(intake, gathered, options.capacity_blocks, options.memory)
    chosen = Chosen()
    texts: TextRewriter
    if mode == "hoist":
        chosen = _chosen(intake, gathered, log, options)
        texts = chosen.rewriting
    elif mode == "mask":
        texts = Masking(catalogue, options.within)
    else:
        texts = Canonical(chosen_rules(options.forms), options.within)
    forms = chosen_rules(options.forms) if mode == "canonicalize" else ()
    rewriter = LineRewriter(texts, log_format, options.place, "tool_order" in forms, "argument_keys" in forms)
    sidecar = path.with_name(path.name + SUFFIX)
    with ExitStack() as learned:
        values = learned.enter_context(_learning(intake, chosen, options)) if mode == "hoist" else None
        inline = options.inline and mode == [each for each in MODES if each in options.modes][-1]
        tally, origins = _written(
            intake, rewriter, path, sidecar, _Told(refused, options.changed, values), last, inline=inline
        )
    if mode != "canonicalize":
        _tell_patterns(catalogue, warn)
    settings, skipped = _settings(intake, log), intake.log.skipped
    return Stage(log, chosen, tally, intake.inputs(), settings, skipped, path, sidecar, log_format, origins)


def _tell_patterns(catalogue: Catalogue, warn: Callable[[str], None]) -> None:
    """Tell which of the user's patterns had no part in what was done; asked when the last text has been looked at."""
    for name in catalogue.unmatched():
        warn(f"pattern {name} matched none of the varying text that was looked at.")
    for name in catalogue.stopped():
        warn(f"pattern {name} took too long and was left out.")


def _chosen(intake: Intake, gathered: Gathered, log: Measured, options: NormalizeOptions) -> Chosen:
    if options.templates is not None:
        return given(options.templates, options.within)
    if options.fields:
        catalogue = gathered.catalogue or diagnosis_catalogue(options.patterns)
        return named(gathered, catalogue, options.fields, options.within)
    return paying(intake, gathered, log, options.within)


def _learning(
    intake: Intake, chosen: Chosen, options: NormalizeOptions
) -> AbstractContextManager[ValuesFile | None]:
    """Return what takes the values of each rewritten text, into the folder of learned templates."""
    if options.learn is None:
        return nullcontext()
    return templates_written(options.learn, chosen.files(lambda text: _tokens(intake, text)))


def _tokens(intake: Intake, text: str) -> int:
    return int(intake.tokenizer.encode([text]).lengths()[0])


def _one_format(intake: Intake) -> str:
    formats = {file.reader.name: file.source.name for file in intake.log.files}
    for name, source in formats.items():
        if name not in REWRITABLE:
            raise InputError(
                f"{source}: {name}, whose lines cannot be rewritten in place (those of {', '.join(REWRITABLE)} can); "
                f"first kvtools convert {source} -o FILE --to chat-jsonl."
            )
    if len(formats) > 1:
        raise InputError(
            f"inputs in {' and '.join(sorted(formats))}: OUT is one format; normalize them one by one."
        )
    return next(iter(formats))


@dataclass(slots=True)
class _Told:
    """Who is told of what becomes of the lines; ``origins`` as of a ``Stage``."""

    refused: TextIO | None
    changed: Callable[[str, NewLine], None] | None
    values: ValuesFile | None
    origins: list[tuple[int, str]] = field(default_factory=list)

    def refuse(self, line: int, reason: str) -> None:
        if self.refused is not None:
            told = {"source": self._source(line), "reason": reason}
            self.refused.write(msgspec.json.encode(told).decode() + "\n")

    def watch(self, line: int, new: NewLine) -> None:
        if self.values is not None:
            for place, one in new.sections:
                self.values.section(line, place.message, one)
        if self.changed is not None:
            self.changed(self._source(line), new)

    def _source(self, line: int) -> str:
        before, name = next(origin for origin in reversed(self.origins) if origin[0] < line)
        return f"{name}:{line - before}"


def _written(
    intake: Intake,
    rewriter: LineRewriter,
    path: Path,
    sidecar: Path,
    told: _Told,
    last: Stage | None,
    *,
    inline: bool,
) -> tuple[Tally, list[tuple[int, str]]]:
    """Write the lines of all files to ``path``, what restores them to ``sidecar``."""
    with path.open("wb") as out, sidecar.open("wb") as notes:
        writer = SidecarWriter(notes)
        files = FileRewriter(out, writer, inline, told.refuse, told.watch)
        earlier = None if last is None else SidecarReader(last.sidecar)
        if last is not None:
            told.origins = last.origins
        intake.watcher.phase("rewriting", "bytes")
        intake.watcher.begin(intake.log.size_bytes())
        for file in intake.log.files:
            if last is None:
                told.origins.append((files.lines, file.source.name))
            with opened(file.source, intake.watcher.advance) as stream:
                files.rewrite(stream.stream, rewriter, earlier)
        writer.close()
        if earlier is not None:
            earlier.close()
    return files.tally, told.origins


def _settings(intake: Intake, log: Measured) -> Settings:
    return Settings(
        tokenizer=intake.tokenizer.name,
        tokenizer_check=intake.tokenizer_check(),
        chat_template=intake.template.name,
        order=log.order,
        measure_from=0.0,
    )
