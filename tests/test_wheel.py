"""What users install: the wheel, in an environment of its own, run from another folder, templates included."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "build", "--wheel", "--outdir", str(target), str(ROOT)], check=True)
    (built,) = target.glob("*.whl")
    return built


def test_the_wheel_carries_templates_types_and_samples(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for template in ("deepseek", "deepseek-v4", "chatml", "llama3", "plain"):
        assert f"kvtools/templates/chat/{template}.j2" in names
    assert "kvtools/py.typed" in names
    assert "kvtools/samples/shop_phrases.json" in names
    assert not any(name.startswith(("tests/", "data/")) for name in names)


def test_the_wheel_runs_in_an_environment_of_its_own(wheel: Path, tmp_path: Path) -> None:
    environment, elsewhere = tmp_path / "venv", tmp_path / "elsewhere"
    elsewhere.mkdir()
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    python, kvtools = environment / "bin/python", environment / "bin/kvtools"
    subprocess.run([python, "-m", "pip", "install", "--quiet", str(wheel)], check=True)
    subprocess.run([kvtools, "sample", "canonical", "-o", "c"], cwd=elsewhere, check=True)
    program = [kvtools, "analyze", "logs", "c/canonical.chat.jsonl", "--format", "json"]
    done = subprocess.run(program, cwd=elsewhere, check=True, capture_output=True)
    report = json.loads(done.stdout)
    assert report["requests"] == 6
    # Counted in tests/test_flow_canonical.py.
    assert report["cache"]["hit_tokens"] == 96
