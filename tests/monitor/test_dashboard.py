"""The dashboard: in Grafana's published JSON model, and every query of it in a real Prometheus on known series."""

from __future__ import annotations

import enum
import json
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from prometheus_tools import ask, needs_prometheus, prometheus, tool

from kvtools.monitor.calibration import Calibration
from kvtools.monitor.dashboard import dashboard_json
from kvtools.monitor.deployment import Deployment

LOG = Calibration(
    hit_rate=0.6,
    hit_rate_low=0.5,
    hit_rate_source="by hand",
    promised=0.6,
    cold_share=0.1,
    cold_share_limit=0.15,
    hot_p99_ms=None,
    conversations=True,
)
BARE = Calibration(
    hit_rate=None,
    hit_rate_low=None,
    hit_rate_source="nothing",
    promised=None,
    cold_share=None,
    cold_share_limit=None,
    hot_p99_ms=None,
    conversations=False,
)
APART = Deployment(selector='cluster="one"', by=("model_name",), hot='instance="a"', cold='instance="b"')


def dashboard(found: Calibration = LOG, watched: Deployment | None = None) -> dict[str, Any]:
    model: dict[str, Any] = json.loads(dashboard_json(found, watched or Deployment()))
    return model


@pytest.mark.parametrize("found", [LOG, BARE], ids=["known", "bare"])
def test_panels_fit_the_grid_and_know_their_queries(found: Calibration) -> None:
    # Grafana's grid has 24 columns; ids are unique; a query is named A, B, … within its panel.
    panels = dashboard(found)["panels"]
    assert [panel["id"] for panel in panels] == list(range(1, len(panels) + 1))
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not taken & cells
        assert max(x for x, _ in cells) < 24
        taken |= cells
        assert [query["refId"] for query in panel["targets"]] == list("ABC"[: len(panel["targets"])])
        assert panel["targets"]


def test_what_the_log_does_not_tell_has_no_panel_and_no_line() -> None:
    titles = {panel["title"] for panel in dashboard()["panels"]}
    bare = dashboard(BARE)["panels"]
    assert titles - {panel["title"] for panel in bare} == {
        "Hot and cold requests",
        "Hits within and across conversations",
    }
    (rate,) = [panel for panel in bare if panel["title"] == "Hit rate"]
    assert rate["fieldConfig"]["defaults"]["thresholds"]["steps"] == [{"value": None, "color": "green"}]


def test_lines_stand_where_alerts_fire() -> None:
    steps = {
        panel["title"]: [
            (step["value"], step["color"]) for step in panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
        ]
        for panel in dashboard()["panels"]
    }
    assert steps["Hit rate by service"] == [(None, "red"), (0.5, "green")]
    assert steps["KV usage"] == [(None, "green"), (0.85, "red")]
    assert steps["Hot and cold requests"] == [(None, "green"), (0.15, "red")]


# --- Grafana's model -----------------------------------------------------------------------------------------


def has_type(value: Any, hint: Any) -> bool:  # noqa: PLR0911 - a line per kind of type
    """Whether a value of Grafana's model has the type that the model declares, all the way down."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint in (Any, object):
        return True
    if origin in (typing.Union, types.UnionType):
        return any(has_type(value, one) for one in arguments)
    if origin is typing.Literal:
        return value in arguments
    if origin is list:
        return isinstance(value, list) and all(has_type(one, arguments[0]) for one in value)
    if origin is dict:
        return isinstance(value, dict)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return value in [member.value for member in hint]
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint) and typed(value)


def typed(model: Any) -> bool:
    """Whether all fields of an object of the model have their types."""
    if not type(model).__module__.startswith("grafana_foundation_sdk"):
        return True
    for name, hint in typing.get_type_hints(type(model)).items():
        assert has_type(getattr(model, name), hint), (type(model).__name__, name, getattr(model, name))
        for part in (
            getattr(model, name) if isinstance(getattr(model, name), list) else [getattr(model, name)]
        ):
            assert typed(part)
    return True


def assert_kept(given: Any, read: Any, place: str = "dashboard") -> None:
    """The model drops what it does not know: all that was given has to be there again."""
    if isinstance(given, Mapping):
        for name, value in given.items():
            if value is not None:
                assert name in read, f"{place}.{name} is not in Grafana's model"
                assert_kept(value, read[name], f"{place}.{name}")
    elif isinstance(given, list):
        assert len(given) == len(read), place
        for number, (one, other) in enumerate(zip(given, read, strict=True)):
            assert_kept(one, other, f"{place}[{number}]")
    else:
        assert given == read, place


@pytest.mark.parametrize("found", [LOG, BARE], ids=["known", "bare"])
def test_it_is_in_grafanas_published_model(found: Calibration) -> None:
    # Grafana's own library, made of the schemas that Grafana publishes.
    sdk = "grafana_foundation_sdk"
    encoder = pytest.importorskip(f"{sdk}.cog.encoder")
    pytest.importorskip(f"{sdk}.cog.plugins").register_default_plugins()
    given = dashboard(found)
    read = pytest.importorskip(f"{sdk}.models.dashboard").Dashboard.from_json(given)
    assert typed(read)
    assert_kept(given, json.loads(encoder.JSONEncoder().encode(read)))


# --- Prometheus ----------------------------------------------------------------------------------------------

START, MINUTES = 1_700_000_040, 20
NOW = START + 60 * MINUTES
COUNTERS = {  # increase in a minute, of pods a and b
    "vllm:prefix_cache_queries": (100, 300),
    "vllm:prefix_cache_hits": (80, 0),
    "vllm:external_prefix_cache_hits": (10, None),
    "vllm:num_preemptions": (3, 0),
    "vllm:request_success": (100, 50),
}
GAUGES = {
    "vllm:kv_cache_usage_perc": (0.4, 0.6),
    "vllm:num_requests_running": (3, 4),
    "vllm:num_requests_waiting": (2, 0),
}
BUCKETS = {  # of 100 requests a minute
    "vllm:e2e_request_latency_seconds": {"0.3": 50, "0.5": 90, "0.8": 100, "+Inf": 100},
    "vllm:time_to_first_token_seconds": {"0.1": 50, "0.25": 90, "0.5": 100, "+Inf": 100},
}
TEXTFILE = {
    'kvtools_class_request_share{class="hot"}': 0.9,
    'kvtools_class_request_share{class="cold"}': 0.1,
    'kvtools_hit_tokens_share{reuse="within"}': 0.7,
    'kvtools_hit_tokens_share{reuse="across"}': 0.3,
}


def openmetrics() -> Iterator[str]:  # noqa: C901 - a loop per kind of metric
    pods = [f'cluster="one",job="vllm",model_name="m",instance="{pod}",engine="0"' for pod in "ab"]
    moments = [(minute, START + 60 * minute) for minute in range(MINUTES + 1)]
    for name, steps in COUNTERS.items():
        yield f"# TYPE {name} counter"
        for labels, step in zip(pods, steps, strict=True):
            if step is not None:
                yield from (f"{name}_total{{{labels}}} {step * minute} {when}" for minute, when in moments)
    for name, values in GAUGES.items():
        yield f"# TYPE {name} gauge"
        for labels, value in zip(pods, values, strict=True):
            yield from (f"{name}{{{labels}}} {value} {when}" for _, when in moments)
    for name, counts in BUCKETS.items():
        yield f"# TYPE {name} histogram"
        for minute, when in moments:
            for edge, count in counts.items():
                yield f'{name}_bucket{{{pods[0]},le="{edge}"}} {count * minute} {when}'
            yield f"{name}_count{{{pods[0]}}} {100 * minute} {when}"
            yield f"{name}_sum{{{pods[0]}}} {30 * minute} {when}"
    for series, value in TEXTFILE.items():
        if series.endswith(('"hot"}', '"within"}')):
            yield f"# TYPE {series.partition('{')[0]} gauge"
        yield from (f"{series} {value} {when}" for _, when in moments)
    yield "# EOF"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("prometheus")
    given = folder / "series.om"
    given.write_text("\n".join(openmetrics()) + "\n")
    tool("promtool", "tsdb", "create-blocks-from", "openmetrics", given, folder / "data")
    with prometheus(folder, {"global": {"scrape_interval": "15s"}}) as url:
        yield url


SERVICE = 'job="vllm",model_name="m"'
ENGINES = {pod: f'cluster="one",engine="0",instance="{pod}",job="vllm",model_name="m"' for pod in "ab"}
EXPECTED: dict[str, list[dict[str, float]]] = {
    "Hit rate": [{"": 80 / 400}],
    "KV usage, fullest engine": [{"": 0.6}],
    "Preemptions per request": [{"": 3 / 150}],
    "Requests waiting": [{"": 2}],
    "Hit rate by service": [{SERVICE: 80 / 400}, {SERVICE: 90 / 400}],
    "Hit rate by engine": [{ENGINES["a"]: 0.8, ENGINES["b"]: 0}],
    "Prompt tokens per second": [{SERVICE: 400 / 60}, {SERVICE: 80 / 60}],
    "Latency, to the last token": [{SERVICE: 0.3}, {SERVICE: 0.5}, {SERVICE: 0.5 + 0.3 * 0.9}],
    "Time to the first token": [{SERVICE: 0.1}, {SERVICE: 0.25}, {SERVICE: 0.25 + 0.25 * 0.9}],
    "KV usage": [{SERVICE: 0.5}, {SERVICE: 0.6}],
    "Requests": [{SERVICE: 7}, {SERVICE: 2}],
    "Preemptions per finished request": [{SERVICE: 3 / 150}],
    "Hot and cold requests": [{'class="hot"': 0.9}, {'class="cold"': 0.1}],
    "Hits within and across conversations": [{'reuse="across"': 0.3, 'reuse="within"': 0.7}],
}


def answers(url: str, model: dict[str, Any], job: str) -> dict[str, list[dict[str, float]]]:
    """What Grafana would draw at the end of the series: its variables are filled in as it does."""
    return {
        panel["title"]: [
            ask(url, query["expr"].replace("$__rate_interval", "5m").replace("$job", job), NOW)
            for query in panel["targets"]
        ]
        for panel in model["panels"]
    }


@needs_prometheus
def test_every_query_returns_the_right_value(server: str) -> None:
    found = answers(server, dashboard(), ".*")
    assert list(found) == list(EXPECTED)
    for title, expected in EXPECTED.items():
        assert found[title] == [pytest.approx(one) for one in expected], title


@needs_prometheus
def test_classes_on_servers_of_their_own_need_no_textfile(server: str) -> None:
    found = answers(server, dashboard(LOG, APART), "(vllm|other)")
    assert found["Hot and cold requests"] == [pytest.approx({"": 100 / 150}), pytest.approx({"": 50 / 150})]
    assert found["Hit rate by service"][0] == pytest.approx({'model_name="m"': 0.2})


@needs_prometheus
def test_another_job_is_not_shown(server: str) -> None:
    found = answers(server, dashboard(), "other")
    told = {title for title, queries in found.items() if any(queries)}
    assert told == {"Hot and cold requests", "Hits within and across conversations"}
