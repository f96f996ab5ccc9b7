from __future__ import annotations

import time
from pathlib import Path

import pytest

from kvtools.errors import InputError, KvtoolsError, UsageError
from kvtools.fields.catalogue import Catalogue, Kind
from kvtools.fields.patterns import read_patterns
from kvtools.fields.patterns_user import UserPatterns


def _extended(tmp_path: Path, text: str) -> Catalogue:
    file = tmp_path / "own.toml"
    file.write_text(text, "utf-8")
    return Catalogue.bundled().extended(file)


def _found(catalogue: Catalogue, text: str) -> list[tuple[str, str]]:
    return [(text[span.start : span.end], span.kind.name) for span in catalogue.spans(text)]


def test_own_patterns_come_first_and_the_bundled_ones_stay(tmp_path: Path) -> None:
    own = _extended(
        tmp_path,
        r"""
        [parts]
        N = '\d{4}'

        [[pattern]]
        name = "printer"
        regex = '(?<=printer )[A-Z]\d'

        [[pattern]]
        name = "till"
        kind = "till_id"
        regex = 'till (<<N>>)'

        [[pattern]]
        name = "year of the policy"
        kind = "date"
        field = false
        regex = 'since \d{4}-\d\d-\d\d'
        """,
    )
    text = "字 printer A7, till 2026-07-15, since 2024-01-01, 10.0.0.1"
    # "2026" is the till's; what is left of the date is none. The date that the user excludes is no field.
    assert _found(own, text) == [("A7", "printer"), ("2026", "till_id"), ("10.0.0.1", "ip")]
    assert own.kind_of(["A7", "C2"]) == Kind("text")  # the look-behind needs its text
    assert own.kind_of(["7", "8"], "printer A", "") == Kind("printer")
    assert _found(Catalogue.bundled(), "printer A7") == []


def test_own_labels(tmp_path: Path) -> None:
    own = _extended(
        tmp_path,
        r"""
        [[label]]
        kind = "desk_id"
        words = '\bdesk'
        value = '[a-z]+\d'
        """,
    )
    assert _found(own, "Desk: north4, desk north5") == [("north4", "desk_id")]
    assert own.kind_of(["north", "south"], "at desk ", "") == Kind("desk_id")
    assert own.unmatched() == []


def test_a_pattern_that_matches_nothing_is_named(tmp_path: Path) -> None:
    # Article A's own time pattern, which its own example (今年-07-15T08:23) does not match, and its stock symbols.
    own = _extended(
        tmp_path,
        r"""
        [[pattern]]
        name = "article time"
        kind = "time"
        regex = '\d{4}-\d{2}-\d{2}T\d{2}:\d{2}'

        [[pattern]]
        name = "article symbol"
        kind = "stock_symbol"
        regex = '\$[A-Z]+'
        """,
    )
    assert own.unmatched() == ["article time", "article symbol"]
    own.spans("用户[ID:18392]在今年-07-15T08:23咨询 $AAPL")
    assert own.unmatched() == ["article time"]
    assert Catalogue.bundled().unmatched() == []


def test_a_catastrophic_pattern_is_stopped_named_once_and_dropped(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(
        "[[pattern]]\nname = 'slow'\nregex = '(?:a|aa|a+)+$(?<=b)'\n[[pattern]]\nname = 'printer'\nregex = 'P[0-9]'\n"
    )
    own = UserPatterns(file, read_patterns(file), seconds=0.05)
    text = "a" * 4000 + "! P7"
    assert [text[found.start : found.end] for found in own.find(text)] == ["P7"]
    assert own.stopped == ["slow"]
    began = time.process_time()
    own.find(text)
    assert time.process_time() - began < 0.04  # it is not tried again
    assert own.stopped == ["slow"]
    assert own.unmatched() == []  # it never finished a search: that it matches nothing is not known


@pytest.mark.parametrize(
    "text, error, words",
    [
        ("x = = 1", InputError, "not TOML"),
        ("[[pattern]]\nname = 'a'\nregex = '('", UsageError, "pattern 'a', key regex"),
        ("[[pattern]]\nname = 'a'\nregexp = 'b'", UsageError, "unknown key 'regexp'"),
        ("[[patterns]]\nname = 'a'", UsageError, "unknown key 'patterns'"),
        ("[[pattern]]\nregex = 'b'", UsageError, "pattern 1, key name"),
        ("[[pattern]]\nname = 'a'", UsageError, "pattern 'a', key regex is missing"),
        ("[[pattern]]\nname = 'a'\nregex = 7", UsageError, "pattern 'a', key regex"),
        ("[[pattern]]\nname = 'a'\nregex = ''", UsageError, "pattern 'a', key regex"),
        (
            "[[pattern]]\nname = 'a'\nregex = 'b'\n[[pattern]]\nname = 'a'\nregex = 'c'",
            UsageError,
            "'a' twice",
        ),
        ("[[pattern]]\nname = 'a'\nregex = 'b'\nbare = true", UsageError, "key bare is for the bundled file"),
        ("[[pattern]]\nname = 'a'\nregex = 'b'\nbare = 1", UsageError, "key bare is true or false"),
        (
            "[[pattern]]\nname = 'a'\nregex = 'b'\ngranularity = 'week'",
            UsageError,
            "key granularity is one of second, minute, hour, day",
        ),
        ("[[pattern]]\nname = 'a b'\nkind = 'A b'\nregex = 'b'", UsageError, "has the kind 'A b'"),
        ("[[pattern]]\nname = 'a b'\nregex = 'b'", UsageError, "has the kind 'a b'"),
        ("[[pattern]]\nname = 'a'\nregex = '<<D>>'", UsageError, "names the part <<D>>"),
        ("[parts]\nD = '<<D>>x'\n[[pattern]]\nname = 'a'\nregex = '<<D>>'", UsageError, "contain themselves"),
        ("parts = 3", UsageError, "parts is a table"),
        ("pattern = 3", UsageError, "pattern is a list of tables"),
        ("[[label]]\nkind = 'a_id'", UsageError, "label 1, key words is missing"),
        ("[[label]]\nkind = 'a_id'\nwords = '('\nvalue = 'b'", UsageError, "label 1 (a_id), key words"),
        ("[[label]]\nkind = 'a_id'\nwords = 'a'\nfits = '['", UsageError, "label 1 (a_id), key fits"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(
    tmp_path: Path, text: str, error: type[KvtoolsError], words: str
) -> None:
    with pytest.raises(KvtoolsError) as caught:
        _extended(tmp_path, text)
    assert type(caught.value) is error
    sentence = str(caught.value)
    assert sentence.startswith(f"--patterns {tmp_path / 'own.toml'}: ")
    assert words in sentence
    assert "\n" not in sentence


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        Catalogue.bundled().extended(tmp_path / "none.toml")
