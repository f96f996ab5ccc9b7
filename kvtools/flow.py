"""The verbs: each joins the rooms for one question. This is the Python API; the command line calls nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvtools.cache import Interner, Prompts, study_cache
from kvtools.chat import DEFAULT_TEMPLATE, load
from kvtools.errors import InputError, UsageError
from kvtools.model import CacheSpec, Outputs, Rules
from kvtools.profile import Keying, LogProfile, map_chunk, prefix_similarity, replay_order
from kvtools.readers import FileTally, ReadOptions, discard_spool, find_inputs, read
from kvtools.readers.duplicates import Deduplicator
from kvtools.report.build import Findings, build_report
from kvtools.report.files import replacing
from kvtools.report.model import Input, Settings
from kvtools.report.rejects import RejectLog, reject_log
from kvtools.samples import SAMPLES
from kvtools.samples.canonical import canonical
from kvtools.tokens import (
    DEFAULT_TOKENIZER,
    CheckedTokenizer,
    FastTokenizerDiffers,
    Tokenizer,
    load_tokenizer,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kvtools.readers import InputLog
    from kvtools.report.model import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyzeOptions:
    """What ``analyze`` can be told; a field that is ``None`` is settled by the log.

    ``measure_from`` (0..1) counts only the requests after that share of the log; ``curve_blocks`` are the
    cache sizes to print; ``rejects`` receives a JSON line per rejected record; ``strict`` stops at the first.
    """

    input_format: str | None = None
    route_key: str | None = None
    chat_template: str = DEFAULT_TEMPLATE
    tokenizer: str = DEFAULT_TOKENIZER
    block_size: int | None = None
    capacity_blocks: int | None = None
    rules: Rules | None = None
    outputs: Outputs = "one"
    measure_from: float = 0.0
    curve_blocks: tuple[int, ...] | None = None
    rejects: Path | None = None
    strict: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.measure_from < 1:
            raise UsageError(f"--measure-from {self.measure_from:g}: a share of the log, from 0 to below 1.")
        if self.curve_blocks and min(self.curve_blocks) < 1:
            raise UsageError(f"--curve-blocks {min(self.curve_blocks)}: a cache holds at least 1 block.")
        # A wrong size must not wait for the end of a long run to be told.
        CacheSpec(self.block_size or 1, self.capacity_blocks)


@dataclass(slots=True)
class Watcher:
    """What a long run tells whoever waits: how far it is, and what went wrong on the way."""

    begin: Callable[[int], None] = lambda _: None
    advance: Callable[[int], None] = lambda _: None
    warn: Callable[[str], None] = lambda _: None


def analyze(
    paths: Sequence[str | Path] | str | Path,
    options: AnalyzeOptions | None = None,
    watcher: Watcher | None = None,
) -> Report:
    """Return how well the prompts of a log reuse the prefix cache, and how much cache that takes.

    ``paths``: files, globs, folders, or ``-`` for standard input.

    Raises:
        InputError: a path is missing, unreadable or of no known format, or no request has a prompt.
        RejectedInput: ``options.strict`` and a record cannot be used.
        TemplateError: the chat template is missing or broken.
        UsageError: an option is out of its range.
    """
    options, watcher = options or AnalyzeOptions(), watcher or Watcher()
    named = [str(path) for path in ([paths] if isinstance(paths, (str, Path)) else paths)]
    log = find_inputs(named, options.input_format)
    try:
        with reject_log(options.rejects) as rejects:
            found, block_size, rules = _profile(log, options, watcher, rejects)
            for line in rejects.first:
                watcher.warn(f"{line}; rejected.")
    finally:
        discard_spool(log)
    return _study(found, options, block_size, rules)


@dataclass(slots=True)
class _Profiled:
    profile: LogProfile
    tallies: list[FileTally]
    skipped: tuple[str, ...]
    tokenizer: Tokenizer
    template: str


def _profile(
    log: InputLog, options: AnalyzeOptions, watcher: Watcher, rejects: RejectLog
) -> tuple[_Profiled, int, Rules]:
    """Fold the log; on a difference of the fast tokenizer begin again with the reference alone."""
    try:
        return _fold(log, options, watcher, rejects, fast=True)
    except FastTokenizerDiffers as difference:
        watcher.warn(
            f"the fast tokenizer differs from the reference in {difference}; "
            "the whole run is done again with the reference (about ten times slower)."
        )
        rejects.restart()
        return _fold(log, options, watcher, rejects, fast=False)


def _fold(
    log: InputLog, options: AnalyzeOptions, watcher: Watcher, rejects: RejectLog, *, fast: bool
) -> tuple[_Profiled, int, Rules]:
    template = load(options.chat_template)
    tokenizer = load_tokenizer(options.tokenizer, fast=fast)
    keying = Keying(template, tokenizer, options.block_size, options.rules, options.strict)
    profile, tallies, once = LogProfile(), list[FileTally](), Deduplicator()
    watcher.begin(log.size_bytes())
    for chunk in read(log, ReadOptions(options.route_key, options.strict), tallies, watcher.advance):
        fresh, dropped = once.first_time(chunk)
        mapped, refused = map_chunk(fresh, keying)
        mapped.duplicates = dropped
        profile.merge(mapped)
        rejects.add(chunk.reject_rows())
        rejects.add(refused)
    if keying.block_size is None or keying.rules is None or not profile.prompts:
        raise _nothing_to_analyze(profile, tallies)
    return _Profiled(profile, tallies, log.skipped, tokenizer, template.name), keying.block_size, keying.rules


def _nothing_to_analyze(profile: LogProfile, tallies: list[FileTally]) -> InputError:
    names = ", ".join(tally.path for tally in tallies[:3]) + (", …" if len(tallies) > 3 else "")
    return InputError(
        f"no request with a prompt in {names}: {profile.records:,} records read, "
        f"{profile.rejected.total():,} rejected, {profile.without_prompt:,} without a prompt; "
        "check the format (--input-format) and list what was rejected (--rejects FILE)."
    )


def _study(found: _Profiled, options: AnalyzeOptions, block_size: int, rules: Rules) -> Report:
    requests = found.profile.requests()
    ids = Interner().intern(requests.keys.values)
    prefix = prefix_similarity(requests, ids)
    order = replay_order(requests)
    if order is not None:
        requests, prefix = requests.take(order), prefix.take(order)
        ids = Interner().intern(requests.keys.values)
    spec = CacheSpec(block_size, options.capacity_blocks, rules, options.outputs)
    prompts = Prompts(requests.prompt_tokens, ids, requests.keys.offsets)
    study = study_cache(prompts, spec, options.measure_from)
    settings = Settings(
        tokenizer=found.tokenizer.name if found.profile.has_text else "none (block ids given)",
        tokenizer_check=_check_of(found),
        chat_template=found.template,
        order="log" if order is None else "arrival",
        measure_from=options.measure_from,
    )
    inputs = [Input(path=t.path, sha256=t.sha256, requests=t.requests) for t in found.tallies]
    findings = Findings(inputs, settings, found.skipped, found.profile, requests, prefix, study)
    return build_report(findings, options.curve_blocks)


def _check_of(found: _Profiled) -> str:
    tokenizer = found.tokenizer
    if not found.profile.has_text:
        return "not needed"
    if not isinstance(tokenizer, CheckedTokenizer):
        return "reference"
    return (
        f"fast, equal to the reference on {tokenizer.checked_prompts} prompts "
        f"and {tokenizer.checked_code_points} code points"
    )


def write_sample(name: str, target: Path) -> list[Path]:
    """Write a bundled synthetic log and return the files (never half: each beside its place, then renamed).

    ``shop-assistant`` is the file ``target``; ``canonical`` is several files in the folder ``target``.

    Raises:
        UsageError: there is no such sample.
        InputError: a file cannot be written.
    """
    if name == "canonical":
        target.mkdir(parents=True, exist_ok=True)
        files = {target / file: lines for file, lines in canonical(_default_ids).items()}
    elif name in SAMPLES:
        files = {target: SAMPLES[name]()}
    else:
        raise UsageError(f"no sample named {name}; there are: {', '.join((*SAMPLES, 'canonical'))}.")
    for path, lines in files.items():
        with replacing(path) as file:
            for line in lines:
                file.write(line.decode())
    return list(files)


def _default_ids(messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> list[int]:
    text = load(DEFAULT_TEMPLATE).render(messages, tools)
    ids: list[int] = load_tokenizer(fast=False).encode([text]).values.tolist()
    return ids
