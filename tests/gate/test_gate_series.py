from __future__ import annotations

import json
from pathlib import Path

from kvtools.gate.series import Sample, drops


def test_case_095_one_sustained_drop_is_told_once_with_its_cause(shared: Path) -> None:
    case = shared / "cases" / "095-baseline-median-and-cooldown"
    expected = json.loads((case / "expected.json").read_text())
    samples = [
        Sample(line["key"], line["rate"], {name: line[name] for name in ("tools_hash", "system_hash")})
        for line in map(json.loads, (case / "input.jsonl").read_text().splitlines())
    ]
    found = drops(samples)
    assert len(found) == expected["alerts"]
    (drop,) = found
    assert (drop.index, drop.causes) == (expected["change_index"], (expected["cause"],))
    assert drop.drop_class in {"major", "cliff"}
    # The median of 0.91, 0.90, 0.92, 0.91.
    assert (drop.baseline, drop.rate) == (0.91, 0.55)


def test_keys_are_never_mixed_and_two_samples_are_needed() -> None:
    mixed = [
        Sample("a", 0.9),
        Sample("b", 0.2),
        Sample("a", 0.9),
        Sample("b", 0.2),
        Sample("a", 0.9),
        Sample("b", 0.2),
    ]
    assert drops(mixed) == []
    assert drops([Sample("a", 0.9), Sample("a", 0.1)]) == []
    assert [drop.drop_class for drop in drops([*[Sample("a", 0.9)] * 2, Sample("a", 0.1)])] == ["cliff"]


def test_a_second_drop_is_told_from_the_new_level() -> None:
    rates = [0.9, 0.9, 0.8, 0.8, 0.4]
    found = drops([Sample("a", rate) for rate in rates])
    assert [(drop.index, drop.baseline, drop.drop_class) for drop in found] == [
        (2, 0.9, "minor"),
        (4, 0.8, "major"),
    ]
