"""Prometheus' own tools, as tests call them: promtool on rules and series, and a real server on loopback."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

TOOLS = {name: shutil.which(name) for name in ("promtool", "prometheus", "amtool", "prometheus-alertmanager")}
START_S = 60
needs_prometheus = pytest.mark.skipif(
    None in TOOLS.values(),
    reason="prometheus and prometheus-alertmanager are not installed (Debian packages)",
)


def tool(*arguments: str | Path, given: str | None = None) -> str:
    """Run a tool and return what it says; it has to agree."""
    done = subprocess.run(
        [*map(str, arguments)], input=given, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def hold(
    folder: Path,
    rules: str,
    series: Mapping[str, str],
    expected: Mapping[str, tuple[str, Sequence[tuple[str, float]]]],
) -> None:
    """Let promtool check rules and compare queries on series (one value a minute) with what is ``expected``.

    ``expected``: by query, when it is asked, and its samples, each with its labels and value.
    """
    (folder / "rules.yaml").write_text(rules)
    tool("promtool", "check", "rules", folder / "rules.yaml")
    queries = [
        {
            "expr": query,
            "eval_time": when,
            "exp_samples": [{"labels": labels, "value": value} for labels, value in samples],
        }
        for query, (when, samples) in expected.items()
    ]
    given = [{"series": name, "values": values} for name, values in series.items()]
    test = {"interval": "1m", "input_series": given, "promql_expr_test": queries}
    document = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [test]}
    (folder / "tests.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
    tool("promtool", "test", "rules", folder / "tests.yaml")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def get(url: str, body: object = None) -> Any:
    """Return the JSON that a server answers."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})  # noqa: S310 - our own http
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
        text = answer.read()
    return json.loads(text) if text else None


@contextmanager
def served(program: Sequence[str | Path], port: int, log: Path) -> Iterator[str]:
    """Yield the URL of a server that answers on ``/-/ready``, and end it."""
    url = f"http://127.0.0.1:{port}"
    with log.open("w") as output:
        process = subprocess.Popen([*map(str, program)], stdout=output, stderr=output)
        try:
            for _ in range(10 * START_S):
                assert process.poll() is None, log.read_text()[-2000:]
                try:
                    with urllib.request.urlopen(f"{url}/-/ready", timeout=2):  # noqa: S310
                        break
                except OSError:
                    time.sleep(0.1)
            else:
                pytest.fail(f"{program[0]} did not start: {log.read_text()[-2000:]}")
            yield url
        finally:
            process.terminate()
            process.wait(30)


@contextmanager
def prometheus(folder: Path, config: Mapping[str, Any]) -> Iterator[str]:
    """Yield the URL of a Prometheus that keeps its data in ``folder/data``."""
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(dict(config)))
    port = free_port()
    options = {
        "config.file": folder / "prometheus.yaml",
        "storage.tsdb.path": folder / "data",
        "storage.tsdb.retention.time": "100y",
        "web.listen-address": f"127.0.0.1:{port}",
    }
    program = ["prometheus", *(f"--{name}={value}" for name, value in options.items())]
    with served(program, port, folder / "prometheus.log") as url:
        yield url


def ask(url: str, query: str, when: float | None = None) -> dict[str, float]:
    """Return the samples of a query: values by labels, as ``name="value",…`` without ``__name__``."""
    fields = {"query": query} | ({} if when is None else {"time": str(when)})
    answer = get(f"{url}/api/v1/query?{urllib.parse.urlencode(fields)}")
    assert answer["status"] == "success", answer
    found = {}
    for sample in answer["data"]["result"]:
        labels = sorted((name, value) for name, value in sample["metric"].items() if name != "__name__")
        found[",".join(f'{name}="{value}"' for name, value in labels)] = float(sample["value"][1])
    return found
