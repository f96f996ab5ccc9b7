"""``kvtools rules PATH… -o DIR``: hot and cold as rules for services, nginx and vLLM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kvtools.cli.options import FILE, INTAKE, only_given, with_options
from kvtools.cli.output import keep_apart
from kvtools.cli.report_files import LANG

if TYPE_CHECKING:
    from pathlib import Path

EXPORT = (
    click.option(
        "-o", "--output", "target", required=True, type=FILE, metavar="DIR", help="Folder for the files."
    ),
    click.option(
        "--class-rules",
        type=click.Choice(["article-b"]),
        multiple=True,
        help="A further rule; article-b: prompts over 1,000 tokens are cold.",
    ),
    click.option("--route-header", metavar="NAME", help="nginx: the header that names the route."),
    click.option(
        "--route-path", "route_is_path", is_flag=True, help="nginx: the path of the request is the route."
    ),
    click.option(
        "--tokens-header", metavar="NAME", help="nginx: the header that holds the number of prompt tokens."
    ),
    click.option(
        "--format",
        "output_format",
        type=click.Choice(["text", "json"]),
        default="text",
        help="Form of what is printed.",
    ),
)


@click.command("rules")
@click.argument("paths", nargs=-1, required=True, metavar="PATH…")
@with_options(EXPORT, (LANG,), INTAKE)
def command(paths: tuple[str, ...], target: Path, output_format: str, lang: str, **given: Any) -> None:
    """Learn from PATH… which requests are hot and which are cold, and write the rules.

    DIR receives rules.yaml (for kvtools label and kvtools.heat.rules.HeatRules), nginx.conf (sets X-Request-Type,
    X-Priority and X-Vllm-Priority) and vllm-priority.md. Prints the rules, which of them nginx cannot express, and
    when the next burst of cold requests is likely.
    """
    from kvtools.cli.output import result_to  # noqa: PLC0415 - with the rest
    from kvtools.cli.progress import watched  # noqa: PLC0415 - heavy
    from kvtools.flow import RulesOptions, rules  # noqa: PLC0415 - heavy

    if given["route_header"] and given["route_is_path"]:
        raise click.UsageError("--route-header and --route-path: the route is in one of them; give one.")
    files = {f"-o {name}": target / name for name in ("rules.yaml", "nginx.conf", "vllm-priority.md")}
    keep_apart(paths, {**files, "--rejects": given["rejects"]})
    options = RulesOptions(target=target, **only_given(given))
    with result_to(None, utf8=output_format == "json") as write:
        with watched("reading") as watcher:
            report = rules(paths, options, watcher)
        if output_format == "json":
            write(report.to_json())
            return
        from kvtools.report.rules_text import render_rules  # noqa: PLC0415 - heavy

        write(render_rules(report, lang))
