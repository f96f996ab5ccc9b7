"""What ``normalize`` gains, replayed, and that the log comes back byte for byte: on the logs with known answers."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kvtools.flow import NormalizeOptions, ReplayOptions, normalize, replay, restore

if TYPE_CHECKING:
    from pathlib import Path

    from kvtools.report.normalize import NormalizeReport


def normalized(path: Path, folder: Path, **options: object) -> NormalizeReport:
    out = folder / "out.jsonl"
    report = normalize([path], NormalizeOptions(target=out, **options))  # type: ignore[arg-type]
    restore(out, folder / "back.jsonl")
    assert (folder / "back.jsonl").read_bytes() == path.read_bytes()
    return report


def peers_log(shared: Path, folder: Path, requests: int, repair: str | None = None) -> Path:
    path = folder / f"peers-{repair}.jsonl"
    command = [
        sys.executable,
        str(shared / "peers/make_log.py"),
        "--n",
        str(requests),
        "--seed",
        "7",
        "--out",
        str(path),
    ]
    subprocess.run([*command, *(("--repair", repair) if repair else ())], check=True, capture_output=True)
    return path


def test_the_shop_assistant_reaches_what_is_promised(tmp_path: Path, data: Path) -> None:
    report = normalized(data / "shop-assistant.jsonl", tmp_path)
    assert report.hit_rate.before == pytest.approx(0.28, abs=0.02)
    assert report.hit_rate.after is not None
    assert report.hit_rate.after >= 0.72
    assert (report.requests.changed, report.requests.refused, report.requests.not_read) == (5000, 0, 0)
    assert {field.name for field in report.fields} == {"user_id", "time", "order_id"}
    replayed = replay([tmp_path / "out.jsonl"], ReplayOptions())
    assert replayed.replays[0].hit_rate == report.hit_rate.after


def test_the_peers_log_reaches_its_repair(shared: Path, tmp_path: Path) -> None:
    """At least 87.46 %: a point below the log repaired by hand. Nothing of it is lost."""
    report = normalized(peers_log(shared, tmp_path, 2_000), tmp_path)
    assert report.hit_rate.before == pytest.approx(0.5677, abs=0.0001)
    assert report.hit_rate.after is not None
    assert report.hit_rate.after >= 0.8746
    moved = {(field.route, field.name) for field in report.fields}
    assert moved == {
        ("tenant-00", "time"), ("tenant-01", "time"), ("tenant-02", "uuid"), ("tenant-03", "name"),
        ("tenant-03", "user_id"), ("tenant-03", "locale"), ("tenant-06", "examples"),
    }  # fmt: skip


@pytest.mark.parametrize("name", ["tau_bench/gpt-4o-airline.trial0.jsonl", "crosswoz_zh/val_first300.jsonl"])
@pytest.mark.parametrize("modes", [("hoist",), ("canonicalize", "hoist")])
def test_conversations_come_back(shared: Path, tmp_path: Path, name: str, modes: tuple[str, ...]) -> None:
    report = normalized(shared / "data" / name, tmp_path, modes=modes)
    assert report.requests.refused == 0
    assert report.requests.not_read == 0
