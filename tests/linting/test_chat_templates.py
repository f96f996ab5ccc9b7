"""Chat templates: our own, those of real models, and hostile ones."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from kvtools.flow import LintOptions, lint_templates
from kvtools.report.lint import LintReport, LintTemplate

ROOT = Path(__file__).resolve().parents[2]
PLAIN = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}"


def rules(one: LintTemplate, *severities: str) -> set[str]:
    return {found.rule for found in one.findings if found.severity in (severities or ("error", "warning"))}


def linted(tmp_path: Path, seconds: float = 30.0, **sources: str) -> LintReport:
    for name, source in sources.items():
        (tmp_path / f"{name}.jinja").write_text(source)
    return lint_templates(tmp_path, LintOptions(tokenizer="bytes", probe_seconds=seconds))


def test_our_own() -> None:
    report = lint_templates(ROOT / "templates/chat", LintOptions(tokenizer="bytes"))
    failing = {Path(one.path).stem: rules(one) for one in report.templates if rules(one)}
    # As DeepSeek-V4's own encoder does, its template drops reasoning from earlier turns.
    assert failing == {"deepseek-v4": {"history-not-append-only"}}
    assert len(report.templates) == 5
    assert {one.kind for one in report.templates} == {"chat"}


def test_those_of_real_models(shared: Path) -> None:
    report = lint_templates(shared / "data/chat_templates", LintOptions(tokenizer="bytes"))
    dated = {Path(one.path).stem for one in report.templates if "clock" in rules(one)}
    assert dated == {
        "llama_cpp_python_gpt_oss_120b",
        "vllm_tool_chat_template_llama3.1_json",
        "vllm_tool_chat_template_llama3.2_json",
        "vllm_tool_chat_template_llama3.2_pythonic",
        "vllm_tool_chat_template_mistral3_HEAD_excerpt",
    }
    assert len(report.templates) == 40
    assert {one.kind for one in report.templates} == {"chat"}
    by_name = {Path(one.path).stem: one for one in report.templates}
    lines = {name: {f.line for f in by_name[name].findings if f.rule == "clock"} for name in dated}
    # grep -n strftime_now, the first line that calls it.
    assert lines["vllm_tool_chat_template_llama3.1_json"] == {10}
    assert not rules(by_name["vllm_template_chatml"])
    assert "unsorted-tojson" in rules(by_name["vllm_tool_chat_template_hermes"], "info")


def test_tojson_as_transformers_prints_it(tmp_path: Path) -> None:
    report = linted(
        tmp_path,
        a="{% for t in tools or [] %}{{ t|tojson }}{% endfor %}" + PLAIN,
        b="{% for t in tools or [] %}{{ t|tojson(sort_keys=true) }}{% endfor %}" + PLAIN,
    )
    assert [rules(one, "info") & {"unsorted-tojson"} for one in report.templates] == [
        {"unsorted-tojson"},
        set(),
    ]
    assert report.exit_code == 0


def test_head_tokens_by_hand(tmp_path: Path) -> None:
    # "Head. <" and "system>" stand in front of the first message's text; one byte is one token.
    (one,) = linted(tmp_path, a="Head. " + PLAIN).templates
    assert one.leading_stable_tokens == len("Head. <system>")


def test_a_random_greeting(tmp_path: Path) -> None:
    (one,) = linted(tmp_path, a="{{ ['Hi', 'Hello']|random }}" + PLAIN).templates
    assert "random" in rules(one, "error")


@pytest.mark.parametrize(
    "bomb",
    [
        "{{ 10**(10**10) }}",
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    ],
    ids=["number", "loops"],
)
def test_a_template_that_never_ends_is_stopped_and_the_others_are_not(tmp_path: Path, bomb: str) -> None:
    began = time.monotonic()
    report = linted(tmp_path, 2.0, a=bomb + PLAIN, b="Now {{ strftime_now('%d') }}" + PLAIN)
    assert time.monotonic() - began < 60
    stopped, other = report.templates
    assert rules(stopped) == {"not-probed"}
    assert "stopped: it took more than 2 s" in stopped.findings[0].sentence
    assert rules(other) == {"clock"}


def test_a_hostile_template_reads_nothing(tmp_path: Path) -> None:
    secret = tmp_path / "secret.md"
    secret.write_text("the secret")
    report = linted(
        tmp_path,
        attribute="{{ ''.__class__.__mro__[1].__subclasses__() }}" + PLAIN,
        include="{% include 'secret.md' %}" + PLAIN,
        memory="{{ 'a' * 10**11 }}" + PLAIN,
        ranged="{% for i in range(10**9) %}x{% endfor %}" + PLAIN,
    )
    assert "the secret" not in report.to_json()
    assert all(one.leading_stable_tokens is None for one in report.templates)


def test_tokenizer_config(tmp_path: Path) -> None:
    config = {
        "bos_token": {"content": "<s>"},
        "chat_template": [
            {"name": "default", "template": "{{ bos_token }}" + PLAIN},
            {"name": "rag", "template": "{{ strftime_now('%d') }}" + PLAIN},
        ],
    }
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    default, rag = lint_templates(tmp_path, LintOptions(tokenizer="bytes")).templates
    assert (default.path, rag.path) == tuple(
        f"{tmp_path}/tokenizer_config.json#{name}" for name in ("default", "rag")
    )
    assert default.leading_stable_tokens == len("<s><system>")
    assert (rules(default), rules(rag)) == (set(), {"clock"})
