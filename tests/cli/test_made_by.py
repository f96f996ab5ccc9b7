"""The command that a page names, to make it again."""

from __future__ import annotations

import pytest

from kvtools.cli.report_files import made_by


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["replay", "a log.jsonl"], "kvtools replay 'a log.jsonl'"),
        (["replay", "a.jsonl", "--url", "http://host:8000"], "kvtools replay a.jsonl --url http://host:8000"),
        (["replay", "a.jsonl", "--url", "http://host", "--api-key", "sk-1"], None),
        (["replay", "a.jsonl", "--url", "http://host", "--api-key=sk-1"], None),
        (["replay", "a.jsonl", "--url", "http://me:secret@host"], None),
        (["replay", "a.jsonl", "--url=http://host/v1?key=1"], None),
        (["replay", "-"], None),
    ],
    ids=["quoted", "url", "key", "key-joined", "login", "query", "stdin"],
)
def test_the_command_is_named_where_it_holds_no_secret(
    words: list[str], named: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["kvtools", *words])
    assert made_by((words[1],)) == named
