"""The Alertmanager file: one notification per service, and one alert per cause."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvtools.monitor.rules import dumped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvtools.monitor.alerts import Alert
    from kvtools.monitor.deployment import Deployment

FILE = "alertmanager.yaml"
RECEIVER = "kvtools"

_INTERRUPTIONS = ("KvtoolsInterruptions", "KvtoolsHotInterruptions", "KvtoolsColdInterruptions")
CAUSES: dict[str, tuple[str, ...]] = {
    # Not a single hit is the worst of low rates.
    "KvtoolsCacheHitsNothing": (
        "KvtoolsHitRateLow",
        "KvtoolsKvUsageHigh",
        "KvtoolsQueueSaturated",
        *_INTERRUPTIONS,
        "KvtoolsP99High",
    ),
    # What does not hit is computed: more blocks, fewer free ones, longer queues, later answers.
    "KvtoolsHitRateLow": ("KvtoolsKvUsageHigh", "KvtoolsQueueSaturated", *_INTERRUPTIONS, "KvtoolsP99High"),
    "KvtoolsKvUsageHigh": ("KvtoolsQueueSaturated", *_INTERRUPTIONS, "KvtoolsP99High"),
    "KvtoolsQueueSaturated": (*_INTERRUPTIONS, "KvtoolsP99High"),
    **dict.fromkeys(_INTERRUPTIONS, ("KvtoolsP99High",)),
}
"""Which alerts each alert brings with it. No two stand in each other's list: both would be silent."""

_ONCE = (
    "Written by kvtools export alertmanager. A cause silences what it brings with it in the same service ({service}), "
    "so that one cause alerts once; the silenced alerts stay visible in Alertmanager. KvtoolsColdShareHigh is a figure "
    "of a whole log or of both classes' servers and names no service: it silences nothing and is not silenced."
)
NOBODY = (
    "The receiver notifies NOBODY yet: add yours to it, export with --webhook URL, or merge route and inhibit_rules "
    "into the file that you have."
)


def alertmanager_yaml(watched: Deployment, made: Sequence[Alert], webhook: str | None) -> str:
    """Return the file; ``webhook``: the URL that receives notifications, nobody without one."""
    exported = [alert.name for alert in made]
    receiver: dict[str, Any] = {"name": RECEIVER}
    if webhook is not None:
        receiver["webhook_configs"] = [{"url": webhook, "send_resolved": True}]
    document = {
        "route": {
            "receiver": RECEIVER,
            "group_by": list(watched.by),
            "group_wait": "30s",
            "group_interval": "5m",
            "repeat_interval": "4h",
        },
        "inhibit_rules": [
            {
                "source_matchers": [f'alertname="{cause}"'],
                "target_matchers": [f'alertname=~"{"|".join(effects)}"'],
                "equal": list(watched.by),
            }
            for cause, effects in _exported(exported).items()
        ],
        "receivers": [receiver],
    }
    notes = [_ONCE.format(service=", ".join(watched.by) or "all series")]
    return dumped(document, notes if webhook else [*notes, NOBODY])


def _exported(names: Sequence[str]) -> dict[str, list[str]]:
    """Return the part of ``CAUSES`` that is about exported alerts."""
    kept = {
        cause: [effect for effect in effects if effect in names]
        for cause, effects in CAUSES.items()
        if cause in names
    }
    return {cause: effects for cause, effects in kept.items() if effects}
