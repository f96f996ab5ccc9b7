"""Real traces through the whole of ``analyze``: the figures that the traces' users publish."""

from __future__ import annotations

from pathlib import Path

from kvtools.flow import AnalyzeOptions, analyze


def test_conversation_second_half(shared: Path) -> None:
    trace = shared / "data/mooncake/conversation_trace.jsonl"
    report = analyze(trace, AnalyzeOptions(rules="trace", measure_from=0.5, capacity_blocks=8_192))
    assert report.cache.block_size == 512
    assert report.cache.queried_tokens == 67_915_607
    assert report.cache.hit_tokens == 12_781_765
    assert report.ceiling.hit_tokens == 27_038_068


def test_whole_traces_unlimited(shared: Path) -> None:
    for name, requests, rate in (("conversation", 12_031, 0.3736), ("synthetic", 3_993, 0.6512)):
        report = analyze(shared / f"data/mooncake/{name}_trace.jsonl")
        assert report.cache.rules == "trace"  # the default for block ids
        assert report.requests == requests
        assert round(report.cache.hit_rate, 4) == rate
        assert report.variable_share is None  # no text in the log: no figure about text
        assert report.similarity.jaccard_consecutive is None
