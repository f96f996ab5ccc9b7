"""Runs as a process of its own (``python -m kvtools.linting.worker``): renders chat templates that may be hostile.

It reads one JSON list of jobs, says that it is ready, and writes one JSON line for each. Whoever started it ends it
when a line takes too long: no jinja2 sandbox stops ``10**(10**10)`` or two nested loops of 100,000 turns. Memory is
limited where the system can.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

from kvtools.chat import ChatTemplate
from kvtools.chat.audit import audit
from kvtools.chat.clock_use import AUDIT_CLOCK
from kvtools.chat.probes import Probe, common_chars
from kvtools.errors import TemplateError

MEMORY_BYTES = 2 << 30
_OTHER_CLOCK = AUDIT_CLOCK - timedelta(days=11000, hours=12, minutes=21, seconds=13)
_TALKS = (
    ({"role": "system", "content": "Keep it short."}, {"role": "user", "content": "Which pier is free?"}),
    ({"role": "system", "content": "数到十。"}, {"role": "user", "content": "9 + 9"}),
)


def main() -> None:
    """Answer the jobs that stand on standard input."""
    _limit_memory()
    jobs = json.load(sys.stdin)
    _write("ready")
    for job in jobs:
        try:
            answer = _answer(job)
        except Exception as fault:  # noqa: BLE001 - a stranger's template can raise anything
            answer = {"refused": " ".join(str(fault).split())[:200] or type(fault).__name__}
        _write(answer)


def _write(answer: object) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def _limit_memory() -> None:
    with suppress(ImportError, ValueError, OSError):
        import resource  # noqa: PLC0415 - not on every system

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


def _answer(job: dict[str, Any]) -> dict[str, Any]:
    template = ChatTemplate(job["name"], job["source"], job["special_tokens"])
    found = audit(template)
    clock = found.clock
    return {
        "clock": clock.sentence if clock else None,
        "granularity": clock.granularity if clock else None,
        "mentions_clock": found.mentions_clock,
        "breaks": [[one.kind, one.sentence] for one in found.append_only],
        "probed": found.probed,
        "skipped": list(found.skipped),
        "head": _head(template),
    }


def _head(template: ChatTemplate) -> str | None:
    """Return what two conversations without a word in common, at two clocks, begin with; ``None`` where refused."""
    known = dict.fromkeys(("bos_token", "eos_token", "unk_token", "pad_token"), "")
    printed = replace(template, special_tokens=known | dict(template.special_tokens), clock=AUDIT_CLOCK)
    for skip in (0, 1):
        try:
            first, *others = (
                Probe("head", talk[skip:]).render(replace(printed, clock=clock), len(talk[skip:]))
                for talk in _TALKS
                for clock in (AUDIT_CLOCK, _OTHER_CLOCK)
            )
        except TemplateError:
            continue
        return first[: min(common_chars(first, other) for other in others)]
    return None


if __name__ == "__main__":
    main()
