"""Options of ``analyze`` that are about hot and cold requests."""

from __future__ import annotations

import click

from kvtools.cli.options import FILE

CLASSES = (
    click.option(
        "--classes/--no-classes",
        default=None,
        help="Tell hot requests from cold ones (default), or skip it.",
    ),
    click.option(
        "--classes-out",
        type=FILE,
        metavar="FILE",
        help="Write the class of each request: FILE.jsonl or FILE.parquet.",
    ),
    click.option(
        "--class-rules",
        type=click.Choice(["article-b"]),
        multiple=True,
        default=None,
        help="A further rule over the classes; article-b: prompts over 1,000 tokens are cold.",
    ),
)
