"""Findings on the page: when advice is given, when it is not, and what is said of patterns."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Run

TEXT = " ".join(f"Rule {n} is to answer kindly and in full." for n in range(12))


def line(system: str, **more: object) -> str:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": "go"}]
    return json.dumps({"messages": messages, **more}) + "\n"


def test_no_advice_where_the_engine_reuses_nothing(kvtools: Run, tmp_path: Path) -> None:
    """The prompts share what a cache needs and the server reports no hit: no rewrite helps."""
    usage = {"prompt_tokens": 120, "prompt_tokens_details": {"cached_tokens": 0}}
    log = tmp_path / "log.jsonl"
    log.write_text(
        "".join(line(f"{TEXT} Now: 2026-09-21T14:00:{n:02}Z {TEXT}", usage=usage) for n in range(30))
    )
    page = kvtools("analyze", log).out
    assert "What breaks the prefix" not in page
    assert "within reach" not in page
    assert "0.0 % hit rate on the server" in page


def test_a_pattern_that_matches_nothing_is_named(kvtools: Run, tmp_path: Path) -> None:
    patterns = tmp_path / "patterns.toml"
    patterns.write_text("[[pattern]]\nname = 'ticket_code'\nregex = 'ZZ-[0-9]{9}'\n")
    log = tmp_path / "log.jsonl"
    log.write_text("".join(line(f"Now: 2026-09-21T14:00:{n:02}Z {TEXT}") for n in range(30)))
    told = kvtools("analyze", log, "--patterns", patterns)
    assert told.code == 0
    assert "pattern ticket_code matched none of the varying text" in told.err


def test_prices_exclude_each_other(kvtools: Run, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(line("You help."))
    assert kvtools("analyze", log, "--price", "0").code == 2
    assert kvtools("analyze", log, "--gpu-hour-price", "2").code == 2
    told = kvtools("analyze", log, "--price", "1", "--gpu-hour-price", "2", "--prefill-tokens-per-s", "9000")
    assert (told.code, told.err.count("\n")) == (2, 1)
