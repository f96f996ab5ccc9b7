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

LARGEST_COLD_SHARE = 0.5


def write_sample(
    name: str, target: Path, *, seed: int | None = None, cold_share: float | None = None
) -> list[Path]:
    """Write a bundled synthetic log and return the files (never half: each beside its place, then renamed).

    ``shop-assistant`` and ``mixed-traffic`` are the file ``target``; ``canonical`` is several files in the folder
    ``target``. ``seed`` chooses the log; ``cold_share`` (0..1) is for ``mixed-traffic``.

    Raises:
        UsageError: there is no such sample, or it does not take what was given.
        InputError: a file cannot be written.
    """
    if cold_share is not None and name != "mixed-traffic":
        raise UsageError(f"--cold-share: {name} has none; mixed-traffic has.")
    if cold_share is not None and not 0 < cold_share <= LARGEST_COLD_SHARE:
        raise UsageError(f"--cold-share {cold_share:g}: a share above 0, up to {LARGEST_COLD_SHARE:g}.")
    if seed is not None and name == "canonical":
        raise UsageError("--seed: canonical is always the same.")
    given = {key: value for key, value in (("seed", seed), ("cold_share", cold_share)) if value is not None}
    if name == "canonical":
        if target.exists() and not target.is_dir():
            raise InputError(f"{target}: is a file; name a folder for the files of this sample.")
        target.mkdir(parents=True, exist_ok=True)
        files = {target / file: lines for file, lines in canonical(_default_ids).items()}
    elif name in SAMPLES:
        files = {target: SAMPLES[name](**given)}
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
