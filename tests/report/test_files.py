from __future__ import annotations

import errno
import os
import stat
import tempfile
import threading
from pathlib import Path

import pytest

from kvtools.errors import InputError
from kvtools.report.files import replacing


def put(path: Path, text: str = "new\n", fault: BaseException | None = None) -> None:
    with replacing(path) as file:
        file.write(text)
        if fault is not None:
            raise fault


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_file_appears_whole_and_alone(tmp_path: Path) -> None:
    with replacing(tmp_path / "out") as file:
        file.write("one\n")
        file.flush()
        assert not (tmp_path / "out").exists()
        file.write("zwei ü\u2028\n")
    assert (tmp_path / "out").read_bytes() == "one\nzwei ü\u2028\n".encode()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_an_error_leaves_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("old\n")
    with pytest.raises(KeyboardInterrupt):
        put(tmp_path / "out", "half", KeyboardInterrupt())
    assert (tmp_path / "out").read_text() == "old\n"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(("umask", "rights"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_the_umask_decides_the_rights_of_a_new_file(tmp_path: Path, umask: int, rights: int) -> None:
    before = os.umask(umask)
    try:
        put(tmp_path / "out")
    finally:
        os.umask(before)
    assert mode(tmp_path / "out") == rights


def test_a_file_that_is_replaced_keeps_its_rights(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("old\n")
    (tmp_path / "out").chmod(0o640)
    put(tmp_path / "out")
    assert mode(tmp_path / "out") == 0o640
    assert (tmp_path / "out").read_text() == "new\n"


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/out").write_text("old\n")
    (tmp_path / "link").symlink_to("real/out")
    put(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real/out").read_text() == "new\n"


@pytest.mark.parametrize("name", ["", ".", "missing/out", "file/out", "a" * 300])
def test_places_that_cannot_be_written_are_told_before_the_work(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(InputError, match=r"cannot be written \(.+\); choose another place"),
        replacing(tmp_path / name),
    ):
        pytest.fail("the work has begun")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_named_pipe_receives_the_whole_and_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    put(pipe)
    reader.join()
    assert read == [b"new\n"]
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_device_is_written_and_not_replaced(tmp_path: Path) -> None:
    null = tmp_path / "null"
    null.symlink_to("/dev/null")  # were it replaced, it would be this link and not the machine's device
    put(null)
    assert null.is_symlink()
    assert stat.S_ISCHR(null.stat().st_mode)


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="needs a device without room")
def test_no_room_is_told(tmp_path: Path) -> None:
    full = tmp_path / "full"
    full.symlink_to("/dev/full")
    with pytest.raises(InputError, match=r"full: cannot be written \(No space left"):
        put(full)


def test_no_room_while_writing_is_told_and_other_errors_are_not_renamed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"out: cannot be written \(no room\)"):
        put(tmp_path / "out", fault=OSError(errno.ENOSPC, "no room"))
    with pytest.raises(FileNotFoundError):
        put(tmp_path / "out", fault=FileNotFoundError(errno.ENOENT, "gone", "other"))
    with pytest.raises(BrokenPipeError):
        put(tmp_path / "out", fault=BrokenPipeError(errno.EPIPE, "gone"))
    assert list(tmp_path.iterdir()) == []
