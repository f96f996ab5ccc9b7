"""``kvtools lint-queries`` as users run it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Run

RIGHT = "sum(rate(vllm:prefix_cache_hits_total[5m])) / sum(rate(vllm:prefix_cache_queries_total[5m]))"


def test_a_wrong_query_fails_with_its_place(kvtools: Run, tmp_path: Path) -> None:
    path = tmp_path / "queries.txt"
    path.write_text(
        f"up\nright {RIGHT}\nusage sum(vllm:kv_cache_usage_perc)\nold max(vllm:gpu_cache_usage_perc)\n"
    )
    ended = kvtools("lint-queries", path)
    first, second, *findings = ended.out.splitlines()
    assert (ended.code, first) == (1, "FAIL  1 error, 1 warning in 3 queries of prefix-cache metrics.")
    assert second == "  1 of other metrics, not judged"
    assert [line.split(": ")[:4] for line in findings] == [
        [f"{path}:3", "usage", "error", "summed_usage"],
        [f"{path}:4", "old", "warning", "old_name"],
    ]
    said = json.loads(kvtools("lint-queries", path, "--format", "json").out)
    assert said["counts"] == {"queries": 4, "judged": 3, "unreadable": 0, "errors": 1, "warnings": 1}
    assert [one["line"] for one in said["queries"]] == [2, 3, 4]


@pytest.mark.parametrize("kind", ["prometheus-rules", "grafana"])
def test_what_kvtools_exports_is_right(kvtools: Run, log: Path, kind: str) -> None:
    plain = ("--tokenizer", "bytes", "--chat-template", "plain")
    assert kvtools("export", kind, log, *plain, "-o", "exported").code == 0
    ended = kvtools("lint-queries", "exported")
    assert ended.code == 0
    assert ended.out.startswith("ok    ")
    assert int(ended.out.split()[1]) > 5
    assert "unreadable" not in ended.out


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [((), 2, "PATH"), (("nowhere.yaml",), 3, "nowhere.yaml"), (("log.jsonl", "-o", "log.jsonl"), 2, "overwrite")],
    ids=["nothing", "missing", "overwrite"],
)  # fmt: skip
def test_what_cannot_be_linted_is_one_sentence(
    kvtools: Run, log: Path, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], code: int, message: str
) -> None:
    monkeypatch.chdir(log.parent)
    ended = kvtools("lint-queries", *args)
    assert (ended.code, ended.out) == (code, "")
    assert message in ended.err
    assert ended.err.count("\n") == 1
