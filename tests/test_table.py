from __future__ import annotations

import numpy as np
import pytest

from kvtools.table import (
    Ragged,
    check,
    concat_ragged,
    digest64,
    integer_column,
    namespace_of,
    offsets_of,
    present,
    ragged_column,
    request_table,
    text_column,
)


def test_a_built_table_passes_its_own_check_and_keeps_na() -> None:
    table = request_table(
        {"request_id": ["a", None], "prompt_tokens": [0, None], "token_ids": [[1, 2], None]}, 2
    )
    check(table)
    assert text_column(table, "request_id") == ["a", None]
    assert integer_column(table, "prompt_tokens").tolist() == [0, -1]  # 0 is zero, NA is unknown
    assert present(table, "prompt_tokens").tolist() == [True, False]
    ids = ragged_column(table, "token_ids")
    assert ids.offsets.tolist() == [0, 2, 2]
    assert ids.values.tolist() == [1, 2]


def test_check_names_the_column_that_is_off() -> None:
    table = request_table({}, 1)
    with pytest.raises(TypeError, match="columns"):
        check(table.drop(columns="route"))
    with pytest.raises(TypeError, match="priority"):
        check(table.assign(priority=["high"]))


def test_a_slice_of_a_table_gives_its_own_rows() -> None:
    table = request_table({"token_ids": [[1], [2, 3], [4]]}, 3)[1:]
    assert ragged_column(table, "token_ids").values.tolist() == [2, 3, 4]
    assert ragged_column(table, "token_ids").offsets.tolist() == [0, 2, 3]


def test_ragged_take_and_concat() -> None:
    ragged = Ragged(np.array([1, 2, 3, 4]), np.array([0, 1, 1, 4]))
    taken = ragged.take(np.array([2, 1, 0]))
    assert [taken.row(index).tolist() for index in range(3)] == [[2, 3, 4], [], [1]]
    both = concat_ragged([ragged, taken], np.int64)
    assert both.lengths().tolist() == [1, 0, 3, 3, 0, 1]
    assert len(concat_ragged([], np.int64)) == 0
    assert offsets_of(np.array([2, 0, 1])).tolist() == [0, 2, 2, 3]


def test_namespace_names_only_what_the_log_names() -> None:
    assert namespace_of(None, None, None) is None
    assert namespace_of("m", "", "") == "model=m"  # an empty salt is no salt (vLLM)
    assert namespace_of("m", "lora", "s") == "model=m adapter=lora salt=s"


def test_digest_is_the_same_on_every_machine() -> None:
    assert digest64(None) == 0
    # printf abc | b2sum -l 64
    assert digest64("abc") == int.from_bytes(bytes.fromhex("d8bb14d833d59559"), "little")
