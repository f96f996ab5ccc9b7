"""From a name, a file or a model folder to a chat template."""

from __future__ import annotations

import json
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kvtools.chat.environment import DEFAULT_CLOCK
from kvtools.chat.template import ChatTemplate
from kvtools.errors import TemplateError
from kvtools.resources import bundled_templates

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

_DEEPSEEK_TOKENS = MappingProxyType(
    {"bos_token": "<｜begin▁of▁sentence｜>", "eos_token": "<｜end▁of▁sentence｜>"}  # noqa: RUF001 - as trained
)

BUILT_IN: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "deepseek": _DEEPSEEK_TOKENS,
        "deepseek-v4": _DEEPSEEK_TOKENS,
        "chatml": MappingProxyType({"eos_token": "<|im_end|>"}),
        "llama3": MappingProxyType({"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"}),
        "plain": MappingProxyType({}),
    }
)
"""The built-in templates with their special tokens; the first is the default."""

DEFAULT_TEMPLATE = "deepseek"

_AS_LOGGED = frozenset({"chatml", "plain"})
"""Templates that follow a convention of their own and stand for no engine's template."""

_SUFFIXES = (".jinja", ".j2", ".jinja2")
_TOKEN_NAMES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
_IN_CODE = {
    "DeepseekV4ForCausalLM": "deepseek-v4",
    "DeepseekV4ForConditionalGeneration": "deepseek-v4",
    "DeepseekV32ForCausalLM": None,
    "DeepseekV41ForCausalLM": None,
    "KimiK3ForConditionalGeneration": None,
    "InklingForCausalLM": None,
    "InklingForConditionalGeneration": None,
}
"""Architectures whose prompts vLLM 0.32 builds in code, whatever template the folder holds, and our equal.

The list is that of ``tokenizer_mode="auto"`` in ``vllm/config/model.py``.
"""


def load(name_or_path: str = DEFAULT_TEMPLATE, *, clock: datetime = DEFAULT_CLOCK) -> ChatTemplate:
    """Return the chat template of a built-in name, a template file or a model folder.

    A built-in name wins over a file of the same name (write ``./name`` for the file). A template file is
    ``.jinja``, ``.j2`` or ``.jinja2``; its special tokens are those of a ``tokenizer_config.json`` beside
    it, if there is one. A model folder holds ``chat_template.jinja``, ``chat_template.json`` or a
    ``tokenizer_config.json`` with a ``chat_template``, looked for in this order, which is transformers'.
    ``clock`` is what ``strftime_now`` says in every render.

    Raises:
        TemplateError: there is no such name, file or template, or it cannot be read or parsed.
    """
    if name_or_path in BUILT_IN:
        file = bundled_templates() / "chat" / f"{name_or_path}.j2"
        return ChatTemplate(
            name_or_path,
            _text(file),
            dict(BUILT_IN[name_or_path]),
            clock=clock,
            tools_as_logged=name_or_path in _AS_LOGGED,
        )
    path = Path(name_or_path)
    if path.is_dir():
        return _from_folder(path, clock)
    if path.suffix in _SUFFIXES:
        return ChatTemplate(name_or_path, _text(path), _special_tokens(path.parent), clock=clock)
    raise TemplateError(
        f"there is no chat template {name_or_path!r}: "
        f"name one of {', '.join(BUILT_IN)}, a .jinja or .j2 file, or a model folder."
    )


def _from_folder(folder: Path, clock: datetime) -> ChatTemplate:
    in_code = next((arch for arch in _architectures(folder) if arch in _IN_CODE), None)
    if in_code is not None:
        return _equal_of(in_code, folder, clock)
    templates = _folder_templates(folder)
    tool_source = templates.get("tool_use")
    source = templates.get("default", tool_source)
    if source is None:
        raise TemplateError(
            f"the folder {folder} holds no chat template (chat_template.jinja, chat_template.json or "
            f"chat_template in tokenizer_config.json): add one, or name one of {', '.join(BUILT_IN)}."
        )
    return ChatTemplate(str(folder), source, _special_tokens(folder), tool_source, clock=clock)


def _architectures(folder: Path) -> list[str]:
    names = _json(folder / "config.json").get("architectures")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def _equal_of(architecture: str, folder: Path, clock: datetime) -> ChatTemplate:
    name = _IN_CODE[architecture]
    if name is None:
        raise TemplateError(
            f"vLLM builds the prompts of {architecture} ({folder}) in code and kvtools has no template equal "
            "to it: give a log of rendered prompts or token ids, or name a template file to use all the same."
        )
    return load(name, clock=clock)


def _folder_templates(folder: Path) -> dict[str, str]:
    """Return the folder's templates by name, of which ``default`` and ``tool_use`` matter."""
    file = folder / "chat_template.jinja"
    if file.is_file():
        further = sorted((folder / "additional_chat_templates").glob("*.jinja"))
        return {"default": _text(file)} | {extra.stem: _text(extra) for extra in further}
    for name in ("chat_template.json", "tokenizer_config.json"):
        template = _json(folder / name).get("chat_template")
        if isinstance(template, str):
            return {"default": template}
        if isinstance(template, list):
            pairs = (
                (entry.get("name"), entry.get("template")) for entry in template if isinstance(entry, dict)
            )
            return {key: text for key, text in pairs if isinstance(key, str) and isinstance(text, str)}
    return {}


def _special_tokens(folder: Path) -> dict[str, str]:
    """Return the folder's named special tokens; a token is a text or an object with a ``content``."""
    found: dict[str, str] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        tokens = _json(folder / name)
        for key in _TOKEN_NAMES:
            token = tokens.get(key)
            text = token.get("content") if isinstance(token, dict) else token
            if isinstance(text, str):
                found[key] = text
    return found


def _json(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    try:
        value = json.loads(_text(file))
    except json.JSONDecodeError as error:
        raise TemplateError(f"{file}:{error.lineno} is not JSON ({error.msg}): repair the file.") from error
    return value if isinstance(value, dict) else {}


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise TemplateError(f"the chat template file {file} does not exist: check the path.") from error
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise TemplateError(
            f"the chat template file {file} cannot be read ({reason}): check the file."
        ) from error
