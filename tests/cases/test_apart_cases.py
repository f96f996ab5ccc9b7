"""Cases of group A whose cause is no text: salts, media, ranks and instances, as findings of ``analyze``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from shared_case import Case

from kvtools.flow import AnalyzeOptions, analyze

if TYPE_CHECKING:
    from pathlib import Path

    from kvtools.report.model import Report


PARTS = (
    "{% for m in messages %}<{{ m['role'] }}>{% for p in m['content'] %}"
    "{% if p['type'] == 'text' %}{{ p['text'] }}{% else %}<image>{% endif %}{% endfor %}{% endfor %}"
)


def analyzed(case: Case, folder: Path, columns: list[dict[str, Any]], **options: Any) -> Report:
    """Analyze a case as a token log; ``columns`` are the further fields of each request."""
    rows = [
        {"id": request["id"], "ts": request["ts"], "prompt_token_ids": prompt, **more}
        for request, prompt, more in zip(case.requests, case.prompts(), columns, strict=True)
    ]
    log = folder / "log.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return analyze(log, AnalyzeOptions(**options))


def test_022_a_salt_of_its_own_is_named_and_a_shared_one_is_only_told(shared: Path, tmp_path: Path) -> None:
    case = Case.load(shared / "cases", "022")
    report = analyzed(case, tmp_path, [{"cache_salt": r["cache_salt"]} for r in case.requests])
    assert report.cache is not None
    assert report.cache.hit_tokens == sum(case.expected["hits"]) == 96
    own, tenant = report.findings or []
    # Without their salts r2 hits r1, 96 of 400 more; the tenant's would save r3 its 96 as well.
    assert (own.kind, own.requests, own.tokens_lost, own.severity) == ("salt_per_request", 2, 96, "high")
    assert own.hit_rate_if_fixed == (96 + 96) / 400
    assert (tenant.kind, tenant.requests, tenant.tokens_lost) == ("salt_per_tenant", 2, 96)
    assert (tenant.severity, tenant.hit_rate_if_fixed) == ("info", None)
    assert "isolation" in tenant.fix
    (answer,) = (answer for answer in report.answers if answer.name == "findings")
    assert not answer.supported
    assert "only salts" in answer.why


def test_020_an_image_before_equal_token_ids_is_named_without_a_figure(shared: Path, tmp_path: Path) -> None:
    case = Case.load(shared / "cases", "020")
    media = [{"mm": r["mm"]} for r in case.requests]
    report = analyzed(case, tmp_path, media)
    assert report.cache is not None
    assert report.cache.hit_tokens == sum(case.expected["hits_image_first"])
    (found,) = report.findings or []
    assert (found.kind, found.requests) == ("image_before_text", 3)
    assert (found.tokens_lost, found.hit_rate_if_fixed, found.severity) == (None, None, "info")


def test_020_an_image_before_text_in_chats_is_replayed(tmp_path: Path) -> None:
    """The oracle is the log with the text first, in a template that keeps the parts where they stand."""
    text = {"type": "text", "text": " ".join(f"Line {n} is read from left to right." for n in range(20))}

    def written(name: str, *, image_first: bool) -> Path:
        rows = []
        for n in range(8):
            image = {"type": "image_url", "image_url": {"url": f"https://pages.test/{n}.png"}}
            content = [image, text] if image_first else [text, image]
            rows.append(json.dumps({"messages": [{"role": "user", "content": content}]}) + "\n")
        path = tmp_path / name
        path.write_text("".join(rows))
        return path

    template = tmp_path / "parts.jinja"
    template.write_text(PARTS)
    options = {"chat_template": str(template)}
    truth = analyze(written("b", image_first=False), AnalyzeOptions(findings=False, **options)).cache
    report = analyze(written("a", image_first=True), AnalyzeOptions(**options))
    (found,) = (f for f in report.findings or [] if f.kind == "image_before_text")
    assert truth is not None
    assert report.cache is not None
    assert found.hit_rate_if_fixed == truth.hit_rate
    assert found.tokens_lost == truth.hit_tokens - report.cache.hit_tokens > 0
    assert (found.requests, found.severity) == (8, "high")
    assert not [
        f for f in analyze(tmp_path / "b", AnalyzeOptions(**options)).findings or [] if "image" in f.kind
    ]


def test_024_turns_on_other_ranks(shared: Path, tmp_path: Path) -> None:
    case = Case.load(shared / "cases", "024")
    report = analyzed(
        case, tmp_path, [{"engine": f"e{r['engine']}"} for r in case.requests], route_key="engine"
    )
    assert report.cache is not None
    assert report.cache.hit_tokens == sum(case.expected["hits_1"])
    (found,) = report.findings or []
    assert (found.kind, found.requests) == ("instances", 3)
    assert found.tokens_lost == sum(case.expected["hits_1"]) - sum(case.expected["hits_4_rr"])
    assert found.hit_rate_if_fixed == sum(case.expected["hits_1"]) / (80 + 128 + 176 + 224)


def test_026_instances_that_never_hit_each_other(shared: Path, tmp_path: Path) -> None:
    case = Case.load(shared / "cases", "026")
    columns = [
        {"instance": r["instance"], "cached_tokens": r["local_cached"] + r["external_cached"]}
        for r in case.requests
    ]
    report = analyzed(case, tmp_path, columns, route_key="instance")
    (found,) = report.findings or []
    assert (found.kind, found.requests) == (case.expected["verdict"], 1)
    # r2 could have hit what r1 left on the other instance.
    assert found.tokens_lost == sum(case.expected["potential"]) - 96


@pytest.mark.parametrize(("adapters", "told"), [(["sql", "chat"] * 2, True), (["sql"] * 4, False)])
def test_adapters_are_told_with_their_cost(adapters: list[str], *, told: bool, tmp_path: Path) -> None:
    """Four equal prompts of 100 tokens: one adapter hits 3 times 96, two hit twice."""
    rows = [
        {"id": str(n), "ts": n, "prompt_token_ids": list(range(100)), "adapter": name}
        for n, name in enumerate(adapters)
    ]
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = analyze(log).findings or []
    assert [(f.kind, f.requests, f.tokens_lost, f.severity) for f in found] == [
        ("adapter", 4, 96, "info")
    ] * told
