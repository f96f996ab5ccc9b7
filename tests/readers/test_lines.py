from __future__ import annotations

import gzip
import io
import random

import pytest

from kvtools.errors import InputError
from kvtools.readers.lines import MAX_LINE_BYTES, STRETCH_BYTES, Line, Stretch, lines, stretches


def split(data: bytes, limit: int = MAX_LINE_BYTES) -> list[Line]:
    return list(lines(io.BytesIO(data), limit))


def test_only_a_line_feed_ends_a_line() -> None:
    # U+2028, U+2029, U+0085, vertical tab, form feed and a lone CR are all valid inside what str.splitlines cuts.
    inside = "a\u2028b\u2029c\u0085d\x0be\x0cf\rg".encode()
    assert split(inside + b"\nnext\n") == [Line(1, inside), Line(2, b"next")]


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_line_ends(end: bytes) -> None:
    assert split(b"one" + end + b"two" + end) == [Line(1, b"one"), Line(2, b"two")]


def test_blank_lines_are_left_out_and_counted() -> None:
    assert split(b"\n\none\n \t\r\ntwo\n\n") == [Line(3, b"one"), Line(5, b"two")]


def test_a_last_line_without_its_end_is_not_complete() -> None:
    assert split(b"one\ntwo") == [Line(1, b"one"), Line(2, b"two", complete=False)]


@pytest.mark.parametrize("data", [b"", b"\n", b" \n\n", b"\xef\xbb\xbf"])
def test_nothing_gives_nothing(data: bytes) -> None:
    assert split(data) == []


def test_a_byte_order_mark_is_taken_off_the_first_line_only() -> None:
    assert split(b"\xef\xbb\xbfone\n\xef\xbb\xbftwo\n") == [Line(1, b"one"), Line(2, b"\xef\xbb\xbftwo")]


def test_the_limit_counts_the_line_without_its_end() -> None:
    assert split(b"12345\n123456\n1\n", limit=5) == [
        Line(1, b"12345"),
        Line(2, b"", "line_too_long"),
        Line(3, b"1"),
    ]


def test_a_long_last_line_without_end() -> None:
    assert split(b"1\n" + b"x" * 3_000_000, limit=5) == [Line(1, b"1"), Line(2, b"", "line_too_long")]
    assert split(b"12345", limit=5) == [Line(1, b"12345", complete=False)]
    assert split(b"123456", limit=5) == [Line(1, b"", "line_too_long")]


@pytest.mark.parametrize("block_bytes", range(1, 14))
def test_lines_across_the_blocks_of_a_stream(block_bytes: int) -> None:
    data = b"\xef\xbb\xbfone\r\n\n123456\n  two \nlast"
    stream = io.BufferedReader(io.BytesIO(data), block_bytes)
    assert list(lines(stream, 5)) == [
        Line(1, b"", "line_too_long"),
        Line(3, b"", "line_too_long"),
        Line(4, b"", "line_too_long"),
        Line(5, b"last", complete=False),
    ]
    stream = io.BufferedReader(io.BytesIO(data), block_bytes)
    assert list(lines(stream, 8)) == [
        Line(1, b"one"),
        Line(3, b"123456"),
        Line(4, b"two"),
        Line(5, b"last", complete=False),
    ]


def noise_lines(count: int) -> bytes:
    chance = random.Random(7)
    return b"".join(chance.randbytes(40).hex().encode() + b"\n" for _ in range(count))


def test_a_stream_cut_short_keeps_what_came_before() -> None:
    whole = noise_lines(2_000)
    stored = gzip.compress(whole)
    found = split_gzip(stored[: len(stored) // 2])
    *good, last = found
    assert last == Line(len(good) + 1, b"", "damaged_stream")
    assert len(good) > 500
    assert [line.data for line in good] == whole.split(b"\n")[: len(good)]


def test_a_wrong_checksum_is_told_after_the_last_line() -> None:
    stored = bytearray(gzip.compress(b"one\ntwo\n"))
    stored[-8] ^= 0xFF
    assert split_gzip(bytes(stored)) == [Line(1, b"one"), Line(2, b"two"), Line(3, b"", "damaged_stream")]


def test_damage_inside_a_long_line() -> None:
    stored = gzip.compress(b"one\n" + noise_lines(2_000).replace(b"\n", b""))
    assert split_gzip(stored[:-2_000], limit=100) == [Line(1, b"one"), Line(2, b"", "damaged_stream")]


def split_gzip(stored: bytes, limit: int = MAX_LINE_BYTES) -> list[Line]:
    return list(lines(gzip.GzipFile(fileobj=io.BytesIO(stored)), limit))


def test_small_reads_are_gathered_and_no_line_is_lost() -> None:
    count = 2 * STRETCH_BYTES // 10
    data = b"".join(b"%09d\n" % number for number in range(count))
    found = list(stretches(io.BufferedReader(io.BytesIO(data), 4096)))
    assert b"".join(stretch.data for stretch in found) == data
    assert [line.number for stretch in found for line in stretch.lines()] == list(range(1, count + 1))
    assert all(STRETCH_BYTES <= len(stretch.data) < STRETCH_BYTES + 4096 for stretch in found[:-1])


class Failing(io.BytesIO):
    def read1(self, size: int | None = -1, /) -> bytes:
        if data := super().read1(size):
            return data
        raise InputError("log: cannot be read")


def test_what_was_read_comes_before_the_error() -> None:
    found = stretches(Failing(b"one\ntwo\nhal"))
    assert next(found) == Stretch(1, b"one\ntwo\n", [3, 7])
    with pytest.raises(InputError):
        next(found)


@pytest.mark.parametrize(
    ("size_bytes", "count", "taken"),
    [(1, 9, 1), (3, 9, 1), (4, 9, 2), (7, 9, 2), (8, 9, 3), (99, 1, 1), (99, 2, 2), (99, 9, 3)],
)
def test_parting_keeps_numbers_and_lines(size_bytes: int, count: int, taken: int) -> None:
    whole = Stretch(5, b"one\ntwo\nlast\n", [3, 7, 12])
    part, rest = whole.parted(size_bytes, count)
    assert len(part.ends) == taken
    assert [*part.lines(), *(rest.lines() if rest else ())] == list(whole.lines())


@pytest.mark.parametrize(
    ("data", "together"),
    [
        (b"{1}\n{2}\n", True),
        (b"{1}\r\n{2}\r\n", True),
        (b"{1}\n{2}", True),
        (b"{1}\n\n{2}\n", False),
        (b" {1}\n{2}\n", False),
        (b"{1} \n{2}\n", False),
        (b"{1}{2\n{3}}\n", False),
        (b"\xef\xbb\xbf{1}\n{2}\n", False),
        (b"{1}\n[2]\n", False),
    ],
)
def test_lines_of_objects(data: bytes, together: bool) -> None:
    ends = [place for place in range(len(data)) if data[place] == 10]
    ends += [] if data.endswith(b"\n") else [len(data)]
    assert Stretch(1, data, ends).holds_objects() is together
