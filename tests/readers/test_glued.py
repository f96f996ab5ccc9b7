"""Lines that are not JSON lines to the letter: several objects on one line, raw control characters in strings."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from kvtools.readers import ReadOptions, find_inputs, read
from kvtools.readers.records import escaped, objects, sniff_keys

ONE, TWO = b'{"id":"a","prompt":"one"}', b'{"id":"b","prompt":"t{w}o"}'


def reading(
    path: Path, *lines: bytes, strict: bool = False
) -> tuple[list[str], list[str], int, dict[str, int]]:
    """Return ids, reasons of the rejects, number of records, and what was repaired."""
    path.write_bytes(b"\n".join(lines) + b"\n")
    ids: list[str] = []
    reasons: list[str] = []
    records, repaired = 0, {}
    for chunk in read(find_inputs([str(path)], "chat-jsonl"), ReadOptions(strict=strict), []):
        ids += chunk.requests["request_id"].tolist()
        reasons += [reason for _, reason, _ in chunk.reject_rows()]
        assert chunk.records == len(chunk.requests) + len(chunk.rejects)
        records += chunk.records
        repaired |= chunk.repaired
    return ids, reasons, records, repaired


@pytest.mark.parametrize("between", [b"", b" ", b"\t \r"])
def test_objects_on_one_line_are_records_of_their_own(tmp_path: Path, between: bytes) -> None:
    line = between.join([ONE, TWO, ONE])
    assert reading(tmp_path / "log", line, TWO) == (["a", "b", "a", "b"], [], 4, {"glued_line": 1})


def test_whole_lines_are_not_touched(tmp_path: Path) -> None:
    inner = b'{"id":"c","prompt":"}{ {} \\" }{"}'
    assert reading(tmp_path / "log", ONE, inner) == (["a", "c"], [], 2, {})


def test_a_bad_object_among_good_ones_is_one_reject(tmp_path: Path) -> None:
    bad = b'{"id":"x","messages":"hi"}'
    assert reading(tmp_path / "log", bad + ONE + b"{broken}" + TWO) == (
        ["a", "b"], ["bad_messages", "bad_json"], 4, {"glued_line": 1},
    )  # fmt: skip


def test_a_cut_object_behind_a_whole_one(tmp_path: Path) -> None:
    assert reading(tmp_path / "log", ONE + TWO[:-4]) == (["a"], ["bad_json"], 2, {"glued_line": 1})


@pytest.mark.parametrize("tail", [b" garbage", b",", b"]", b"}", b'"x"', b"[" + TWO + b"]"])
def test_something_else_behind_an_object_spoils_the_line(tmp_path: Path, tail: bytes) -> None:
    assert reading(tmp_path / "log", ONE + tail) == ([], ["bad_json"], 1, {})


def test_a_cut_object_before_a_whole_one_is_one_reject(tmp_path: Path) -> None:
    assert reading(tmp_path / "log", ONE[:-4] + TWO) == ([], ["bad_json"], 1, {})


def test_not_utf8_in_one_of_them(tmp_path: Path) -> None:
    line = ONE + b'{"id":"x","prompt":"\xff"}' + TWO
    assert reading(tmp_path / "log", line) == (["a", "b"], ["bad_utf8"], 3, {"glued_line": 1})


def test_control_characters_in_strings_are_read(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(
        b'{"id":"a","prompt":"x\ty\x00z \\"\x1f\\\\ \xc3\xa9"}\n{"id":"b","prompt":"p\rq"}' + ONE + b"\n"
    )
    (chunk,) = read(find_inputs([str(path)], "chat-jsonl"), ReadOptions(), [])
    assert chunk.requests["prompt"].tolist() == ['x\ty\x00z "\x1f\\ é', "p\rq", "one"]
    assert dict(chunk.repaired) == {"control_char": 2, "glued_line": 1}


def test_control_characters_elsewhere_stay_faults(tmp_path: Path) -> None:
    lines = (b'{"id":"a",\x01"prompt":"x"}', b'{"id":"a","prompt":"x\\\t"}', b"\x00" * 9, b'{"prompt":"x\ty"')
    assert reading(tmp_path / "log", *lines) == ([], ["bad_json"] * 4, 4, {})


def test_a_field_of_another_shape_beside_a_control_character(tmp_path: Path) -> None:
    assert reading(tmp_path / "log", b'{"id":"x\ty","messages":5}') == ([], ["bad_messages"], 1, {})


def test_what_is_repaired_is_no_reject(tmp_path: Path) -> None:
    assert reading(tmp_path / "log", ONE + TWO, strict=True)[0] == ["a", "b"]


def test_the_route_of_each_object(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b'{"team":"x","prompt":"1"}{"team":"y","prompt":"a\tb"}\n')
    (chunk,) = read(find_inputs([str(path)], "chat-jsonl"), ReadOptions(route_key="team"), [])
    assert chunk.requests["route"].tolist() == ["x", "y"]
    assert {source[-2:] for source in chunk.requests["source"]} == {":1"}


def test_a_long_line_of_objects_is_cut_into_chunks(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b'{"id":"a","prompt":"%s"}' % (b"x" * (1 << 20)) * 20)
    sizes = [chunk.records for chunk in read(find_inputs([str(path)], "chat-jsonl"), ReadOptions(), [])]
    assert sum(sizes) == 20
    assert max(sizes) == 4


@pytest.mark.parametrize(
    "line",
    [
        b'{"prompt":"' + b'\\"' * (1 << 20),
        b"{" * (1 << 20),
        b"}{" * (1 << 18),
        b"} " * (1 << 18) + b"{",
        b'{"a":"\t' + b"\\" * (1 << 20),
        b'"' * (1 << 20) + b"}{",
    ],
)
def test_hostile_lines_take_linear_time(tmp_path: Path, line: bytes) -> None:
    start = time.process_time()
    assert reading(tmp_path / "log", line)[0] == []
    assert time.process_time() - start < 20


def test_objects() -> None:
    assert list(objects(b'{"a":{}} {"b":"}{"}')) == [b'{"a":{}}', b'{"b":"}{"}']
    assert list(objects(b'{"a":1}{"b":2} junk')) == [b'{"a":1}', b'{"b":2}', b"junk"]
    assert list(objects(b'{"a":1} junk {"b":2}')) == [b'{"a":1} junk {"b":2}']
    assert list(objects(b"")) == []


def test_escaped() -> None:
    assert escaped(b'{\t"a\x01":\n"b\\n\n"}') == b'{\t"a\\u0001":\n"b\\n\\u000a"}'


@pytest.mark.parametrize("head", [ONE + TWO + b"\n", b'{"prompt":"a\tb"}\n'])
def test_such_lines_show_their_format(head: bytes) -> None:
    assert sniff_keys(head, ("prompt",))


def test_public_case_071(shared: Path) -> None:
    folder = shared / "cases" / "071-glued-objects"
    expected = json.loads((folder / "expected.json").read_text())
    (chunk,) = read(find_inputs([str(folder / "input.jsonl")]), ReadOptions(), [])
    assert chunk.requests["request_id"].tolist() == ["r1", "r2", "r3"]
    assert chunk.records == expected["records"] == 3
    assert chunk.repaired["glued_line"] == expected["glued"] == 1
    assert chunk.repaired["control_char"] == expected["control_char"] == 1


def test_public_case_077_every_attempt_is_kept(shared: Path, tmp_path: Path) -> None:
    # The case names its prompt by segments; here all three attempts carry one text.
    lines = (
        (shared / "cases" / "077-retries-are-real-lookups" / "input.jsonl").read_bytes().strip().split(b"\n")
    )
    attempts = [json.dumps(json.loads(line) | {"prompt": "S" * 100}) for line in lines]
    (tmp_path / "log").write_text("\n".join(attempts))
    (chunk,) = read(find_inputs([str(tmp_path / "log")]), ReadOptions(), [])
    assert chunk.requests["status"].tolist() == ["connection_error", "timeout", "ok"]
