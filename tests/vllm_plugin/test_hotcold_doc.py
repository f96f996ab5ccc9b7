"""docs/hotcold.md: every setting with its default, only flags that vLLM has, the versions that are tested."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from kvtools.plan.flags import committed_table
from kvtools.vllm_plugin.settings import HotColdSettings, PrioritySettings
from kvtools.vllm_plugin.versions import TESTED

PAGE = (Path(__file__).resolve().parents[2] / "docs/hotcold.md").read_text()
SHOWN = {None: "none", True: "1"}


def _row(variable: str) -> str:
    (row,) = (line for line in PAGE.splitlines() if line.startswith("|") and f"`{variable}`" in line)
    return row


@pytest.mark.parametrize(("kind", "own_name"), [(HotColdSettings, True), (PrioritySettings, False)])
def test_every_setting_stands_with_its_default(kind: Any, own_name: bool) -> None:
    defaults = kind()
    for name in kind.__struct_fields__:
        cells = [cell.strip().strip("`") for cell in _row(f"KVTOOLS_{name.upper()}").strip("|").split("|")]
        default = getattr(defaults, name)
        shown = "a third of `--max-num-seqs" if name == "cold_limit" else SHOWN.get(default, default)
        if own_name:
            assert cells[0] == name
        assert cells[2 if own_name else 1] == (shown if isinstance(shown, str) else f"{shown:.10g}")


def test_only_flags_that_vllm_has() -> None:
    table = committed_table()
    assert table.vllm in TESTED
    known = {name for flag in table.flags for name in flag.names}
    named = set(re.findall(r"--[a-z][a-z-]+", PAGE))
    assert {"--scheduler-cls", "--middleware", "--scheduling-policy", "--additional-config"} <= named
    assert named <= known


def test_the_tested_versions_are_named() -> None:
    assert f"- vLLM {', '.join(TESTED)}. " in PAGE
