from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Reader

BODY = '"body":{"model":"m","messages":[{"role":"user","content":"hi"}]}'


def test_a_batch_line(lines_as: Reader) -> None:
    (row,) = lines_as(
        "openai-batch", f'{{"custom_id":"a","method":"POST","url":"/v1/chat/completions",{BODY}}}'
    ).rows
    assert row.pop("source").endswith("log.jsonl:1")
    assert row == {
        "request_id": "a",
        "namespace": "model=m",
        "route": "/v1/chat/completions",
        "messages": '[{"role":"user","content":"hi"}]',
    }


def test_a_route_in_the_body_wins_over_the_url(lines_as: Reader) -> None:
    line = '{"custom_id":"a","url":"/v1/completions","body":{"tenant":"shop","prompt":"x"}}'
    assert lines_as("openai-batch", line).column("route") == ["shop"]


def test_the_id_is_the_batch_line_s_own(lines_as: Reader) -> None:
    lines = (
        '{"custom_id":"a","body":{"id":"inner","prompt":["x","y"]}}',
        '{"custom_id":null,"body":{"id":"inner","prompt":["x","y"]}}',
    )
    assert lines_as("openai-batch", *lines).column("request_id") == ["a", "a#1", None, None]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"custom_id":"a"}', "no_body"),
        ('{"custom_id":"a","body":null}', "no_body"),
        ('{"custom_id":"a","body":{}}', "empty_object"),
        ('{"custom_id":"a","body":[]}', "bad_body"),
        ('{"custom_id":"a","body":{"messages":"hi"}}', "bad_body"),
        ('{"custom_id":"a","body":{"messages":[{"content":"hi"}]}}', "bad_messages"),
        ('{"custom_id":"a","body":{"prompt":[-1]}}', "bad_token_ids"),
    ],
)
def test_bodies_that_cannot_be_used(lines_as: Reader, line: str, reason: str) -> None:
    assert lines_as("openai-batch", line).reasons == [reason]


def test_a_dotted_route_key_goes_into_the_body(lines_as: Reader) -> None:
    line = '{"custom_id":"a","url":"/x","body":{"prompt":"x","metadata":{"team":"shop"}}}'
    assert lines_as("openai-batch", line, route_key="body.metadata.team").column("route") == ["shop"]
