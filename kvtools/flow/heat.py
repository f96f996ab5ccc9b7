"""The classes of ``analyze``: hot and cold requests, their figures, and a file with the class of each request."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import msgspec
import numpy as np

from kvtools.errors import UsageError
from kvtools.flow.heat_reuse import reuse_distances
from kvtools.flow.heat_similarity import similarity_of_classes
from kvtools.flow.intake import IntakeOptions
from kvtools.heat.log import HeatLog
from kvtools.report.files import replacing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from kvtools.cache import CacheStudy
    from kvtools.heat.study import HeatStudy
    from kvtools.profile import Keyed, LogProfile, RequestColumns
    from kvtools.readers import Chunk
    from kvtools.report.model import Report

Prompted: TypeAlias = "tuple[RequestColumns, NDArray[np.int64] | None, NDArray[np.int64]]"
"""Requests with a prompt, their hit tokens where they are known, and their reuse distances."""

CLASS_RULES = ("article-b",)
_FORMS = (".jsonl", ".parquet")
_CLASS = {1: "hot", 0: "cold", -1: None}
_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatOptions(IntakeOptions):
    """What ``analyze`` can be told of classes.

    ``classes`` asks for them; ``classes_out`` (``.jsonl`` or ``.parquet``) receives id, class, class after the rules,
    component and score of each request, in the order of the log. ``class_rules``: names of ``CLASS_RULES``, further
    rules over the model.
    """

    classes: bool = True
    classes_out: Path | None = None
    class_rules: tuple[str, ...] = ()

    def check_classes(self) -> None:
        """Raise ``UsageError`` where these options do not fit together."""
        if self.classes_out is not None and self.classes_out.suffix not in _FORMS:
            raise UsageError(
                f"--classes-out {self.classes_out}: name a file that ends in .jsonl or .parquet."
            )
        if not self.classes and (self.classes_out is not None or self.class_rules):
            raise UsageError(
                "--no-classes: leaves nothing for --classes-out or --class-rules; drop one of them."
            )


@dataclass(slots=True)
class HeatStage:
    """Gathers what classes take, chunk by chunk, and puts them onto the report."""

    options: HeatOptions
    log: HeatLog = field(init=False)

    def __post_init__(self) -> None:
        self.log = HeatLog(named=self.options.classes_out is not None)

    def add(self, chunk: Chunk, keyed: Keyed) -> None:
        """Take the next chunk."""
        if self.options.classes:
            self.log.add(chunk.requests, keyed)

    def onto_lengths(self, report: Report) -> Report:
        """Return the report on a log without prompts with the classes of all its requests."""
        if not self.options.classes:
            return report
        study = self._study(None)
        self._write(study, self.log.kept(prompted=False))
        return _with(report, study, None)

    def onto(
        self,
        report: Report,
        profile: LogProfile,
        logged: RequestColumns,
        order: NDArray[np.int64] | None,
        study: CacheStudy,
    ) -> Report:
        """Return the report with the classes of the requests with a prompt.

        ``logged``: these in log order; ``study`` counts hits in the replay's ``order`` (``None``: the log's).
        """
        if not self.options.classes:
            return report
        hits = np.empty_like(study.result.hit_tokens)
        hits[slice(None) if order is None else order] = study.result.hit_tokens
        hits = _of_first_lookup(hits, logged, study.result.spec.block_size)
        reuse = reuse_distances(logged, order, study.result.spec)
        # Requests that only fill the cache count no hits: that is no sign of a cold one.
        skipped = int(len(hits) * report.settings.measure_from) > 0
        found = self._study((logged, None if skipped else hits, reuse))
        rows = self.log.kept(prompted=True)
        self._write(found, rows)
        return _with(report, found, (profile, logged, self.log.column("place")[rows]))

    def _study(self, prompts: Prompted | None) -> HeatStudy:
        from kvtools.heat.study import study_heat  # noqa: PLC0415 - only where classes are asked for

        columns = self.log.lengths_only() if prompts is None else self.log.with_prompts(*prompts)
        return study_heat(columns, article_b="article-b" in self.options.class_rules)

    def _write(self, study: HeatStudy, rows: NDArray[np.int64]) -> None:
        path = self.options.classes_out
        if path is None:
            return
        names = [self.log.names[row] for row in rows.tolist()]
        with replacing(path) as file:
            if path.suffix == ".jsonl":
                for lines in _json_lines(study, names):
                    file.write(lines)
            else:
                # The file is one of text only by its wrapper; parquet goes to the bytes below.
                _write_parquet(study, names, file.buffer)


def _with(
    report: Report,
    study: HeatStudy,
    text: tuple[LogProfile, RequestColumns, NDArray[np.int64]] | None,
) -> Report:
    from kvtools.heat.study import FORECAST_WINDOW_S, next_cold_burst  # noqa: PLC0415 - only where asked for
    from kvtools.report.class_shape import class_bins, class_windows  # noqa: PLC0415 - only where asked for
    from kvtools.report.heat import class_figures, heat_figures  # noqa: PLC0415 - only where asked for

    similar = {} if text is None else similarity_of_classes(study, *text)
    covered = report.period or report.traffic.period
    utc_offset_min = covered.utc_offset_min if covered else 0
    return msgspec.structs.replace(
        report,
        classes=class_figures(study, similar),
        heat=heat_figures(study, (next_cold_burst(study, utc_offset_min), FORECAST_WINDOW_S)),
        class_windows=class_windows(study, utc_offset_min),
        class_bins=class_bins(study),
    )


def _classes(study: HeatStudy) -> tuple[list[str | None], list[str | None], list[int], list[float | None]]:
    label, final = ([_CLASS[code] for code in codes.tolist()] for codes in (study.label, study.final))
    score = [None if np.isnan(value) else round(value, 6) for value in study.model.score.tolist()]
    return label, final, study.model.component.tolist(), score


def _json_lines(study: HeatStudy, names: list[str]) -> Iterator[str]:
    encode = msgspec.json.Encoder().encode
    lines: list[bytes] = []
    for name, label, final, component, score in zip(names, *_classes(study), strict=True):
        row = {"id": name, "class": label, "class_final": final, "component": component, "score": score}
        lines.append(encode(row))
        if len(lines) == _AT_ONCE:
            yield b"\n".join([*lines, b""]).decode()
            lines = []
    if lines:
        yield b"\n".join([*lines, b""]).decode()


def _write_parquet(study: HeatStudy, names: list[str], sink: object) -> None:
    import pyarrow as pa  # noqa: PLC0415 - only here
    import pyarrow.parquet as pq  # noqa: PLC0415 - only here

    label, final, component, score = _classes(study)
    columns = [
        pa.array(names, type=pa.large_string()),
        pa.array(label, type=pa.string()),
        pa.array(final, type=pa.string()),
        pa.array(component, type=pa.int32()),
        pa.array(score, type=pa.float64()),
    ]
    table = pa.Table.from_arrays(columns, ["id", "class", "class_final", "component", "score"])
    pq.write_table(table, sink, compression="zstd")


def _of_first_lookup(hits: NDArray[np.int64], logged: RequestColumns, block_size: int) -> NDArray[np.int64]:
    """Return the hits of each request's first lookup: the others, right behind it, find all its full blocks."""
    later = (logged.samples - 1) * ((logged.prompt_tokens - 1) // block_size) * block_size
    return np.maximum(hits - later, 0)
