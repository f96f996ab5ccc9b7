"""``write_sample``: bundled synthetic logs to try kvtools on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvtools.chat import DEFAULT_TEMPLATE, load
from kvtools.errors import InputError, UsageError
from kvtools.report.files import replacing
from kvtools.samples import SAMPLES
from kvtools.samples.canonical import canonical
from kvtools.tokens import load_tokenizer

if TYPE_CHECKING:
    from pathlib import Path


def write_sample(name: str, target: Path) -> list[Path]:
    """Write a bundled synthetic log and return the files (never half: each beside its place, then renamed).

    ``shop-assistant`` is the file ``target``; ``canonical`` is several files in the folder ``target``.

    Raises:
        UsageError: there is no such sample.
        InputError: a file cannot be written.
    """
    if name == "canonical":
        if target.exists() and not target.is_dir():
            raise InputError(f"{target}: is a file; name a folder for the files of this sample.")
        target.mkdir(parents=True, exist_ok=True)
        files = {target / file: lines for file, lines in canonical(_default_ids).items()}
    elif name in SAMPLES:
        files = {target: SAMPLES[name]()}
    else:
        raise UsageError(f"no sample named {name}; there are: {', '.join((*SAMPLES, 'canonical'))}.")
    for path, lines in files.items():
        with replacing(path) as file:
            for line in lines:
                file.write(line.decode())
    return list(files)


def _default_ids(messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> list[int]:
    text = load(DEFAULT_TEMPLATE).render(messages, tools)
    ids: list[int] = load_tokenizer(fast=False).encode([text]).values.tolist()
    return ids
