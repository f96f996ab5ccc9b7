"""Kept results: whole or missing, the user's own, and no larger than they may be."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from kvtools.executors.kept import Kept

if TYPE_CHECKING:
    from pathlib import Path

NAME, OTHER = "ab" * 32, "cd" * 32


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    found = Kept.at(tmp_path / "keys")
    assert found is not None
    return found


def test_what_is_put_comes_back(kept: Kept) -> None:
    kept.put(NAME, {"keys": [1, 2]})
    assert kept.get(NAME) == {"keys": [1, 2]}
    assert kept.get(OTHER) is None


@pytest.mark.parametrize("damage", ["cut", "changed", "empty"])
def test_a_damaged_entry_is_missing(kept: Kept, damage: str) -> None:
    kept.put(NAME, list(range(1000)))
    (path,) = kept.folder.glob("*/*")
    data = path.read_bytes()
    path.write_bytes({"cut": data[:-40], "changed": b"\x00" + data[1:], "empty": b""}[damage])
    assert kept.get(NAME) is None


def test_no_part_of_an_entry_stays_where_writing_fails(kept: Kept) -> None:
    with pytest.raises(TypeError, match="pickle"):
        kept.put(NAME, (number for number in range(3)))
    assert list(kept.folder.glob("*/*")) == []


def test_the_least_used_go_first(kept: Kept) -> None:
    for age, name in ((200, NAME), (100, OTHER)):
        kept.put(name, b"x" * 1000)
        (path,) = kept.folder.glob(f"{name[:2]}/*")
        os.utime(path, (path.stat().st_mtime - age,) * 2)
    assert kept.get(NAME) is not None  # used now
    kept.prune(most_bytes=1500)
    assert kept.get(OTHER) is None
    assert kept.get(NAME) is not None


def test_a_folder_that_others_can_write_to_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    assert Kept.at(tmp_path / "shared") is None


def test_a_folder_that_cannot_be_made_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert Kept.at(tmp_path / "file" / "keys") is None
