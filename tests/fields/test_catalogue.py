from __future__ import annotations

import json
import sys
from pathlib import Path
from subprocess import run
from typing import Any

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtools.fields.catalogue import Catalogue, Kind
from kvtools.fields.mask import mask


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return Catalogue.bundled()


def _found(catalogue: Catalogue, text: str) -> list[tuple[str, str]]:
    return [(text[span.start : span.end], span.kind.name) for span in catalogue.spans(text)]


@pytest.mark.parametrize(
    "text, value, name, granularity",
    [
        # ISO 8601 and RFC 3339 (section 5.8 has the first two), RFC 2822 (section 3.3), access logs, ctime.
        ("at 1985-04-12T23:20:50.52Z", "1985-04-12T23:20:50.52Z", "time", "second"),
        ("at 1996-12-19T16:39:57-08:00,", "1996-12-19T16:39:57-08:00", "time", "second"),
        ("at 2026-07-15 08:23:11 UTC now", "2026-07-15 08:23:11 UTC", "time", "second"),
        ("at 2026-07-15T08:23.", "2026-07-15T08:23", "time", "minute"),
        ("at 2026-07-15T08Z", "2026-07-15T08Z", "time", "hour"),
        ("x 20260715T082311Z y", "20260715T082311Z", "time", "second"),
        ("Fri, 21 Nov 1997 09:55:06 -0600", "Fri, 21 Nov 1997 09:55:06 -0600", "time", "second"),
        ("[10/Oct/2000:13:55:36 -0700]", "10/Oct/2000:13:55:36 -0700", "time", "second"),
        ("Thu Sep 17 10:41:00 2026", "Thu Sep 17 10:41:00 2026", "time", "second"),
        ("epoch 1790000000", "1790000000", "time", "second"),
        ("epoch 1790000000123 ms", "1790000000123", "time", "second"),
        ("ts 1790000000.25", "1790000000.25", "time", "second"),
        ("[TS:1721000000] hi", "[TS:1721000000]", "time", "second"),
        # Written out.
        ("is Thursday, 17 Sep 2026 10:41. You", "Thursday, 17 Sep 2026 10:41", "time", "minute"),
        ("on Sep 17, 2026 at 10:41 AM we", "Sep 17, 2026 at 10:41 AM", "time", "minute"),
        ("on September 17th, 2026, 10 pm.", "September 17th, 2026, 10 pm", "time", "hour"),
        ("it is 10:41 now", "10:41", "time", "minute"),
        ("it is 9:05 p.m. now", "9:05 p.m", "time", "minute"),
        ("于2026年7月15日 08:23咨询", "2026年7月15日 08:23", "time", "minute"),
        ("于2026年7月15日下午3点20分咨询", "2026年7月15日下午3点20分", "time", "minute"),
        ("于2026年7月15日08时23分05秒", "2026年7月15日08时23分05秒", "time", "second"),
        ("于2026年7月15日 08时咨询", "2026年7月15日 08时", "time", "hour"),
        ("在2026-07-15T08:23咨询", "2026-07-15T08:23", "time", "minute"),
        ("在今年-07-15T08:23咨询", "今年-07-15T08:23", "time", "minute"),
        # Dates.
        ("Today is 2026-07-15.", "2026-07-15", "date", "day"),
        ("Today is 15.07.2026.", "15.07.2026", "date", "day"),
        ("Today is 07/15/2026.", "07/15/2026", "date", "day"),
        ("Today is 2026/7/15.", "2026/7/15", "date", "day"),
        ("Today is the 3rd of May", None, None, None),
        ("Today is Wednesday, July 15, 2026.", "Wednesday, July 15, 2026", "date", "day"),
        ("on 15 July 2026", "15 July 2026", "date", "day"),
        ("今天是2026年7月15日（星期三）。", "2026年7月15日（星期三）", "date", "day"),
        ("今天是7月15日。", "7月15日", "date", "day"),
        ("今天是二〇二六年七月十五日。", "二〇二六年七月十五日", "date", "day"),
        ("build 20260715 x", "20260715", "date", "day"),
        # Relative times.
        ("seen 5 minutes ago", "5 minutes ago", "relative_time", "minute"),
        ("seen a few seconds ago", "a few seconds ago", "relative_time", "second"),
        ("seen 2 days ago", "2 days ago", "relative_time", "day"),
        ("3分钟前登录", "3分钟前", "relative_time", "minute"),
        ("两小时前登录", "两小时前", "relative_time", "hour"),
        ("24小时内发货", None, None, None),
    ],
)
def test_times_and_dates(catalogue: Catalogue, text: str, value: str, name: Any, granularity: Any) -> None:
    expected = [(value, Kind(name, granularity))] if value else []
    assert [(text[span.start : span.end], span.kind) for span in catalogue.spans(text)] == expected


@pytest.mark.parametrize(
    "text, expected",
    [
        # Article A's own example: the user and the order by their labels, the time by its form.
        (
            "用户[ID:18392]在2026-07-15T08:23咨询订单[NO:874635]",
            [("18392", "user_id"), ("2026-07-15T08:23", "time"), ("874635", "order_id")],
        ),
        (
            "request_id: 5f0c2a9e-0000-4000-8000-000000000001",
            [("5f0c2a9e-0000-4000-8000-000000000001", "uuid")],
        ),
        (
            "\n\nCustomer: Ana Lopez\nuser_id: u_482913\nlocale: en_US\n\n",
            [("Ana Lopez", "name"), ("u_482913", "user_id"), ("en_US", "locale")],
        ),
        ("Trace req-0a8fz31, ORD-12345678, INV/2025/77", "request_id order_id invoice_id"),
        ("SKU-1234-A TCK123456 CLM1234567 u_123", "sku ticket_id claim_id user_id"),
        ("会话#8831 用户VIP咨询", [("8831", "session_id")]),
        (
            "订单号：202607150001，手机号：13812345678",
            [("202607150001", "order_id"), ("13812345678", "phone")],
        ),
        ('{"user_id": "abc12", "session": "k9x"}', [("abc12", "user_id"), ("k9x", "session_id")]),
        ("<user_id>77</user_id>", [("77", "user_id")]),
        ("nonce=36ee5; You are", [("36ee5", "request_id")]),
        ("姓名：王小明\n", [("王小明", "name")]),
        # A label decides between ids: the same ten digits are a time only where nothing else is said.
        ("order 1790000000", [("1790000000", "order_id")]),
        ("mail ada@example.test from 10.0.0.1 or 2001:db8::1", "email ip ip"),
        ("call +1 234-567-8901 or (212) 555-0187", "phone phone"),
        ("pay $5.20, 1,299.00 EUR, ￥12.5 or 30元", "money money money money"),
        ("buy $AAPL for {NAME}", [("$AAPL", "stock_symbol"), ("{NAME}", "placeholder")]),
        ("see https://example.test/a?id=3.", [("https://example.test/a?id=3", "url")]),
        (
            "inside /srv/work-5f0c2a9e-0000-4000-8000-000000000001/. Keep",
            [("/srv/work-5f0c2a9e-0000-4000-8000-000000000001/", "path")],
        ),
        (r"in C:\work\run42\out.txt now", [(r"C:\work\run42\out.txt", "path")]),
        ("sha 9f2c01ab77", [("9f2c01ab77", "hex")]),
        # Words, versions, names of standards and short numbers are no fields by their form.
        (
            "v3.2.1, 1.2.3.4.5, Build 9f2c, ISO-8601, SHA-256, mode 1, room 142, deadbeef, and/or, 24/7, std::vector",
            [],
        ),
    ],
)
def test_kinds(catalogue: Catalogue, text: str, expected: Any) -> None:
    found = _found(catalogue, text)
    assert (" ".join(kind for _, kind in found) if isinstance(expected, str) else found) == expected


def test_leftmost_then_longest(catalogue: Catalogue) -> None:
    # A date, a clock and a zone are also there; the longest match from the same place takes them all.
    text = "2026-07-15T08:23:11+08:00"
    assert _found(catalogue, text) == [(text, "time")]
    # The hexadecimal inside a UUID and the IP address inside a URL begin later.
    assert _found(catalogue, "http://10.0.0.1/x1 5f0c2a9e-0000-4000-8000-000000000001") == [
        ("http://10.0.0.1/x1", "url"),
        ("5f0c2a9e-0000-4000-8000-000000000001", "uuid"),
    ]


KINDS = [
    "time",
    "date",
    "relative_time",
    "uuid",
    "hex",
    "request_id",
    "session_id",
    "order_id",
    "user_id",
    "name",
]
KINDS += ["locale", "email", "ip", "path", "money", "phone", "url", "stock_symbol", "placeholder"]


def test_no_pattern_fits_nothing_and_all_have_a_kind(catalogue: Catalogue) -> None:
    file = catalogue._compiled.file
    for tier in catalogue._compiled.tiers:
        assert tier.fitting(b"") == []
        assert catalogue.spans("") == []
    names = {pattern.kind.name for pattern in file.patterns} | {label.kind.name for label in file.labels}
    assert names >= set(KINDS)
    for pattern in file.patterns:
        assert (pattern.kind.granularity is not None) == (
            pattern.kind.name in {"time", "date", "relative_time"}
        )


def _tried_one_by_one(catalogue: Catalogue, text: str) -> list[tuple[int, int, str]]:
    """The rule of the catalogue as it is written: every place, every length, every pattern, tier after tier."""
    data = text.encode()
    taken: list[tuple[int, int, Kind | None]] = []
    for tier in catalogue._compiled.tiers:
        fresh: list[tuple[int, int, Kind | None]] = []
        start = 0
        while start < len(data):
            limit = min((other[0] for other in taken if other[1] > start), default=len(data))
            fits = (
                (end, place, value)
                for end in range(limit, start, -1)
                for place in range(len(tier.entries))
                if (value := tier._value(place, data, start, end)) is not None
            )
            end, place, value = next(fits, (start + 1, None, None))
            if place is not None and value is not None:
                fresh.append((*value, tier.entries[place].kind))
            start = end
        taken = sorted([*taken, *fresh], key=lambda one: one[0])
    return [(start, end, kind.name) for start, end, kind in taken if kind is not None]


SHORT = (
    "order ",
    "user: ",
    "12:30",
    "2026-07-15",
    "T",
    "1.2.3.4",
    "$5.1",
    " ",
    "u_12",
    "deadbee7f",
    "12",
    ":",
    "-",
    "元",
)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(SHORT), min_size=1, max_size=4).map("".join))
def test_the_automata_keep_the_rule(text: str) -> None:
    catalogue = Catalogue.bundled()
    found = [
        (len(text[: span.start].encode()), len(text[: span.end].encode()), span.kind.name)
        for span in catalogue.spans(text)
    ]
    assert found == _tried_one_by_one(catalogue, text)


PIECES = (
    "2026-07-15T08:23:11Z", "用户[ID:18392]", "订单号：874635", "a@example.test", "5f0c2a9e-0000-4000-8000-000000000001",
    "12元", "{NAME}", "Customer: Ana López\n", "姓名：王小明\n", "10.0.0.1", "order 123456", " /srv/a/b7 ", "v1.2.3",
    "e\u0301", "👩‍👩‍👧", "\u2028", "\ud800", "ﬁ", "שלום", "한글", " ", "\r\n", "1790000000", "deadbeef12",
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=4)), max_size=12).map("".join))
def test_places_are_characters(text: str) -> None:
    catalogue = Catalogue.bundled()
    spans = catalogue.spans(text)
    reached = 0
    for span in spans:
        assert reached <= span.start < span.end <= len(text)
        reached = span.end
        value = text[span.start : span.end]
        assert value == value.strip()
        # The value alone is of the same kind, or a label in front of it made it so.
        alone = catalogue.spans(value)
        again = catalogue.kind_of([value], text[: span.start], text[span.end :])
        assert span.kind.name == again.name or (alone and alone[0].kind.name == span.kind.name)


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from("0123456789:-T/ .年月日ZéЖ字👍"), max_size=40))
def test_iso_times_are_found_as_another_engine_finds_them(text: str) -> None:
    form = r"(?<![0-9A-Za-z_])20\d\d-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2\d|3[01])T[01]\d:[0-5]\d:[0-5]\dZ(?![0-9A-Za-z_])"
    planted = text + " 2026-07-15T08:23:11Z " + text[::-1]
    spans = {
        (span.start, span.end) for span in Catalogue.bundled().spans(planted) if span.kind.name == "time"
    }
    for match in regex.finditer(form, planted, regex.ASCII):
        # Longest match: a longer time may begin at the same place or earlier, never end before.
        assert any(start <= match.start() and match.end() <= end for start, end in spans)


@pytest.mark.parametrize(
    "values, before, after, expected",
    [
        (["5f0c2a9e-0000-4000-8000-000000000001"] * 2, "/srv/work-", "/.", Kind("uuid")),
        (["874635", "556692"], "咨询订单[NO:", "]", Kind("order_id")),
        (["18392", "15219"], "用户[ID:", "]在", Kind("user_id")),
        (["11", "12", "13"], "and offer help with order ", ".", Kind("order_id")),
        (["7f3a91", "8c0b11"], "Order ", " replaces", Kind("order_id")),
        (["1790000001", "1790000577"], "order ", "", Kind("order_id")),
        (["1790000001", "1790000577"], "at ", "", Kind("time", "second")),
        (["Ada", "Ada Example", "Dr Ada B Example"], "Greet ", " and", Kind("name")),
        (["Ana Lopez", "Wei Chen"], "\nCustomer: ", "\n", Kind("name")),
        (["18392", "15219"], "customer ", " asks", Kind("user_id")),
        (["user-alpha", "user-beta"], "c0\nrequester: ", "\n", Kind("name")),
        (["c0", "c1"], "conversation: ", "\n", Kind("session_id")),
        (["9f2c01ab77", "0ac2"], "session: ", "", Kind("session_id")),
        (["abc", "q7"], "会话#", " 用户", Kind("session_id")),
        (["a1", "b2"], "request_id: ", "", Kind("request_id")),
        (["de", "pt_BR"], "locale: ", "", Kind("locale")),
        (["42", "43"], "ticket ", ": room", Kind("ticket_id")),
        (["100", "101"], "mode 1. Reading ", "", Kind("number")),
        (["9f2c", "01ab"], "Build ", ".", Kind("hex")),
        (["A7", "C2"], ": printer ", " is offline", Kind("text")),
        (["blue", "red"], "The name of the wind: ", "", Kind("text")),
        (["", " "], "", "", Kind("text")),
        # A varying piece of a longer value is of the longer value's kind.
        (["41", "42"], "is Thursday, 17 Sep 2026 10:", ". You", Kind("time", "minute")),
        (["5", "7"], "Total $", " please", Kind("money")),
        # Nine in ten are enough, eight are not.
        (["10.0.0.1"] * 9 + ["none"], "", "", Kind("ip")),
        (["10.0.0.1"] * 8 + ["none"] * 2, "", "", Kind("text")),
    ],
)
def test_the_kind_of_a_field(
    catalogue: Catalogue, values: list[str], before: str, after: str, expected: Any
) -> None:
    assert catalogue.kind_of(values, before, after) == expected


@pytest.mark.parametrize(
    "values, granularity",
    [
        (["2026-07-15T08:23:11Z", "2026-07-15T08:23:00Z"], "second"),
        (["2026-07-15T08:23:00Z", "2026-07-15T08:24:00Z"], "minute"),
        (["2026-07-15T08:00:00Z", "2026-07-15T09:00:00Z"], "hour"),
        (["2026-07-15T00:00:00Z", "2026-07-16T00:00:00Z"], "day"),
        (["2026-07-15T08:00:00.5Z", "2026-07-15T09:00:00.0Z"], "second"),
        (["2026-07-15T08:23", "2026-07-15T08:24"], "minute"),
        (["2026-07-15T08:00", "2026-07-15T09:00"], "hour"),
        (["2026-07-15T08:00"], "minute"),  # one value shows nothing
        (["Sep 17, 2026 at 10:00 AM", "Sep 17, 2026 at 10:00 PM"], "hour"),
        (["12:00 AM", "12:00 am"], "day"),
        (["2026年7月15日08时00分", "2026年7月15日09时00分"], "hour"),
        (["20260715T080000Z", "20260715T090000Z"], "hour"),
        (["1790000040", "1790000100"], "minute"),  # 1790000040 = 60 * 29833334
        (["1789999200", "1790002800"], "hour"),  # 1789999200 = 3600 * 497222
        (["1790000040000", "1790000100001"], "second"),
        (["2026-07-15", "2026-07-16"], "day"),
        (["5 minutes ago", "2 hours ago"], "minute"),
    ],
)
def test_values_show_how_fine_a_time_is(
    catalogue: Catalogue, values: list[str], granularity: str | None
) -> None:
    assert catalogue.kind_of(values).granularity == granularity


def test_the_cases(catalogue: Catalogue, shared: Path) -> None:
    def prompts(case: str) -> list[str]:
        [folder] = (shared / "cases").glob(f"{case}-*")
        rows = [json.loads(line) for line in (folder / "input.jsonl").read_text("utf-8").split("\n") if line]
        return [row.get("prompt") or row["messages"][0]["content"] for row in rows]

    times = [[s for s in catalogue.spans(text) if s.kind.name == "time"] for text in prompts("002")]
    assert [[span.kind for span in spans] for spans in times] == [[Kind("time", "minute")]] * 3
    assert [_found(catalogue, text) for text in prompts("008")] == [
        [(f"c{n}", "session_id")] for n in range(3)
    ]
    for text in prompts("044"):
        values = [value for value, _ in _found(catalogue, text)]
        assert "v3.2.1" not in values
        assert "9f2c" not in values


@pytest.mark.parametrize(
    "value, shape",
    [
        ("2026-07-15T08:23", "0000-00-00x00:00"),
        ("Ana López", "xxx xxxxx"),
        ("Lo\u0301pez", "xxxxx"),  # a combining mark is part of its letter
        ("订单[NO:874635]", "□□[xx:000000]"),
        ("￥12.5 €3", "￥00.0 €0"),
        ("한글カナ", "□□□□"),
        ("a\nb\x00\ud800👍", "x x□□□"),
        ("٣½", "00"),
        ("x" * 40, "x" * 40),
        ("x" * 41, "x" * 39 + "…"),
        ("", ""),
    ],
)
def test_a_mask_shows_the_shape_only(value: str, shape: str) -> None:
    assert mask(value) == shape


@given(st.text(max_size=60))
def test_a_mask_carries_no_letter_and_no_digit(value: str) -> None:
    shape = mask(value)
    assert len(shape) <= 40
    assert not any(character.isalnum() and character not in "x0" for character in shape)
    shape.encode("utf-8")


def test_the_catalogue_loads_no_engine_until_it_is_used() -> None:
    program = (
        "import sys; from kvtools.fields.catalogue import Catalogue; Catalogue.bundled(); print(*sys.modules)"
    )
    loaded = run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert not {"re2", "regex"} & set(loaded)
