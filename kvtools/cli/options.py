"""Options that several commands share, each said once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kvtools.cli.values import at_least_one, column_mapping

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")

FILE = click.Path(path_type=Path)

INTAKE = (
    click.option(
        "--input-format", metavar="NAME", help="Read every file as this format instead of recognising it."
    ),
    click.option(
        "--route-key",
        metavar="KEY",
        help="Field that names the route (default: tenant, route, app, endpoint).",
    ),
    click.option("--chat-template", metavar="NAME|FILE|DIR", help="Chat template (default: deepseek)."),
    click.option(
        "--map",
        "mapping",
        type=column_mapping,
        metavar="COLUMN=SOURCE,…",
        help="CSV, parquet: where each column comes from, such as prompt=request_json.messages.",
    ),
    click.option(
        "--tokenizer",
        metavar="FILE|DIR|bytes",
        help="tokenizer.json, tekken.json, *.tiktoken, *.model or model folder (default: deepseek).",
    ),
    click.option("--rejects", type=FILE, metavar="FILE", help="List rejected records in FILE."),
    click.option(
        "--strict", is_flag=True, default=None, help="Stop at the first record that has to be rejected."
    ),
)

CACHE = (
    click.option(
        "--block-size",
        type=at_least_one,
        metavar="TOKENS",
        help="Tokens of a cache block (default: 16; traces: theirs).",
    ),
    click.option(
        "--capacity-blocks",
        type=at_least_one,
        metavar="N",
        help="Usable blocks of the cache (default: unlimited).",
    ),
    click.option(
        "--kv-memory", metavar="SIZE", help="KV memory such as 20GiB instead of blocks; needs --model-config."
    ),
    click.option(
        "--model-config", type=FILE, metavar="FILE|DIR", help="The model's config.json: how large a block is."
    ),
    click.option(
        "--kv-dtype", metavar="TYPE", help="Element type of the KV cache (default: the model's own)."
    ),
    click.option(
        "--rules", type=click.Choice(["vllm", "trace"]), help="How hits are counted (default: by the log)."
    ),
)

RESULT = (
    click.option(
        "--format",
        "output_format",
        type=click.Choice(["text", "json"]),
        default="text",
        help="Form of the result.",
    ),
    click.option("-o", "--output", type=FILE, metavar="FILE", help="Write the result to FILE."),
)


def with_options(*groups: tuple[Callable[[F], F], ...]) -> Callable[[F], F]:
    """Return a decorator that gives a command all options of ``groups``, in their order."""

    def decorate(command: F) -> F:
        for option in reversed([option for group in groups for option in group]):
            command = option(command)
        return command

    return decorate


def only_given(values: dict[str, Any]) -> dict[str, Any]:
    """Return the options that were given: the others keep the verb's own defaults."""
    return {name: value for name, value in values.items() if value is not None}


def sized(given: dict[str, Any]) -> dict[str, Any]:
    """Replace the options on KV memory by the memory that the verbs take."""
    from kvtools.flow import cache_memory  # noqa: PLC0415 - heavy

    memory, model, dtype = (given.pop(name) for name in ("kv_memory", "model_config", "kv_dtype"))
    given["memory"] = cache_memory(memory, model, dtype, given["capacity_blocks"])
    return given
