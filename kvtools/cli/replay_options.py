"""The options of ``kvtools replay``: which engine, and how its scheduler is set up."""

from __future__ import annotations

import click

from kvtools.cli.options import FILE
from kvtools.cli.values import at_least_one

SCHEDULER = (
    click.option(
        "--arrivals",
        type=click.Choice(["sequential", "closed", "log"]),
        help="One at a time, all queued at the start, or the log's own clock (default: sequential).",
    ),
    click.option(
        "--outputs",
        type=click.Choice(["one", "lengths", "text"]),
        help="What a request generates: one token, as many as recorded, the recorded answer (default: one).",
    ),
    click.option(
        "--max-num-seqs", type=at_least_one, metavar="N", help="Requests that run at once (default: 256)."
    ),
    click.option(
        "--max-num-batched-tokens", type=at_least_one, metavar="N", help="Tokens of one step (default: 8192)."
    ),
    click.option(
        "--max-model-len", type=at_least_one, metavar="N", help="Longest prompt and answer, in tokens."
    ),
    click.option(
        "--policy",
        type=click.Choice(["fcfs", "priority"]),
        help="Queue by arrival (default), or by the log's priority.",
    ),
    click.option(
        "--long-prefill-token-threshold", type=int, metavar="N", help="Tokens of one prompt in one step."
    ),
    click.option(
        "--free-partial-blocks",
        type=click.Choice(["first", "last"]),
        help="Reuse blocks that are not full first (vLLM since May 2026) or last (before).",
    ),
    click.option(
        "--commit",
        type=click.Choice(["scheduled", "finished"]),
        help="A block can be hit once it is scheduled (vLLM) or its request has finished (other engines).",
    ),
    click.option(
        "--async-scheduling", is_flag=True, default=None, help="Simulate vLLM's asynchronous scheduler."
    ),
)

ENGINE = (
    click.option(
        "--engine", "engines", metavar="NAME[,NAME]", help="simulator, vllm, server; two to compare them."
    ),
    click.option(
        "--model", metavar="DIR|NAME", help="vllm: a model folder (default: random weights). server: a name."
    ),
    click.option("--url", metavar="URL", help="The server, such as http://127.0.0.1:8000."),
    click.option(
        "--api-key", envvar="KVTOOLS_API_KEY", metavar="KEY", help="The server's key (or KVTOOLS_API_KEY)."
    ),
    click.option(
        "--in-flight",
        type=at_least_one,
        metavar="N",
        help="server: requests at once with --arrivals closed (default: 8).",
    ),
    click.option(
        "--speed", type=float, metavar="X", help="server: the log's clock so many times faster (default: 1)."
    ),
    click.option(
        "--prefill-tokens-per-s", type=float, metavar="N", help="simulator, --arrivals log: prefill speed."
    ),
    click.option(
        "--decode-step-ms", type=float, metavar="MS", help="simulator, --arrivals log: one decode step."
    ),
    click.option(
        "--limit-sessions",
        type=at_least_one,
        metavar="N",
        help="Replay only the first N sessions, each whole.",
    ),
    click.option("--per-request", type=FILE, metavar="FILE", help="Write a JSON line per request to FILE."),
    click.option(
        "--resume",
        is_flag=True,
        default=None,
        help="vllm, server: continue what --per-request FILE began.",
    ),
)
