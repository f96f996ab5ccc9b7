"""The documentation of ``plan schedule``: every JSON name is defined, every policy and option of its own is described."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest

from kvtools.cli.plan_schedule import command
from kvtools.cli.schedule_options import LIMITS, SCHEDULE
from kvtools.cli.schedule_what_if import WHAT_IF
from kvtools.plan.schedule_clock import GPUS
from kvtools.plan.schedule_policies import POLICIES
from kvtools.report import plan_schedule as report
from kvtools.samples.mixed_traffic import mixed_traffic

DOCS = Path(__file__).resolve().parents[2] / "docs"
PARTS = (
    report.ClassSchedule, report.SweepPoint, report.TurningPoints, report.Limit, report.StepClock, report.Search,
    report.Verdict, report.Engine, report.KvUsage, report.Times, report.ScheduleReport,
)  # fmt: skip


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_every_json_name_is_defined(part: type[report.ClassSchedule]) -> None:
    text = (DOCS / "metrics.md").read_text()
    for name in part.__struct_encode_fields__:
        assert name in text, name


def test_every_policy_gpu_and_option_is_described() -> None:
    text = (DOCS / "plan-schedule.md").read_text()
    for name in (*POLICIES, *GPUS):
        assert name in text
    own = {click.command()(option(lambda: None)).params[0].name for option in (*SCHEDULE, *LIMITS, *WHAT_IF)}
    for option in command.params:
        if option.name in own - {"seed"}:
            assert option.opts[0] in text, option.opts[0]


def test_the_command_of_the_page_is_one_that_the_command_line_takes() -> None:
    text = (DOCS / "plan-schedule.md").read_text()
    lines = text.replace("\\\n", " ").splitlines()
    commands = [line.split()[3:] for line in lines if line.startswith("kvtools plan schedule")]
    assert len(commands) == 4
    for words in commands:
        command.make_context("schedule", words)


def test_the_figures_of_the_page_are_those_of_the_program(tmp_path: Path) -> None:
    """``make docs-schedule`` wrote the table; the rows of first come, first served are made again here."""
    text = (DOCS / "plan-schedule.md").read_text()
    (tmp_path / "mixed.csv").write_bytes(b"".join(mixed_traffic()))
    options = text.partition("plan schedule mixed.csv ")[2].partition("\\")[0].split()
    command = [sys.executable, "-m", "kvtools", "plan", "schedule", "mixed.csv", *options, "--policy", "fcfs"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, encoding="utf-8")
    rows = [line for line in done.stdout.splitlines() if line.startswith("fcfs ")]
    assert len(rows) == 2
    for row in rows:
        assert row in text
