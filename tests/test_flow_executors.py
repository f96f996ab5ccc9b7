"""``analyze`` gives one report wherever its chunks are mapped, whatever was kept, and however often it was killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kvtools.errors import RejectedInput
from kvtools.executors import SERIAL, Work
from kvtools.flow import AnalyzeOptions, analyze, keyed_chunks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvtools.report.model import Report

SHOP = Path(__file__).resolve().parents[1] / "data/shop-assistant.jsonl"
CHUNK_BYTES = 150_000
KILLS = 20


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvtools.readers.base.CHUNK_BYTES", CHUNK_BYTES)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first 600 requests of the shop assistant, one broken line among them, one call logged twice."""
    lines = SHOP.read_bytes().splitlines(keepends=True)[:600]
    path = tmp_path_factory.mktemp("executors") / "shop.jsonl"
    path.write_bytes(b"".join([*lines[:400], b'{"messages": [\n', lines[3], *lines[400:]]))
    return path


@pytest.fixture(scope="module")
def serial(log: Path) -> Iterator[Report]:
    """The report of one process."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("kvtools.readers.base.CHUNK_BYTES", CHUNK_BYTES)
        yield analyze(log, AnalyzeOptions())


def test_processes_give_the_same_report(log: Path, serial: Report) -> None:
    assert analyze(log, AnalyzeOptions(work=Work(executor="processes", workers=2))) == serial


def test_dask_gives_the_same_report_though_a_worker_is_killed(log: Path, serial: Report) -> None:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=4, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        victim = threading.Thread(target=_kill_the_first_that_works, args=(cluster,))
        victim.start()
        report = analyze(log, AnalyzeOptions(work=Work(executor="dask", scheduler=cluster.scheduler_address)))
        victim.join()
        lost = [event for _, event in client.get_events("all") if event.get("action") == "remove-worker"]
    assert report == serial
    assert lost


def _kill_the_first_that_works(cluster: Any) -> None:
    until = time.monotonic() + 120
    while time.monotonic() < until:
        for state in list(cluster.scheduler.workers.values()):
            if state.processing:
                os.kill(cluster.workers[state.name].pid, signal.SIGKILL)
                return
        time.sleep(0.01)


def test_a_second_run_maps_no_chunk_again(
    log: Path, serial: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = AnalyzeOptions(work=Work(cache_dir=tmp_path / "keys"))
    assert analyze(log, options) == serial

    def none_left(*_: object) -> None:
        raise AssertionError("a chunk was mapped again")

    monkeypatch.setattr(keyed_chunks, "mapped_by", none_left)
    assert analyze(log, options) == serial


def test_other_settings_take_no_kept_keys(log: Path, tmp_path: Path) -> None:
    kept = AnalyzeOptions(work=Work(cache_dir=tmp_path / "keys"), findings=False, classes=False)
    analyze(log, kept)
    for other in (replace(kept, block_size=32), replace(kept, chat_template="chatml")):
        assert analyze(log, other) == analyze(log, replace(other, work=SERIAL))


def test_a_log_that_grew_takes_what_was_kept(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grown = tmp_path / "grown.jsonl"
    options = AnalyzeOptions(work=Work(cache_dir=tmp_path / "keys"), findings=False, classes=False)
    grown.write_bytes(log.read_bytes())
    analyze(grown, options)
    with grown.open("ab") as file:
        file.writelines(SHOP.read_bytes().splitlines(keepends=True)[600:700])
    expected = analyze(grown, replace(options, work=SERIAL))
    mapped: list[int] = []
    inner = keyed_chunks.mapped_by

    def counted(*args: Any) -> Any:
        mapped.append(1)
        return inner(*args)

    monkeypatch.setattr(keyed_chunks, "mapped_by", counted)
    assert analyze(grown, options) == expected
    # The chunk that the first log ended in, and what was added.
    assert 1 <= len(mapped) <= 2


def test_what_a_fuller_run_kept_is_no_use_to_an_emptier_one(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Few shingles: the chunks of the second file are gathered from a level on that its own run never reaches.
    monkeypatch.setattr("kvtools.similarity.seen.BUDGET_SHINGLES", 12_000)
    lines = [line for line in log.read_bytes().splitlines(keepends=True) if line.endswith(b"}\n")]
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    first.write_bytes(b"".join(lines[:400]))
    second.write_bytes(b"".join(lines[400:]))
    plain = AnalyzeOptions(findings=False, classes=False)
    kept = replace(plain, work=Work(cache_dir=tmp_path / "keys"))
    assert analyze([first, second], kept) == analyze([first, second], plain)
    assert analyze(second, kept) == analyze(second, plain)
    assert analyze([first, second], replace(plain, work=Work(executor="processes", workers=2))) == analyze(
        [first, second], plain
    )


@pytest.mark.parametrize("executor", ["serial", "processes"])
def test_strict_stops_at_the_same_record(log: Path, executor: Any) -> None:
    workers = None if executor == "serial" else 2
    with pytest.raises(RejectedInput, match=r"shop\.jsonl:401: "):
        analyze(log, AnalyzeOptions(strict=True, work=Work(executor=executor, workers=workers)))


def test_a_run_that_is_killed_goes_on_from_what_it_finished(log: Path, tmp_path: Path) -> None:
    out, keys = tmp_path / "report.json", tmp_path / "keys"
    program = (
        "import kvtools.readers.base as base, sys\n"
        f"base.CHUNK_BYTES = {CHUNK_BYTES}\n"
        "from kvtools.cli import main\n"
        "main()"
    )
    command = [sys.executable, "-c", program, "analyze", str(log), "--format", "json", "-o", str(out)]
    command += ["--cache-dir", str(keys), "--no-findings", "--no-classes"]
    whole = subprocess.run([*command[:-2], "--no-cache", *command[-2:]], check=True, capture_output=True)
    assert whole.returncode == 0
    expected = out.read_bytes()
    out.unlink()
    begun = time.monotonic()
    subprocess.run([*command[:-2], "--no-cache", *command[-2:]], check=True, capture_output=True)
    longest = time.monotonic() - begun
    out.unlink()
    chance = random.Random(11)
    for _ in range(KILLS):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(longest * chance.random())
        process.send_signal(signal.SIGKILL)
        process.wait()
        # It may have been quicker than the signal: then all of it is there.
        assert not out.exists() or out.read_bytes() == expected
        out.unlink(missing_ok=True)
    subprocess.run(command, check=True, capture_output=True)
    assert out.read_bytes() == expected
