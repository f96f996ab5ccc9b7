from __future__ import annotations

import gzip
import hashlib
import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kvtools.errors import RejectedInput
from kvtools.readers import READERS
from kvtools.readers.parquet import READER

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Reader, Reading

    ReadColumns = Callable[..., Reading]


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(READERS, READER.name, READER)


@pytest.fixture
def columns(paths: Reader, tmp_path: Path) -> ReadColumns:
    """Read a parquet file of these columns."""

    def read_columns(table: dict[str, Any], **written: Any) -> Reading:
        path = tmp_path / "log.parquet"
        pq.write_table(pa.table(table), path, **written)
        assert READER.sniff(path.read_bytes()[:64])
        reading = paths(path, input_format="parquet")
        assert reading.records == len(reading.rows) + len(reading.rejects)
        return reading

    return read_columns


def test_a_table(columns: ReadColumns) -> None:
    reading = columns(
        {
            "id": ["a", None],
            "timestamp": [1.5, 2.0],
            "prompt": ["one", "two"],
            "output_tokens": [3, None],
            "cached_tokens": pa.array([Decimal(4), None], pa.decimal128(10, 2)),
            "picture": [b"\xff", b""],
        }
    )
    assert reading.rejects == []
    assert reading.column("request_id") == ["a", None]
    assert reading.column("arrival_us") == [1_500_000, 2_000_000]
    assert reading.column("prompt") == ["one", "two"]
    assert reading.column("output_tokens") == [3, None]
    assert reading.column("cached_tokens") == [4, None]
    assert [source.rsplit(":", 1)[1] for source in reading.column("source")] == ["1", "2"]


@pytest.mark.parametrize("kind", [pa.int8(), pa.int32(), pa.int64(), pa.uint64()])
def test_lists_of_token_ids(columns: ReadColumns, kind: pa.DataType) -> None:
    for listed in (pa.list_(kind), pa.large_list(kind)):
        reading = columns({"token_ids": pa.array([[5, 0, 5], [], None], listed), "id": ["a", "b", "c"]})
        assert reading.column("token_ids") == [[5, 0, 5], None, None]
        assert reading.column("prompt_tokens") == [3, None, None]


def test_messages_as_structures_lose_the_keys_they_do_not_have(columns: ReadColumns) -> None:
    messages = [
        [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": None, "tool_calls": [{"id": "t"}]},
        ],
        [{"role": "user", "content": "ho"}],
    ]
    reading = columns({"messages": messages})
    assert reading.column("messages") == [
        '[{"role":"user","content":"hi"},{"role":"assistant","tool_calls":[{"id":"t"}]}]',
        '[{"role":"user","content":"ho"}]',
    ]


def test_json_text_and_structures_are_both_bodies(columns: ReadColumns) -> None:
    body = {"model": "m", "prompt": "x"}
    assert columns({"request_json": [body]}).column("namespace") == ["model=m"]
    assert columns({"request_json": ['{"model":"m","prompt":"x"}']}).column("prompt") == ["x"]
    assert columns({"request_json": [b'{"model":"m","prompt":"x"}']}).column("prompt") == ["x"]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_timestamps_say_their_unit_and_zone(columns: ReadColumns, unit: str) -> None:
    ticks = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    plain = pa.array([7 * ticks, None], pa.int64()).cast(pa.timestamp(unit))
    reading = columns({"prompt": ["x", "y"], "timestamp": plain})
    assert reading.column("arrival_us") == [7_000_000, None]
    assert reading.column("utc_offset_min") == [None, None]
    zoned = plain.cast(pa.timestamp(unit, "+08:00"))
    reading = columns({"prompt": ["x", "y"], "timestamp": zoned})
    assert reading.column("arrival_us") == [7_000_000, None]
    assert reading.column("utc_offset_min") == [480, None]
    reading = columns({"prompt": ["x"], "ts": plain.slice(0, 1).cast(pa.timestamp(unit, "Asia/Shanghai"))})
    assert reading.column("utc_offset_min") == [480]


def test_a_nanosecond_is_cut_and_a_date_is_its_midnight(columns: ReadColumns) -> None:
    times = pa.array([1_234_567_891], pa.int64()).cast(pa.timestamp("ns"))
    assert columns({"prompt": ["x"], "ts": times}).column("arrival_us") == [1_234_567]
    day = datetime(1970, 1, 2, tzinfo=UTC).date()
    assert columns({"prompt": ["x"], "ts": [day]}).column("arrival_us") == [86_400_000_000]


@pytest.mark.parametrize("unit", ["ms", "us"])
def test_a_time_after_the_year_9999_is_one_reject(columns: ReadColumns, unit: str) -> None:
    times = pa.array([0, 1 << 60], pa.int64()).cast(pa.timestamp(unit))
    reading = columns({"prompt": ["x", "y"], "ts": times})
    assert (reading.reasons, reading.column("arrival_us")) == (["bad_cell"], [0])


def test_text_that_is_not_utf8_is_one_reject(columns: ReadColumns) -> None:
    raw = pa.array([b"good", b"\xff\xfe", b"too"])
    spoiled = pa.StringArray.from_buffers(3, raw.buffers()[1], raw.buffers()[2])
    for held in (raw, spoiled):
        reading = columns({"id": ["a", "b", "c"], "prompt": held})
        assert reading.reasons == ["bad_cell"]
        assert reading.rejects[0][0].endswith("log.parquet:2")
        assert reading.column("prompt") == ["good", "too"]


def test_dictionaries_and_lengths_alone(columns: ReadColumns) -> None:
    reading = columns(
        {"model": pa.array(["m", "m", None]).dictionary_encode(), "prompt_tokens": [1, 0, None]}
    )
    assert reading.column("namespace") == ["model=m", "model=m"]
    assert reading.column("prompt_tokens") == [1, 0]
    assert reading.reasons == ["empty_object"]


def test_many_row_groups_in_order(columns: ReadColumns) -> None:
    reading = columns(
        {"id": [str(n) for n in range(3_000)], "prompt_tokens": list(range(3_000))}, row_group_size=700
    )
    assert reading.column("prompt_tokens") == list(range(3_000))
    assert reading.rows[-1]["source"].endswith("log.parquet:3000")


def test_no_rows_and_no_known_column(columns: ReadColumns) -> None:
    assert columns({"prompt": pa.array([], pa.string())}).records == 0
    reading = columns({"a": [1, 2]})
    assert (reading.reasons, reading.records) == (["no_known_column"], 1)


@pytest.mark.parametrize(
    "data", [b"", b"PAR1", b"PAR1" + b"\x00" * 500, b"PARE1234PARE", b'{"prompt":"x"}\n']
)
def test_what_is_no_parquet_is_one_reject(paths: Reader, tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "log.parquet"
    path.write_bytes(data)
    reading = paths(path, input_format="parquet")
    assert (reading.rows, reading.reasons, reading.records) == ([], ["bad_parquet"], 1)
    with pytest.raises(RejectedInput, match=r"log\.parquet:1: not parquet, damaged or cut short"):
        paths(path, input_format="parquet", strict=True)


def test_cut_or_scribbled_at_any_place(paths: Reader, tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    table = pa.table({"id": [str(n) for n in range(600)], "prompt": [f"prompt {n * n}" for n in range(600)]})
    pq.write_table(table, path, row_group_size=200, compression="zstd")
    whole = path.read_bytes()
    for end in range(4, len(whole), len(whole) // 40):
        path.write_bytes(whole[:end])
        reading = paths(path, input_format="parquet")
        assert (reading.reasons, reading.records) == (["bad_parquet"], len(reading.rows) + 1)
    for at in range(4, len(whole) - 8, len(whole) // 60):
        path.write_bytes(whole[:at] + bytes(byte ^ 0xFF for byte in whole[at : at + 9]) + whole[at + 9 :])
        reading = paths(path, input_format="parquet")
        assert reading.records == len(reading.rows) + len(reading.rejects)


def test_damage_behind_good_rows_is_named_with_its_row(paths: Reader, tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    table = pa.table({"id": [str(n) for n in range(2_000)], "prompt_tokens": range(2_000)})
    pq.write_table(table, path, row_group_size=1_000, compression="zstd")
    whole = path.read_bytes()
    at = pq.ParquetFile(path).metadata.row_group(1).column(0).data_page_offset
    path.write_bytes(whole[:at] + b"\xff" * 40 + whole[at + 40 :])
    reading = paths(path, input_format="parquet")
    assert reading.reasons == ["bad_parquet"]
    assert reading.column("prompt_tokens") == list(range(len(reading.rows)))
    assert 256 <= len(reading.rows) <= 1_000
    assert reading.rejects[0][0].endswith(f":{len(reading.rows) + 1}")


def test_inside_gzip(paths: Reader, tmp_path: Path) -> None:
    path = tmp_path / "log.parquet.gz"
    pq.write_table(pa.table({"prompt": ["x"]}), tmp_path / "plain")
    whole = gzip.compress((tmp_path / "plain").read_bytes())
    path.write_bytes(whole)
    assert paths(path, input_format="parquet").column("prompt") == ["x"]
    path.write_bytes(whole[:-9])
    assert paths(path, input_format="parquet").reasons == ["damaged_stream"]


def test_what_a_compressed_file_unpacks_to_is_looked_at_before_it_is_copied(
    paths: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log.parquet.gz"
    path.write_bytes(gzip.compress(b"\0" * (8 << 20)))
    assert paths(path, input_format="parquet").reasons == ["bad_parquet"]
    monkeypatch.setattr("kvtools.readers.parquet.MAX_UNPACKED_BYTES", 4 << 20)
    path.write_bytes(gzip.compress(b"PAR1" + b"\0" * (8 << 20)))
    assert paths(path).reasons == ["file_too_long"]


def test_the_digest_is_that_of_the_file(paths: Reader, tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({"prompt": ["x"]}), path)
    (tally,) = paths(path, input_format="parquet").tallies
    assert tally.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_canonical_log_is_the_same_table(paths: Reader, tmp_path: Path, data: Path) -> None:
    chat = data / "canonical.chat.jsonl"
    records = [json.loads(line) for line in chat.read_text().split("\n") if line]
    path = tmp_path / "log.parquet"
    names = sorted({name for record in records for name in record})
    pq.write_table(pa.table({name: [record.get(name) for record in records] for name in names}), path)
    assert_same(paths(chat, input_format="chat-jsonl"), paths(path, input_format="parquet"))


def assert_same(wanted: Reading, found: Reading) -> None:
    assert found.rejects == wanted.rejects == []
    for one, other in zip(wanted.rows, found.rows, strict=True):
        assert {**one, "source": ""} == {**other, "source": ""}


_SECONDS = pa.array([1, None], pa.int64())
_NESTED = pa.array([[{"role": "user", "content": {"a": b"\xff"}}], None])


@pytest.mark.parametrize(
    "held",
    [
        pa.array([b"\xff", b"{}"]), pa.array([True, None]), pa.array([1e300, float("inf")]), pa.array([2**63, 0], pa.uint64()),
        pa.array([-1, 2**62]), pa.array([None, None]), pa.array([Decimal("1E+20"), Decimal("0.5")]),
        _SECONDS.cast(pa.duration("s")), _SECONDS.cast(pa.time64("us")), _SECONDS.cast(pa.timestamp("ns", "UTC")),
        pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64())), pa.array([[None], [[None]]], pa.list_(pa.list_(pa.int64()))),
        pa.array([{"a": None}, None]), _NESTED, pa.array([["x", None], []]), pa.array([[1.5], [float("nan")]]),
        pa.array(["[1]", "{}"]), pa.array([b"abcd", b"\xff\xff\xff\xff"], pa.binary(4)), pa.array([1.5, None], pa.float16()),
    ],
    ids=lambda held: str(held.type),
)  # fmt: skip
def test_any_type_in_any_column(paths: Reader, tmp_path: Path, held: pa.Array) -> None:
    names = [
        "id", "timestamp", "model", "route", "session_id", "prompt", "messages", "tools", "token_ids", "hash_ids", "block_size",
        "prompt_tokens", "output_tokens", "usage", "request_json", "response_json", "ttft_ms", "status", "priority", "n", "echo",
    ]  # fmt: skip
    for name in names:
        other = {} if name == "prompt" else {"prompt": ["x", "y"]}
        path = tmp_path / "log.parquet"
        pq.write_table(pa.table({name: held, **other}), path)
        reading = paths(path, input_format="parquet")
        assert reading.records == len(reading.rows) + len(reading.rejects)
