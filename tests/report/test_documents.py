"""Reports of every command: read back by what they hold, and written as pages, Markdown and text."""

from __future__ import annotations

from pathlib import Path

import msgspec
import plotly.graph_objects as go
import pytest

from kvtools.errors import InputError, UsageError
from kvtools.flow import AnalyzeOptions, CacheMemory, ReplayOptions, WarmupOptions, analyze, replay, warmup
from kvtools.flow.check import CheckOptions, check
from kvtools.gate.budget import Budget, Limit
from kvtools.report.check import Verdict
from kvtools.report.comparison import compare_reports
from kvtools.report.documents import Document, read_document, rendered
from kvtools.report.html import render_comparison_html
from kvtools.report.html.cache_figures import curve
from kvtools.report.html.replay_figures import replay_drawings
from kvtools.report.model import CurvePoint, Report
from kvtools.report.replay import ReplayReport
from kvtools.report.warmup import WarmupReport
from kvtools.report.words import words

LOG = Path(__file__).resolve().parents[2] / "data/canonical.chat.jsonl"
BYTES = {"tokenizer": "bytes"}


@pytest.fixture(scope="module")
def log() -> Report:
    return analyze(LOG, AnalyzeOptions(**BYTES))


@pytest.fixture(scope="module")
def documents(log: Report) -> dict[str, Document]:
    limits = {"min-hit-rate": Limit(0.99, "--min-hit-rate"), "min-requests": Limit(1, "--min-requests")}
    return {
        "log": log,
        "replay": replay(LOG, ReplayOptions(**BYTES)),
        "warmup": warmup(LOG, WarmupOptions(**BYTES)),
        "check": check(LOG, CheckOptions(analysis=AnalyzeOptions(**BYTES), budget=Budget(log=limits))),
    }


NAMES = ("log", "replay", "warmup", "check")


@pytest.mark.parametrize("name", NAMES)
def test_each_is_read_back_as_what_it_is(documents: dict[str, Document], name: str) -> None:
    assert read_document(documents[name].to_json()) == documents[name]


@pytest.mark.parametrize("name", NAMES)
def test_each_has_a_page_that_needs_no_network(documents: dict[str, Document], name: str) -> None:
    page = rendered(documents[name], "html", lang="zh", command="kvtools it")
    assert page.startswith('<!DOCTYPE html>\n<html lang="zh-Hans">')
    assert "default-src 'none'" in page
    assert "<code>kvtools it</code>" in page
    assert not any(mark in page.split("<script>", 1)[0] for mark in ("src=", "href=", "@import", "url("))


@pytest.mark.parametrize("name", NAMES)
def test_each_is_made_of_the_one_style_and_script(documents: dict[str, Document], name: str) -> None:
    page = rendered(documents[name], "html")
    assert page.count("<style>") == 1
    assert page.count('"use strict";\n(function () {') == 1


def test_the_first_lines_answer(documents: dict[str, Document]) -> None:
    made, warm, verdict = documents["replay"], documents["warmup"], documents["check"]
    assert isinstance(made, ReplayReport)
    assert isinstance(warm, WarmupReport)
    assert isinstance(verdict, Verdict)
    rate = f"{100 * (made.replays[0].hit_rate or 0):.1f} %"
    assert rendered(made, "md").startswith(f"**{rate} of prompt tokens hit")
    assert f"| {rate} |" in rendered(made, "md")
    assert rendered(made, "text").startswith(f"{rate} of prompt tokens hit")
    assert rendered(warm, "text").startswith(warm.conclusion)
    assert rendered(warm, "md").splitlines()[0].startswith("**")
    assert rendered(verdict, "md").startswith("**kvtools check failed:** 1 of")
    assert rendered(verdict, "text").startswith("FAIL")


def test_a_page_in_a_language_that_there_is_not(documents: dict[str, Document]) -> None:
    for name in NAMES:
        with pytest.raises(UsageError, match="--lang fr"):
            rendered(documents[name], "html", lang="fr")


def test_windows_of_a_replay_hold_every_token(documents: dict[str, Document]) -> None:
    made = documents["replay"]
    assert isinstance(made, ReplayReport)
    [one] = made.replays
    assert sum(window.hit_tokens for window in one.over_time) == one.hit_tokens
    assert sum(window.queried_tokens for window in one.over_time) == one.queried_tokens
    assert sum(window.requests for window in one.over_time) == made.requests
    for drawing in replay_drawings(made, words("en")):
        if drawing is not None:
            go.Figure(drawing.spec)  # raises for a name or a value that plotly does not know


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[]", "not a kvtools report"),
        ("{", "not a kvtools report"),
        ("{}", "schema version None"),
        ('{"replays": []}', "schema version null"),
        ('{"replays": [], "schema_version": 99}', "schema version 99"),
        ('{"evaluation": {}, "schema_version": 1}', "not a kvtools report"),
        ('{"checks": [], "schema_version": 99}', "the verdict has schema version 99"),
        ('{"causes_gone": []}', "kvtools compare"),
    ],
    ids=["list", "broken", "empty", "none", "later", "half", "verdict", "comparison"],
)
def test_what_is_no_report_is_one_sentence(text: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        read_document(text)


def test_two_reports_side_by_side(log: Report) -> None:
    assert log.cache is not None
    assert log.cache.hit_rate is not None
    after = msgspec.structs.replace(
        log, cache=msgspec.structs.replace(log.cache, hit_rate=log.cache.hit_rate + 0.125, block_size=32)
    )
    page = render_comparison_html(log, after, compare_reports(log, after))
    assert 'data-json="comparison.figures.0.change" data-value="0.125">+12.5 pt<' in page
    assert f'data-json="before.cache.block_size" data-value="{log.cache.block_size}">' in page
    assert 'data-json="after.cache.block_size" data-value="32">32<' in page
    assert "block_size: 16 / 32" in page
    assert 'id="plot-before-over_time"' in page
    assert 'id="plot-after-over_time"' in page


def test_gibibytes_of_the_curve_by_hand(log: Report) -> None:
    assert log.cache is not None
    assert log.cache.block_bytes is None
    plain = curve(log, words("en"))
    assert plain is not None
    assert "xaxis2" not in plain.spec["layout"]
    # Blocks of 2 MiB: 512 are 1 GiB.
    sized = msgspec.structs.replace(
        log,
        cache=msgspec.structs.replace(log.cache, block_bytes=2 * 2**20, capacity_blocks=700, hit_rate=0.25),
        curve=[CurvePoint(capacity_blocks=size, hit_tokens=0, hit_rate=0.5) for size in (256, 512, 1024)],
    )
    drawn = curve(sized, words("en"))
    assert drawn is not None
    assert drawn.spec["layout"]["xaxis2"]["ticktext"] == ["0.5", "1", "2"]
    assert drawn.spec["layout"]["xaxis2"]["tickvals"] == [256, 512, 1024]
    marked = drawn.spec["data"][1]
    assert (marked["x"], marked["y"], marked["text"]) == ([700], [0.25], ["now"])
    go.Figure(drawn.spec)


def test_the_bytes_of_a_block_come_from_the_models_config(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    # 2 layers, keys and values, 4 heads of 8, two bytes: 256 bytes a token, 4,096 a block of 16.
    config.write_text(
        '{"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, '
        '"hidden_size": 32, "torch_dtype": "bfloat16"}'
    )
    report = analyze(LOG, AnalyzeOptions(memory=CacheMemory(kv_memory="1MiB", model_config=config), **BYTES))
    assert report.cache is not None
    assert report.cache.block_bytes == 4_096
    assert report.cache.capacity_blocks == 2**20 // 4_096 - 1
