"""``watch`` for people: one line an interval where it is piped, a page that renews itself on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from kvtools.report.explain_text import printable
from kvtools.report.layout import labelled
from kvtools.report.numbers import bars, blocks, counted, percent, seconds, short
from kvtools.report.watch import LogTick

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from kvtools.report.watch import ServerTick, Stretch, Worst

STALE_TOKENS = 1_000
"""So many queried tokens without a hit are worth a word."""


def line(tick: LogTick | ServerTick, clock: str) -> str:
    """Return one line on an interval."""
    parts = _log(tick) if isinstance(tick, LogTick) else _server(tick)
    return f"{clock}  " + " · ".join(part for part in parts if part) + "\n"


def page(tick: LogTick | ServerTick, clock: str, rates: Sequence[float]) -> RenderableType:
    """Return the page of a terminal; ``rates`` of the intervals before, the newest last."""
    head = Text(f"{percent(_rate(tick))} hit rate", style="bold")
    head.append(f"  {printable(tick.source)} · {clock} · {seconds(tick.at_s)} · Ctrl-C ends", style="dim")
    rows = _log_rows(tick) if isinstance(tick, LogTick) else _server_rows(tick)
    shape = [labelled("Intervals", bars(list(rates)))] if any(rates) else []
    return Group(head, *(labelled(name, text) for name, text in rows if text), *shape)


def _rate(tick: LogTick | ServerTick) -> float | None:
    return tick.recent.hit_rate if isinstance(tick, LogTick) else tick.total.hit_rate


def rate_now(tick: LogTick | ServerTick) -> float:
    """Return the rate of the last interval, 0 without a query."""
    return tick.now.hit_rate or 0.0


def _log(tick: LogTick) -> list[str]:
    return [
        f"{percent(tick.now.hit_rate)} of {_asked(tick.now)}",
        f"last {tick.recent.requests:,}: {percent(tick.recent.hit_rate)}",
        f"all {tick.total.requests:,}: {percent(tick.total.hit_rate)}",
        f"server said {percent(tick.reported.hit_rate)}" if tick.reported else "",
        _classes(tick),
        _faults(tick),
        _worst(tick.worst, tick.worst_missing),
    ]


def _log_rows(tick: LogTick) -> list[tuple[str, str]]:
    size = "" if tick.block_size is None else f" · block {tick.block_size}"
    held = f"{blocks(tick.capacity_blocks)} blocks"
    cache = (
        f"LRU cache of {held}, {counted(tick.evictions, 'eviction')}"
        if tick.evictions
        else f"nothing evicted from {held}: the rate of an unlimited cache"
    )
    server = tick.reported
    return [
        ("Now", f"{percent(tick.now.hit_rate)} of {_asked(tick.now)}"),
        ("Recent", f"{percent(tick.recent.hit_rate)} of the last {tick.recent.requests:,} requests"),
        ("All", f"{percent(tick.total.hit_rate)} of {_asked(tick.total)}"),
        ("Server said", f"{percent(server.hit_rate)} of {_asked(server)}" if server else ""),
        ("Cache", f"{cache}, cold start{size}"),
        ("Classes", _classes(tick)),
        ("Worst", _worst(tick.worst, tick.worst_missing).removeprefix("worst: ")),
        ("Log", _faults(tick)),
        *(("Note", note) for note in tick.notes),
    ]


def _asked(one: Stretch) -> str:
    requests = "" if one.requests is None else f" in {counted(one.requests, 'request')}"
    return f"{short(one.queried)} tokens{requests}"


def _classes(tick: LogTick) -> str:
    return "" if tick.cold_share is None else f"over 1,000 tokens {percent(tick.cold_share)}"


def _faults(tick: LogTick) -> str:
    parts = (
        (tick.rejected, "rejected"),
        (tick.without_prompt, "without a prompt"),
        (tick.duplicates, "logged twice"),
        (tick.not_sent, "not sent"),
        (tick.rotations, "rotations"),
        (tick.truncations, "truncations"),
        (tick.maybe_lost, "cuts that may have lost lines"),
    )
    said = ", ".join(f"{number:,} {word}" for number, word in parts if number)
    return said + (f" (last: {printable(tick.last_reject)})" if tick.last_reject else "")


def _worst(worst: Worst | None, missing: str | None) -> str:
    if worst is None:
        return f"worst: {printable(missing)}" if missing else ""
    age = f", {seconds(worst.age_s)} ago" if worst.age_s >= 1 else ""
    fixed = "" if worst.hit_rate_if_fixed is None else f", if fixed {percent(worst.hit_rate_if_fixed)}"
    return (
        f"worst: {printable(worst.what)} ({printable(worst.where)}): {percent(worst.hit_rate)}{fixed}"
        f" of the last {worst.of_requests:,}{age}"
    )


def _server(tick: ServerTick) -> list[str]:
    return [
        name and f"{name} {text}" if name != "Now" else text for name, text in _server_parts(tick) if text
    ]


def _server_rows(tick: ServerTick) -> list[tuple[str, str]]:
    return [(name.capitalize() if name else "", text) for name, text in _server_parts(tick)]


def _server_parts(tick: ServerTick) -> list[tuple[str, str]]:
    external = f" ({short(tick.external_hit)} external)" if tick.external_hit else ""
    usage = f"{percent(tick.kv_usage)} held by running requests" if tick.kv_usage is not None else ""
    queue = "" if tick.running is None else f"{tick.running:,} running, {tick.waiting or 0:,} waiting"
    stale = tick.queried_since_hit >= STALE_TOKENS
    return [
        ("trouble", tick.trouble or ""),
        ("Now", f"{percent(tick.now.hit_rate)} of {_asked(tick.now)}{external}"),
        ("since start", f"{percent(tick.total.hit_rate)} of {_asked(tick.total)}"),
        ("engines", f"{tick.engines:,}" if tick.engines > 1 else ""),
        ("KV usage", usage),
        ("requests", queue),
        ("preemptions", f"{tick.preemptions:,}" if tick.preemptions else ""),
        ("restarts", f"{tick.restarts:,}" if tick.restarts else ""),
        ("no hit", f"in the last {short(tick.queried_since_hit)} queried tokens" if stale else ""),
        ("worst", "not known: counters carry no prompts; watch the log"),
    ]
