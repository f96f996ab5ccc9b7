"""Few values that come again and again are classes, not fields (case 046); any number of workers learns the same (047)."""

from __future__ import annotations

import json
import pickle
import random
from itertools import permutations
from pathlib import Path

import pytest

from kvtools.fields import SectionSample, grouped, learn_group
from kvtools.fields.catalogue import Catalogue
from kvtools.flow import NormalizeOptions, normalize
from kvtools.flow.analyze import AnalyzeOptions, analyze
from kvtools.report.findings import Finding

RULES = " Use metric units only, answer in one sentence, and never make anything up."


def log_of(folder: Path, prompts: list[str]) -> Path:
    path = folder / "log.jsonl"
    rows = ({"id": f"r{number}", "prompt": prompt} for number, prompt in enumerate(prompts))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def found(log: Path, capacity: int | None = None) -> list[Finding]:
    reading = AnalyzeOptions(tokenizer="bytes", chat_template="plain", block_size=4, capacity_blocks=capacity)
    return [one for one in analyze(log, reading).findings or () if one.severity != "info"]


def test_046_a_mode_of_two_values_is_a_class_and_the_number_a_field(tmp_path: Path) -> None:
    """The same text behind both modes, so that only how often a value comes tells them apart."""
    prompts = [f"Run in mode {n % 2 + 1}.{RULES} Request {100 + n}" for n in range(12)]
    log = log_of(tmp_path, prompts)
    assert found(log) == []
    options = NormalizeOptions(
        target=tmp_path / "out", tokenizer="bytes", chat_template="plain", block_size=4
    )
    assert normalize(log, options).requests.changed == 0
    # With the number in front too, it alone moves: each mode keeps its hot prefix.
    log = log_of(tmp_path, [f"Run {100 + 7 * n} in mode {n % 2 + 1}.{RULES}" for n in range(12)])
    assert [[field.distinct_values for field in one.fields] for one in found(log)] == [[12]]
    assert normalize(log, options).requests.changed == 12
    first = json.loads((tmp_path / "out").read_text().splitlines()[0])["prompt"]
    assert first.partition(" in mode ")[2].startswith(f"1.{RULES}")


@pytest.mark.parametrize(
    ("values", "is_field"),
    [
        # Each of the two stands in three requests; one that stands in two may have met by chance.
        (["1", "2"] * 3, False),
        (["1", "2", "1", "2", "1"], True),
        # Eight are few, nine are not.
        ([str(n) for n in range(8)] * 3, False),
        ([str(n) for n in range(9)] * 3, True),
        # Words are classes as numbers are; a time goes on to change, however few of them were seen.
        (["terse", "chatty"] * 6, False),
        (["08:30:00", "09:15:00"] * 6, True),
    ],
    ids=["three-times", "twice", "eight", "nine", "words", "times"],
)
def test_046_how_often_is_again_and_again(tmp_path: Path, values: list[str], is_field: bool) -> None:
    log = log_of(tmp_path, [f"Run in mode {value}.{6 * RULES} Text {n}" for n, value in enumerate(values)])
    assert bool(found(log)) is is_field


def test_046_a_class_that_the_cache_cannot_keep_costs_each_time(tmp_path: Path) -> None:
    # 40 blocks hold one prompt of 26, not two: every change of mode computes all of it again.
    log = log_of(tmp_path, [f"Run in mode {n % 2 + 1}.{RULES} Request {100 + n}" for n in range(12)])
    assert [one.kind for one in found(log, capacity=40)] == ["number"]


def lines_of(shared: Path, case: str) -> list[str]:
    (file,) = (shared / "cases").glob(f"{case}-*/input.jsonl")
    return [json.loads(line)["prompt"] for line in file.read_text().splitlines()]


def learned(sample: SectionSample) -> list[tuple[object, ...]]:
    groups = grouped(list(sample.texts.values()))
    return [
        (one.template.template_id, one.template, [(t.text, t.requests) for t in one.texts], one.values)
        for group in groups
        for one in learn_group(group, Catalogue.bundled())
    ]


def by_workers(prompts: list[str], workers: int, order: tuple[int, ...]) -> SectionSample:
    """Let each worker take every n-th prompt, send what it has, and merge what comes in this order."""
    sent = []
    for worker in range(workers):
        sample = SectionSample()
        for prompt in prompts[worker::workers]:
            sample.offer("prompt", prompt, None)
        sent.append(pickle.dumps(sample))
    merged = SectionSample()
    for worker in order:
        merged.merge(pickle.loads(sent[worker]))  # noqa: S301 - our own bytes
    return merged


@pytest.mark.parametrize("case", ["046", "047"])
def test_047_any_order_and_1_2_or_4_workers_give_one_result(shared: Path, case: str) -> None:
    prompts = lines_of(shared, case)
    alone = learned(by_workers(prompts, 1, (0,)))
    expected = json.loads(next((shared / "cases").glob(f"{case}-*/expected.json")).read_text())
    assert len(alone) == expected["templates"]
    for seed in range(4):
        shuffled = random.Random(seed).sample(prompts, len(prompts))
        for workers in (1, 2, 4):
            for order in permutations(range(workers)):
                assert learned(by_workers(shuffled, workers, order)) == alone
