"""A log whose figures are worked out by hand, and the audit of a configuration on it.

100 requests, one a second, each answered within 4 s with 10 tokens. A prompt is one of ten heads of 80 bytes, in turn, and 20
bytes that no other has; one byte is a token. In blocks of 16 tokens a head is 5 blocks and the sixth block is the
request's own, so 90 requests (all but the first of each head) hit 80 tokens: 7,200 of 10,000. In blocks of 32 or 64 they
hit 64 tokens (5,760), in blocks of 128 nothing. Between two requests of one head 9 others touch 6 blocks each, so the
first block of a head comes again at distance 55 and its last at 59: a cache of 30 blocks hits nothing, one of 59 all.
Four requests are in flight from second 3 to second 100.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from audited import MODEL, Audited

from kvtools.flow.plan_audit import AuditOptions, RoomOptions, plan_audit
from kvtools.report.plan_audit import AuditReport


@pytest.fixture(scope="session")
def heads_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("audit") / "heads.jsonl"
    lines = [
        {
            "id": f"r{n}",
            "ts": 1000 + n,
            "prompt": chr(ord("a") + n % 10) * 80 + f"{n:03d}" + "-" * 17,
            "latency_s": 4,
            "usage": {"prompt_tokens": 100, "completion_tokens": 10},
        }
        for n in range(100)
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


@pytest.fixture
def model_file(tmp_path: Path) -> Callable[..., Path]:
    """Write a config.json with some fields changed."""

    def write(**fields: Any) -> Path:
        path = tmp_path / "config.json"
        path.write_text(json.dumps(MODEL | fields))
        return path

    return write


@pytest.fixture
def audited(heads_log: Path) -> Audited:
    """Audit a command line, or a config file, by the table of flags that kvtools ships."""

    def audit(line: str | None = None, *, config: Path | None = None, **room: Any) -> AuditReport:
        options = AuditOptions(
            serve_args=line,
            serve_config=config,
            flags_from="table",
            tokenizer="bytes",
            chat_template="plain",
            room=RoomOptions(**room),
        )
        return plan_audit(heads_log, options)

    return audit
