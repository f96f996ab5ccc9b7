"""The Grafana dashboard, in the JSON model that Grafana imports (schema version 39: Grafana 10.4 and later read it)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from kvtools.monitor.panels import panels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvtools.monitor.calibration import Calibration
    from kvtools.monitor.deployment import Deployment
    from kvtools.monitor.panels import Panel

FILE = "kvtools-dashboard.json"
SCHEMA_VERSION = 39
COLUMNS = 24
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def dashboard_json(found: Calibration, watched: Deployment) -> str:
    """Return the dashboard: every panel reads vLLM's own metrics or the textfile's, and needs no recording rule."""
    dashboard = {
        "uid": "kvtools-prefix-cache",
        "title": "vLLM prefix cache",
        "description": "Written by kvtools export grafana.",
        "tags": ["kvtools", "vllm"],
        "timezone": "browser",
        "editable": True,
        "graphTooltip": 1,
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_source_variable(), _job_variable()]},
        "annotations": {"list": []},
        "panels": _placed(panels(found, watched)),
    }
    return msgspec.json.format(msgspec.json.encode(dashboard), indent=2).decode() + "\n"


def _source_variable() -> dict[str, Any]:
    return {"type": "datasource", "name": "datasource", "label": "Data source", "query": "prometheus"}


def _job_variable() -> dict[str, Any]:
    return {
        "type": "query",
        "name": "job",
        "label": "Job",
        "datasource": _SOURCE,
        "query": "label_values(vllm:num_requests_running, job)",
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
    }


def _placed(made: Sequence[Panel]) -> list[dict[str, Any]]:
    """Return the panels from left to right, in rows of 24 columns."""
    placed, x, y, row = [], 0, 0, 0
    for number, panel in enumerate(made, 1):
        if x + panel.width > COLUMNS:
            x, y, row = 0, y + row, 0
        placed.append(_model(number, panel, {"x": x, "y": y, "w": panel.width, "h": panel.height}))
        x, row = x + panel.width, max(row, panel.height)
    return placed


def _model(number: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit, "min": 0}
    if panel.unit == "percentunit":
        defaults["max"] = 1
    # Steps hold from their value on; the first has none and holds below all others.
    colors = ("green", "red") if panel.bad_above else ("red", "green")
    steps: list[dict[str, Any]] = [{"value": None, "color": colors[0] if panel.line is not None else "green"}]
    if panel.line is not None:
        steps.append({"value": panel.line, "color": colors[1]})
    defaults["thresholds"] = {"mode": "absolute", "steps": steps}
    options: dict[str, Any] = {"reduceOptions": {"values": False, "calcs": ["lastNotNull"], "fields": ""}}
    if panel.kind == "timeseries":
        style = {"mode": "off" if panel.line is None else "line"}
        defaults["custom"] = {"drawStyle": "line", "fillOpacity": 10, "thresholdsStyle": style}
        legend = {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []}
        options = {"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options,
        "targets": [
            {
                "refId": chr(ord("A") + place),
                "datasource": _SOURCE,
                "expr": query.expr,
                "legendFormat": query.legend,
                "range": panel.kind == "timeseries",
                "instant": panel.kind == "stat",
            }
            for place, query in enumerate(panel.queries)
        ],
    }
