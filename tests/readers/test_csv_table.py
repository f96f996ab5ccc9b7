from __future__ import annotations

import csv
import gzip
import io
import json
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from kvtools.errors import RejectedInput, UsageError
from kvtools.readers import READERS, ReadOptions, csv_table
from kvtools.readers.csv_table import READER
from kvtools.readers.sources import Source, opened

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from conftest import Reader, Reading

    ReadBytes = Callable[..., Reading]


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(READERS, READER.name, READER)


@pytest.fixture
def table(paths: Reader, tmp_path: Path) -> ReadBytes:
    """Read the bytes of a CSV file."""

    def read_bytes(data: bytes, **options: object) -> Reading:
        path = tmp_path / "log.csv"
        path.write_bytes(data)
        reading = paths(path, input_format="csv", **options)
        assert reading.records == len(reading.rows) + len(reading.rejects)
        return reading

    return read_bytes


def lines_of(reading: Reading) -> list[str]:
    return [source.rsplit(":", 1)[1] for source in reading.column("source")]


def test_a_table(table: ReadBytes) -> None:
    reading = table(b"id,timestamp,prompt,output_tokens\na,1,one,3\nb,2,two,\n")
    assert reading.rejects == []
    assert reading.column("request_id") == ["a", "b"]
    assert reading.column("arrival_us") == [1_000_000, 2_000_000]
    assert reading.column("prompt") == ["one", "two"]
    assert reading.column("output_tokens") == [3, None]
    assert lines_of(reading) == ["2", "3"]


def test_quoted_fields_hold_line_breaks_and_quotes(table: ReadBytes) -> None:
    reading = table(b'id,prompt\r\na,"one\r\n\r\ntwo, ""three""\n"\r\n\r\nb,"\xe2\x80\xa8"\r\n')
    assert reading.column("prompt") == ['one\r\n\r\ntwo, "three"\n', "\u2028"]
    assert lines_of(reading) == ["2", "7"]


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_the_separator_is_the_one_that_parts_the_header(table: ReadBytes, separator: str) -> None:
    text = separator.join(("id", "prompt", "a,b;c")) + "\n" + separator.join(("x", '"p,q;r\t|"', "")) + "\n"
    if separator in ",;":
        text = text.replace("a,b;c", '"a,b;c"')
    reading = table(text.encode())
    assert reading.column("request_id") == ["x"]
    assert reading.column("prompt") == ["p,q;r\t|"]


def test_one_column(table: ReadBytes) -> None:
    assert table(b"prompt\nhello there\n").column("prompt") == ["hello there"]


def test_byte_order_mark_and_a_last_line_without_end(table: ReadBytes) -> None:
    assert table(b"\xef\xbb\xbf\nprompt,id\nx,1").column("request_id") == ["1"]


def test_a_field_longer_than_the_csv_module_takes_by_default(table: ReadBytes) -> None:
    assert [len(prompt) for prompt in table(b"prompt\n" + b"x" * 1_000_000 + b"\n").column("prompt")] == [
        1_000_000
    ]


@pytest.mark.parametrize(
    ("bad", "reason", "line"),
    [
        (b"b\n", "wrong_fields", 3),
        (b"b,2,3\n", "wrong_fields", 3),
        (b"b,\x00\n", "zero_bytes", 3),
        (b"\x00" * 500 + b"\n", "zero_bytes", 3),
        (b"b,\xff\xfe\n", "bad_utf8", 3),
        (b"b,\xed\xa0\x80\n", "bad_utf8", 3),
        (b'b,"x\n\xff\n"\n', "bad_utf8", 3),
        (b'b,"x"y\n', "bad_csv", 3),
        (b"b,x\ry\n", "bad_csv", 3),
        (b'\nb,"x\ny"z\n', "bad_csv", 4),
        (b",\n", "empty_object", 3),
    ],
)
def test_one_bad_record_is_one_reject(table: ReadBytes, bad: bytes, reason: str, line: int) -> None:
    reading = table(b"id,prompt\na,one\n" + bad + b"c,three\n")
    assert reading.reasons == [reason]
    assert reading.rejects[0][0].endswith(f"log.csv:{line}")
    assert reading.column("request_id") == ["a", "c"]


def test_a_quote_that_is_never_closed(table: ReadBytes) -> None:
    reading = table(b'id,prompt\na,one\nb,"two\nc,three\n')
    assert reading.column("request_id") == ["a"]
    assert reading.rejects[0][0].endswith(":3")
    assert reading.rejects[0][1:] == ("bad_csv", "a quoted field is open where the file ends, 2 lines on")


def test_records_over_the_limit_are_not_kept(table: ReadBytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_table, "MAX_LINE_BYTES", 100)
    long = b"b," + b"x" * 5_000 + b"\n"
    reading = table(b"id,prompt\na,one\n" + long + b'c,three\nd,"' + b"y,y\n" * 24 + b"e,five\n" + b"f,six\n")
    assert reading.reasons == ["line_too_long", "line_too_long"]
    assert [place.rsplit(":", 1)[1] for place, *_ in reading.rejects] == ["3", "5"]
    assert "not closed" in reading.rejects[1][2]
    assert reading.column("request_id")[:2] == ["a", "c"]
    assert reading.column("request_id")[-1] == "f"


def test_a_damaged_stream_keeps_what_came_before(table: ReadBytes) -> None:
    text = b"id,prompt\n" + b"".join(b"%d,prompt of its own %d\n" % (n, n * n) for n in range(2_000))
    reading = table(gzip.compress(text)[:-3_000])
    assert reading.reasons == ["damaged_stream"]
    assert 0 < len(reading.rows) < 2_000
    assert lines_of(reading)[0] == "2"
    assert reading.rejects[0][0].endswith(f":{len(reading.rows) + 2}")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"a,b\n1,2\n3,4\n", "no_known_column"),
        (b'id,"prom\nx,y\n', "bad_csv"),
        (b"id,pro\x00mpt\nx,y\n", "zero_bytes"),
        (b"id,prompt\xff\nx,y\n", "bad_utf8"),
    ],
)
def test_a_header_that_cannot_be_used_is_one_reject(table: ReadBytes, data: bytes, reason: str) -> None:
    reading = table(data)
    assert (reading.rows, reading.reasons, reading.records) == ([], [reason], 1)


@pytest.mark.parametrize("data", [b"", b"\n\n", b"id,prompt\n", b"\xef\xbb\xbf"])
def test_no_records(table: ReadBytes, data: bytes) -> None:
    assert table(data).records == 0


def test_strict(table: ReadBytes) -> None:
    with pytest.raises(RejectedInput, match=r"log\.csv:3: 1 fields where the header has 2"):
        table(b"id,prompt\na,one\nb\n", strict=True)


def test_a_gateway_log(table: ReadBytes) -> None:
    text = io.StringIO(newline="")
    written = csv.writer(text)
    written.writerow(["timestamp", "model_name", "request_json", "response_json", "status_code"])
    messages = [{"role": "system", "content": 'say "so",\n'}, {"role": "user", "content": "é\u2028"}]
    body = {"model": "m", "messages": messages, "user": "u"}
    usage = {"prompt_tokens": 40, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 32}}
    answer = {"id": "r1", "choices": [{"index": 0, "message": {"content": "yes"}}], "usage": usage}
    for line in (
        [1.25, "m", json.dumps(body), json.dumps(answer), 200],
        [2.5, "m", json.dumps(body), "", 429],
    ):
        written.writerow(line)
    reading = table(text.getvalue().encode())
    assert reading.rejects == []
    assert [json.loads(held) for held in reading.column("messages")] == [messages, messages]
    assert reading.column("request_id") == ["r1", None]
    assert reading.column("arrival_us") == [1_250_000, 2_500_000]
    assert reading.column("prompt_tokens") == [40, None]
    assert reading.column("output_tokens") == [2, None]
    assert reading.column("cached_tokens") == [32, None]
    assert reading.column("output_text") == ["yes", None]
    assert reading.column("status") == ["200", "429"]
    assert READER.sniff(text.getvalue().encode())


@dataclass(frozen=True)
class Mapped(ReadOptions):
    mapping: Mapping[str, str] | None = None


def test_a_mapping(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(b'when;what\n1970-01-01 00:00:01;"{""q"":""hi""}"\n')
    with opened(Source("log.csv", path)) as file:
        (chunk,) = READER.read(
            file, Source("log.csv", path), Mapped(mapping={"prompt": "what.q", "arrival_us": "when"})
        )
    assert chunk.requests["prompt"].tolist() == ["hi"]
    assert chunk.requests["arrival_us"].tolist() == [1_000_000]
    with (
        opened(Source("log.csv", path)) as file,
        pytest.raises(UsageError, match="--map prompt=why: no such column"),
    ):
        list(READER.read(file, Source("log.csv", path), Mapped(mapping={"prompt": "why"})))


def test_chunks(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(b"id,prompt\n" + b"".join(b"%d,%s\n" % (n, b"x" * 1_000_000) for n in range(18)))
    with opened(Source("log.csv", path)) as file:
        sizes = [len(chunk.requests) for chunk in READER.read(file, Source("log.csv", path), ReadOptions())]
    # 4 MiB are passed with the fifth record of a million bytes.
    assert sizes == [5, 5, 5, 3]


def test_the_canonical_log_is_the_same_table(table: ReadBytes, paths: Reader, data: Path) -> None:
    chat = data / "canonical.chat.jsonl"
    records = [json.loads(line) for line in chat.read_text().split("\n") if line]
    names = sorted({name for record in records for name in record})
    text = io.StringIO(newline="")
    written = csv.DictWriter(text, names, delimiter=";")
    written.writeheader()
    for record in records:
        written.writerow({k: v if isinstance(v, (str, int)) else json.dumps(v) for k, v in record.items()})
    found, wanted = table(text.getvalue().encode()), paths(chat, input_format="chat-jsonl")
    assert found.rejects == wanted.rejects == []
    for one, other in zip(wanted.rows, found.rows, strict=True):
        assert {**one, "source": ""} == {**other, "source": ""}


def test_any_bytes_give_rows_or_rejects(table: ReadBytes) -> None:
    good = b'id,timestamp,prompt,token_ids,usage\na,1,"x\ny",,"{""prompt_tokens"":3}"\nb,2,,"[1,2]",\n' * 3
    random = Random(7)
    for _ in range(300):
        spoiled = bytearray(good)
        for _ in range(random.randrange(1, 5)):
            at = random.randrange(len(spoiled))
            spoiled[at : at + random.randrange(3)] = bytes(
                random.choices(b'",\n\r\x00{[1\xff;', k=random.randrange(3))
            )
        table(bytes(spoiled))


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"id,prompt\n", True),
        (b"ID;Messages\r\n", True),
        (b"\xef\xbb\xbfprompt", True),
        (b"prompt_tokens\toutput_tokens\n", True),
        (b"id,timestamp\n", False),
        (b"a,b\n1,2\n", False),
        (b'{"prompt":"x"}\n', False),
        (b'[{"id":1,"prompt":"x"}]\n', False),
        (b"PAR1\x00prompt,messages\n", False),
        (bytes(range(256)) * 40, False),
        (b"x" * 300_000, False),
        (b'"prompt', True),
        (b"", False),
    ],
)
def test_sniffing(head: bytes, expected: bool) -> None:
    assert READER.sniff(head) is expected
