"""The rule file of Prometheus: recording rules and alerts, with the reasons for each line in its head."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import yaml

from kvtools.monitor.recording import recording_rules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvtools.monitor.alerts import Alert, LeftOut
    from kvtools.monitor.deployment import Deployment

FILE = "kvtools.rules.yaml"

_HEAD = (
    "Written by kvtools export prometheus-rules. Hit rates are hits over queries in tokens, counters summed over "
    "all engines of a service before dividing, over the last 5 minutes. vLLM's metrics stand under the names of "
    "all its versions. The first versions (vllm:gpu_prefix_cache_*) counted blocks: a sum over engines that "
    "count in different units means nothing."
)


class _Dumper(yaml.SafeDumper):
    """Writes expressions of several lines as they are."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def dumped(document: dict[str, Any], notes: Sequence[str]) -> str:
    """Return a YAML document under its notes, each a paragraph of comment."""
    wrapped = [line for note in notes for line in textwrap.wrap(note, 110, subsequent_indent="  ")]
    body = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000)
    return "".join(f"# {line}\n" for line in wrapped) + "\n" + body


def rules_yaml(watched: Deployment, made: Sequence[Alert], left_out: Sequence[LeftOut]) -> str:
    """Return the rule file."""
    recorded = [{"record": rule.record, "expr": rule.expr} for rule in recording_rules(watched)]
    document = {
        "groups": [
            {"name": "kvtools-recording", "rules": recorded},
            {"name": "kvtools-alerts", "rules": [_rule(alert) for alert in made]},
        ]
    }
    notes = [_HEAD, *(f"Not exported: {one.name}: {one.why}." for one in left_out)]
    return dumped(document, notes)


def _rule(alert: Alert) -> dict[str, Any]:
    labels = {"severity": alert.severity} | ({"scenario": alert.scenario} if alert.scenario else {})
    return {
        "alert": alert.name,
        "expr": alert.expr,
        "for": alert.lasting,
        "labels": labels,
        "annotations": {
            "summary": alert.summary,
            "description": f"Now {{{{ $value }}}}. Limit: {alert.limit}.",
        },
    }
