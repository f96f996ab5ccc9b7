"""Peers on the same log: each in an environment of its own, at the version that is named here.

What does not install, or does not run, is left out and the reason is told. Environments are kept between runs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from measure import KVTOOLS, ProgramFailedError, measured, median

HERE = Path(__file__).resolve().parent
INSTALL_S = 1_200
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}


@dataclass(frozen=True)
class Peer:
    """A package at a version, what it runs (``{bin}``: its environment, ``{in}``: the inputs), and what that does."""

    package: str
    version: str
    program: tuple[str, ...]
    does: str

    @property
    def title(self) -> str:
        """The name in the table."""
        return f"{self.package} {self.version}"


PEERS = (
    Peer(
        "kvlint", "0.1.1",
        ("{bin}/kvlint", "analyze", "{in}/openai.jsonl", "--model", "{in}/model", "--engine", "vllm"),
        "renders, tokenizes, hit rate without a limit",
    ),
    Peer(
        "llmtrafficlens", "0.13.4",
        ("{bin}/llmtrafficlens", "profile", "{in}/gateway.csv", "--warmup", "0",
         "--salt-file", "{in}/salt", "-o", "{in}/lens"),
        "lengths and reuse, tokens guessed from characters",
    ),
    Peer(
        "prefixlens", "0.1.0",
        ("{bin}/prefixlens", "analyze", "{in}/tokens.jsonl", "--json"),
        "hit rate of one size; token ids given",
    ),
    Peer(
        "kvcache-simulator", "0.1.3",
        ("{bin}/kvcache-simulator", "run", "--trace", "{in}/blocks.jsonl", "--model", "deepseek-v3",
         "--policies", "lru", "--no-progress", "--format", "json"),
        "hit rates of some sizes; block ids given",
    ),
    Peer(
        "aiperf", "0.13.0",
        ("{bin}/aiperf", "analyze-trace", "{in}/trace.jsonl", "--block-size", "16"),
        "lengths and hit rate; block ids given",
    ),
    Peer(
        "drain3", "0.9.11",
        ("{bin}/python", f"{HERE}/peer_library.py", "drain3", "{in}/prompts.jsonl"),
        "templates of the prompts",
    ),
    Peer(
        "datasketch", "2.0.0",
        ("{bin}/python", f"{HERE}/peer_library.py", "datasketch", "{in}/prompts.jsonl"),
        "near neighbours by MinHash",
    ),
)  # fmt: skip

OURS = (
    (("--no-findings", "--no-classes"), "renders, tokenizes, lengths, hits, all sizes, similarity"),
    ((), "the same, with findings, their replayed costs, and classes"),
)


def peers_folder() -> Path:
    """Return where the environments are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "kvtools" / "peers"


def installed(name: str, requirement: str) -> tuple[Path | None, str]:
    """Return the programs of an environment, made where it is missing; or ``None`` and why there are none.

    ``requirement`` is what pip is asked for: a package at a version, or a folder to be installed as it stands.
    """
    home = peers_folder() / name
    if not (home / ".ready").is_file():
        what = ["--editable", requirement] if "==" not in requirement else [requirement]
        pip = [str(home / "bin/python"), "-m", "pip", "install", "--quiet", *what]
        try:
            subprocess.run([sys.executable, "-m", "venv", str(home)], check=True, capture_output=True)
            subprocess.run(pip, check=True, capture_output=True, text=True, timeout=INSTALL_S)
        except subprocess.TimeoutExpired:
            return None, f"pip took more than {INSTALL_S // 60} minutes"
        except subprocess.CalledProcessError as error:
            said = str(error.stderr or "").strip().splitlines() or ["no message"]
            return None, f"does not install ({said[-1][:120]})"
        (home / ".ready").touch()
    return home / "bin", ""


def peer_rows(inputs: Path, runs: int, say: object = print) -> list[list[str]]:
    """Return a row per peer: name, CPU seconds, wall seconds, peak MB, what it did (or why it was left out)."""
    assert callable(say)
    rows = []
    for peer in PEERS:
        programs, why = installed(f"{peer.package}-{peer.version}", f"{peer.package}=={peer.version}")
        if programs is not None:
            filled = [
                part.replace("{bin}", str(programs)).replace("{in}", str(inputs)) for part in peer.program
            ]
            try:
                usage = median(measured(filled, inputs, OFFLINE) for _ in range(runs))
            except ProgramFailedError as error:
                why = f"does not run ({error})"
            else:
                rows.append([peer.title, *usage.cells(), peer.does])
                say(f"{peer.title}: {usage.cpu_s:.1f} CPU s")
                continue
        say(f"{peer.title}: left out, {why}")
        rows.append([peer.title, "-", "-", "-", f"left out: {why}"])
    return rows


def own_rows(log: Path, runs: int) -> list[list[str]]:
    """Return the rows of kvtools on the log itself, with nothing kept of an earlier run."""
    rows = []
    for options, does in OURS:
        program = [*KVTOOLS, "analyze", "logs", str(log), "--format", "json", "--no-cache", *options]
        usage = median(measured(program) for _ in range(runs))
        rows.append([f"**kvtools analyze** {' '.join(options)}".strip(), *usage.cells(), does])
    return rows
