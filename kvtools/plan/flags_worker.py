"""The process that asks vLLM's own parser: which flags there are, and what it says of a command line.

It imports nothing of kvtools, as ``replay/vllm_worker``. Run as ``python -m kvtools.plan.flags_worker``; standard
input holds ``{"program", "argv"}`` or ``{}``, standard output one JSON line: ``{"table", "refused"}``, where
``refused`` is what the parser says against the line (``null``: it takes it), or ``{"failed", "kind"}``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import sys
from typing import Any, get_args, get_type_hints

_WRAPPERS = {"_optional_type", "_parse_type"}
_TYPES = {
    "int": "int",
    "float": "float",
    "str": "text",
    "loads": "json",
    "human_readable_int": "human_int",
    "human_readable_int_or_auto": "human_int_or_auto",
    "parse_dataclass": "config",
    "union_dict_and_str": "json_or_text",
    "<lambda>": "folded",  # backends: small letters, underscores
}
_KINDS = {
    "_StoreTrueAction": "switch",
    "_HelpAction": "switch",
    "BooleanOptionalAction": "on_off",
    "_AppendAction": "append",
}
_DEPTH = 3
_SAID_CHARS = 300


def main() -> None:
    """Answer the one question on standard input."""
    question = json.load(sys.stdin)
    # vLLM and its libraries print to standard output; the answer keeps the real one for itself.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answer:
        os.dup2(2, 1)
        json.dump(_answer(question), answer)


def _answer(question: dict[str, Any]) -> dict[str, Any]:
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    try:
        import vllm  # noqa: PLC0415 - not there on most machines, and half a minute of imports
        from vllm.utils.argparse_utils import FlexibleArgumentParser  # noqa: PLC0415
    except ImportError as error:
        return {"failed": str(error), "kind": "missing"}
    try:
        parser = FlexibleArgumentParser(prog="vllm")
        _add_flags(parser.add_subparsers(dest="subparser").add_parser("serve"))
        alone = _add_flags(FlexibleArgumentParser(prog="api_server"))
        table = {"vllm": vllm.__version__.split("+")[0], "flags": _flags(alone), **_names()}
        asked = {"serve": parser, "api_server": alone}.get(question.get("program", ""))
        refused = None if asked is None else _refusal(asked, question)
    except Exception as error:  # noqa: BLE001 - the parent turns it into one sentence
        return {"failed": f"{type(error).__name__}: {error}".splitlines()[0], "kind": "engine"}
    return {"table": table, "refused": refused}


def _add_flags(parser: Any) -> Any:
    try:
        from vllm.entrypoints.launchers.cli_args import make_arg_parser  # noqa: PLC0415
    except ImportError:  # where it stood before 0.32
        from vllm.entrypoints.openai.cli_args import make_arg_parser  # noqa: PLC0415
    return make_arg_parser(parser)


def _names() -> dict[str, list[str]]:
    from vllm import envs  # noqa: PLC0415
    from vllm.model_executor.layers import quantization  # noqa: PLC0415

    return {
        "environment": sorted(name for name in envs.environment_variables if name.startswith("VLLM_")),
        "quantization": sorted(quantization.QUANTIZATION_METHODS),
        "deprecated_quantization": sorted(getattr(quantization, "DEPRECATED_QUANTIZATION_METHODS", [])),
    }


def _refusal(parser: Any, question: dict[str, Any]) -> str | None:
    argv = [*(["serve"] if question["program"] == "serve" else []), *question["argv"]]
    told = io.StringIO()
    try:
        with contextlib.redirect_stderr(told), contextlib.redirect_stdout(io.StringIO()):
            parser.parse_args(argv)
    except SystemExit as end:
        # Without an error it was --help or --version that ended it.
        said = " ".join(told.getvalue().partition(": error: ")[2].split())
        return said[:_SAID_CHARS] if said and end.code else None
    except Exception as error:  # noqa: BLE001 - the parser raises all kinds on what it does not take
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return None


def _flags(parser: Any) -> list[dict[str, Any]]:
    deprecated: set[Any] = getattr(parser, "_deprecated", set())
    actions = [action for action in parser._actions if action.option_strings]  # noqa: SLF001 - argparse has no other list
    flags = [_flag(action, deprecated=action in deprecated) for action in actions]
    return sorted(flags, key=lambda flag: flag["names"][0])


def _flag(action: Any, *, deprecated: bool) -> dict[str, Any]:
    kind, optional, config = _converter(action.type)
    told = {
        "names": list(action.option_strings),
        "dest": action.dest,
        "kind": _KINDS.get(type(action).__name__, "value"),
        "type": kind,
        "optional": optional,
        "nargs": action.nargs if action.nargs in {"?", "+", "*"} else None,
        "choices": None
        if action.choices is None
        else [str(choice) for choice in action.choices if choice is not None],
        "default": _plain(action.default),
        "fields": None if config is None else _fields(config, _DEPTH),
        "deprecated": deprecated or "Deprecated" in type(action).__name__,
    }
    return {name: value for name, value in told.items() if value not in (None, False)}


def _converter(function: Any) -> tuple[str, bool, Any]:
    """Return a flag's type by name, whether ``None`` is a value, and the config class that a JSON value makes."""
    optional = False
    while getattr(function, "__name__", "") in _WRAPPERS:
        optional = optional or function.__name__ == "_optional_type"
        function = next(cell.cell_contents for cell in function.__closure__ if callable(cell.cell_contents))
    name = getattr(function, "__name__", "str")
    config = function.__defaults__[0] if name == "parse_dataclass" else None
    return _TYPES.get(name, "text"), optional, config


def _fields(config: Any, depth: int) -> dict[str, Any]:
    """Return the keys that a config takes; the value is those of the config inside, ``None`` where there is none."""
    try:
        hints = get_type_hints(config)
    except NameError:
        hints = {}
    told = {}
    for field in dataclasses.fields(config):
        if field.init:
            inner = _inner(hints.get(field.name)) if depth > 1 else None
            told[field.name] = None if inner is None else _fields(inner, depth - 1)
    return told


def _inner(hint: Any) -> Any:
    kinds = [hint, *get_args(hint)]
    return next((kind for kind in kinds if isinstance(kind, type) and dataclasses.is_dataclass(kind)), None)


def _plain(value: Any) -> Any:
    known = isinstance(value, (bool, int, float, str)) or (isinstance(value, list) and not value)
    # An enumeration is an int or a text and prints as neither.
    return value if known and type(value) in {bool, int, float, str} and value != "==SUPPRESS==" else None


if __name__ == "__main__":
    main()
