"""One cause alerts once: the exported file in amtool and in a real Alertmanager."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_tools import free_port, get, needs_prometheus, served, tool

from kvtools.monitor.alertmanager import CAUSES, alertmanager_yaml
from kvtools.monitor.alerts import Alert
from kvtools.monitor.deployment import Deployment

NAMES = sorted(
    {*CAUSES, *(effect for effects in CAUSES.values() for effect in effects), "KvtoolsColdShareHigh"}
)


def made(*names: str) -> list[Alert]:
    fields: dict[str, Any] = {"expr": "1", "lasting": "1m", "severity": "warning", "summary": "", "limit": ""}
    return [Alert(name=name, **fields) for name in names]


def test_no_two_causes_silence_each_other() -> None:
    seen: set[str] = set()
    remaining = dict(CAUSES)
    while remaining:
        free = [name for name in remaining if not any(name in effects for effects in remaining.values())]
        assert free, f"a circle among {sorted(remaining)}"
        for name in free:
            seen.add(name)
            del remaining[name]
    assert seen == set(CAUSES)


def test_a_cause_lists_what_its_effects_bring_with_them() -> None:
    # Alertmanager silences by alerts that fire, so a chain a > b > c must name c at a as well.
    for cause, effects in CAUSES.items():
        for effect in effects:
            assert set(CAUSES.get(effect, ())) <= set(effects), (cause, effect)


def test_only_exported_alerts_stand_in_the_file() -> None:
    document = yaml.safe_load(
        alertmanager_yaml(Deployment(by=("job",)), made("KvtoolsHitRateLow", "KvtoolsP99High"), None)
    )
    assert document["inhibit_rules"] == [
        {
            "source_matchers": ['alertname="KvtoolsHitRateLow"'],
            "target_matchers": ['alertname=~"KvtoolsP99High"'],
            "equal": ["job"],
        }
    ]
    assert document["route"]["group_by"] == ["job"]


@needs_prometheus
@pytest.mark.parametrize("webhook", [None, "http://127.0.0.1:9/hook"], ids=["nobody", "webhook"])
@pytest.mark.parametrize("by", [("job", "model_name"), ()], ids=["service", "all"])
def test_amtool_accepts_it(tmp_path: Path, webhook: str | None, by: tuple[str, ...]) -> None:
    file = tmp_path / "alertmanager.yaml"
    file.write_text(alertmanager_yaml(Deployment(by=by), made(*NAMES), webhook))
    said = tool("amtool", "check-config", file)
    assert f"{len(CAUSES)} inhibit rules" in said
    assert ("NOBODY" in file.read_text()) == (webhook is None)
    assert (yaml.safe_load(file.read_text())["receivers"][0].get("webhook_configs") is None) == (
        webhook is None
    )


@needs_prometheus
def test_of_all_that_fires_in_a_service_only_its_cause_is_notified(tmp_path: Path) -> None:
    file = tmp_path / "alertmanager.yaml"
    file.write_text(alertmanager_yaml(Deployment(), made(*NAMES), None))
    port = free_port()
    program = ["prometheus-alertmanager", f"--config.file={file}", f"--storage.path={tmp_path / 'data'}"]
    place = [f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address="]
    service = {"job": "vllm", "model_name": "m"}
    fired = {  # by service: what fires there, and which of it is notified
        "all": ({"KvtoolsCacheHitsNothing", "KvtoolsHitRateLow", "KvtoolsKvUsageHigh", "KvtoolsQueueSaturated",
                 "KvtoolsInterruptions", "KvtoolsP99High"}, {"KvtoolsCacheHitsNothing"}),
        "memory": ({"KvtoolsKvUsageHigh", "KvtoolsHotInterruptions", "KvtoolsP99High"}, {"KvtoolsKvUsageHigh"}),
        "low": ({"KvtoolsHitRateLow", "KvtoolsKvUsageHigh", "KvtoolsQueueSaturated", "KvtoolsColdInterruptions",
                 "KvtoolsHotInterruptions", "KvtoolsP99High"}, {"KvtoolsHitRateLow"}),
        "queue": ({"KvtoolsQueueSaturated", "KvtoolsInterruptions", "KvtoolsP99High"}, {"KvtoolsQueueSaturated"}),
        "interrupted": ({"KvtoolsColdInterruptions", "KvtoolsP99High"}, {"KvtoolsColdInterruptions"}),
        "slow": ({"KvtoolsP99High"}, {"KvtoolsP99High"}),
        "two": ({"KvtoolsCacheNotCounted", "KvtoolsP99High"}, {"KvtoolsCacheNotCounted", "KvtoolsP99High"}),
    }  # fmt: skip
    alerts = [
        {"labels": {"alertname": name, "instance": "a", "severity": "warning"} | service | {"job": job}}
        for job, (names, _) in fired.items()
        for name in sorted(names)
    ]
    with served([*program, *place], port, tmp_path / "log") as url:
        get(f"{url}/api/v2/alerts", alerts)
        expected = {job: told for job, (_, told) in fired.items()}
        for _ in range(100):  # Alertmanager looks at inhibition when it answers, once the alerts have come in
            found: dict[str, set[str]] = {job: set() for job in fired}
            for alert in get(f"{url}/api/v2/alerts"):
                if not alert["status"]["inhibitedBy"]:
                    found[alert["labels"]["job"]].add(alert["labels"]["alertname"])
            if found == expected:
                return
            time.sleep(0.1)
    assert found == expected
