"""The house rules that a machine can check: who may import whom, how large a room is, what stays out of it."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "kvtools"

HUB = ("errors", "jit", "table", "model", "resources")
RIVER = (
    "samples",
    "executors",
    "readers",
    "chat",
    "tokens",
    "linting",
    "blocks",
    "cache",
    "similarity",
    "prefixes",
    "fields",
    "normalize",
    "profile",
    "sessions",
    "heat",
    "warmup",
    "diagnosis",
    "writers",
    "replay",
    "plan",
    "vllm_plugin",
    "report",
    "gate",
    "monitor",
    "flow",
    "cli",
)
"""Every room may import the hub and the rooms before it; flow alone joins them, cli calls flow."""

PROCESSES = ("replay/vllm_worker.py", "plan/flags_worker.py", "vllm_plugin/settings.py")
"""Modules that run in processes of their own or of vLLM, and so have an environment and a standard output."""

ORDER = {name: place for place, name in enumerate((*HUB, *RIVER))}
MODULE_LINES = 300
CLI_LINES = 120
FUNCTION_LINES = 40
# Heavy libraries load inside the functions that need them, or in rooms that are only imported to run.
LIGHT = ("__init__", "__main__", "cli", "errors", "resources")
HEAVY = (
    "pandas",
    "numpy",
    "pyarrow",
    "sklearn",
    "numba",
    "plotly",
    "rich",
    "vllm",
    "dask",
    "tokenizers",
    "jinja2",
)

MODULES = sorted(PACKAGE.rglob("*.py"))


def _name(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def _room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def _imports(tree: ast.AST) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_imports_run_one_way(path: Path) -> None:
    room = _room(path)
    if room in {"__init__", "__main__"}:
        return
    assert room in ORDER, f"{room} is not in the list of rooms"
    for module in _imports(ast.parse(path.read_text())):
        if not module.startswith("kvtools."):
            continue
        other = module.split(".")[1]
        if other == room:
            continue
        assert ORDER[other] < ORDER[room], f"{_name(path)} imports {module}, which lies downstream of it"
        assert room != "cli" or other in {"errors", "flow", "report"}, (
            f"{_name(path)} goes past flow to {module}"
        )


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_rooms_are_small(path: Path) -> None:
    text = path.read_text()
    limit = CLI_LINES if _room(path) == "cli" else MODULE_LINES
    assert text.count("\n") <= limit, "what room is missing?"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            body = node.end_lineno - node.body[0].lineno + 1
            assert body <= FUNCTION_LINES, f"{node.name} has {body} lines"


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_rooms_are_named_and_silent(path: Path) -> None:
    assert not {"utils", "util", "helpers", "common", "misc", "manager"} & set(path.with_suffix("").parts)
    if _room(path) == "cli" or _name(path) in PROCESSES:
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in {"print", "exit", "input"}, f"line {node.lineno}"
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            pair = (node.value.id, node.attr)
            assert pair not in {("os", "environ"), ("os", "getenv"), ("sys", "exit"), ("time", "time")}
            assert pair not in {("datetime", "now"), ("datetime", "today"), ("date", "today")}


@pytest.mark.parametrize("path", [p for p in MODULES if _room(p) in LIGHT], ids=_name)
def test_light_modules_import_nothing_heavy_at_the_top(path: Path) -> None:
    tree = ast.parse(path.read_text())
    top = ast.Module([node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))], [])
    roots = {module.split(".")[0] for module in _imports(top)}
    assert not roots & set(HEAVY)


def test_help_loads_nothing_heavy() -> None:
    program = (
        "import sys; sys.argv = ['kvtools', '--help']\n"
        "from kvtools.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(*sorted({name.split('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "analyze" in done.stdout
    assert not set(done.stderr.split()) & set(HEAVY)
