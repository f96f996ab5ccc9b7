"""``label``: the class of each request of a log by given rules."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from kvtools.errors import UsageError
from kvtools.flow.arrivals import arrivals_of
from kvtools.flow.intake import IntakeOptions, Watcher, take_in
from kvtools.heat.rules_file import read_rules
from kvtools.report.files import replacing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from kvtools.flow.arrivals import Arrivals
    from kvtools.flow.intake import Intake, PathLike
    from kvtools.heat.rules import RuleSet
    from kvtools.heat.thresholds import Arrived

_FORMS = (".jsonl", ".parquet")
_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelOptions(IntakeOptions):
    """What ``label`` can be told besides how to read: ``rules_file`` (YAML), and ``target``, .jsonl or .parquet."""

    rules_file: Path
    target: Path

    def __post_init__(self) -> None:
        if self.target.suffix not in _FORMS:
            raise UsageError(f"-o {self.target}: name a file that ends in .jsonl or .parquet.")


@dataclass(frozen=True, slots=True)
class Labelled:
    """How many requests each rule labelled, in the order of the rules; the default last, with rule ``None``.

    ``unknown``: features that rules ask for and no request of the log shows, so that these rules fit none.
    ``left_out``: requests without a prompt in a log that has prompts. ``rejected``: records that could not be read.
    """

    by_rule: tuple[tuple[str | None, str, int], ...]
    unknown: tuple[str, ...]
    left_out: int
    rejected: int

    def count(self, label: str) -> int:
        """Return how many requests have a label."""
        return sum(count for _, one, count in self.by_rule if one == label)


def label(
    paths: Sequence[PathLike] | PathLike, options: LabelOptions, watcher: Watcher | None = None
) -> Labelled:
    """Write id, class and rule of each request to ``options.target``, in the order of the log.

    Raises:
        InputError: the rules or the log cannot be read, or no request in it can be used.
        UsageError: an option is out of its range.
    """
    rules = read_rules(options.rules_file)
    return take_in(paths, options, watcher or Watcher(), lambda intake: _label(intake, rules, options))


def _label(intake: Intake, rules: RuleSet, options: LabelOptions) -> Labelled:
    from kvtools.heat.thresholds import Arrived  # noqa: PLC0415 - brings in the model

    found = arrivals_of(intake)
    arrived = Arrived.of(found.columns)
    decided = _decided(arrived, rules, len(found.names))
    with replacing(options.target) as file:
        if options.target.suffix == ".jsonl":
            for lines in _json_lines(found, decided, rules):
                file.write(lines)
        else:
            # The file is one of text only by its wrapper; parquet goes to the bytes below.
            _write_parquet(found, decided, rules, file.buffer)
    counts = Counter(decided.tolist())
    by_rule = [(rule.name, rule.label, counts[place]) for place, rule in enumerate(rules.rules)]
    return Labelled(
        by_rule=(*by_rule, (None, rules.default, counts[-1])),
        unknown=_unknown(arrived, rules),
        left_out=found.left_out,
        rejected=found.counts.rejected.total(),
    )


def _decided(arrived: Arrived, rules: RuleSet, requests: int) -> NDArray[np.int64]:
    """Return the place of the first rule that fits each request, -1 where none does."""
    decided = np.full(requests, -1, dtype=np.int64)
    for place in range(len(rules.rules) - 1, -1, -1):
        decided[arrived.fitting(rules.rules[place])] = place
    return decided


def _unknown(arrived: Arrived, rules: RuleSet) -> tuple[str, ...]:
    asked = dict.fromkeys(condition.feature for rule in rules.rules for condition in rule.when)
    known = {name for name, values in arrived.numbers.items() if not np.isnan(values).all()}
    known |= {name for name, places in arrived.names.items() if (places >= 0).any()}
    return tuple(name for name in asked if name not in known)


def _json_lines(found: Arrivals, decided: NDArray[np.int64], rules: RuleSet) -> Iterator[str]:
    encode = msgspec.json.Encoder().encode
    for start in range(0, len(decided), _AT_ONCE):
        stop = start + _AT_ONCE
        rows = zip(found.names[start:stop], decided[start:stop].tolist(), strict=True)
        yield b"".join(
            encode({"id": name, "class": _class(place, rules), "rule": _rule(place, rules)}) + b"\n"
            for name, place in rows
        ).decode()


def _class(place: int, rules: RuleSet) -> str:
    return rules.default if place < 0 else rules.rules[place].label


def _rule(place: int, rules: RuleSet) -> str | None:
    return None if place < 0 else rules.rules[place].name


def _write_parquet(found: Arrivals, decided: NDArray[np.int64], rules: RuleSet, sink: object) -> None:
    import pyarrow as pa  # noqa: PLC0415 - only here
    import pyarrow.parquet as pq  # noqa: PLC0415 - only here

    places = decided.tolist()
    columns = [
        pa.array(found.names, type=pa.large_string()),
        pa.array([_class(place, rules) for place in places], type=pa.string()),
        pa.array([_rule(place, rules) for place in places], type=pa.string()),
    ]
    table = pa.Table.from_arrays(columns, ["id", "class", "rule"])
    pq.write_table(table, sink, compression="zstd")
