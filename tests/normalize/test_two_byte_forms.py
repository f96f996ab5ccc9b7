"""One text in two byte forms is no value: ``hoist`` leaves it, the finding names the form, ``canonicalize`` mends it."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import pytest

from kvtools.flow import NormalizeOptions, normalize
from kvtools.flow.analyze import AnalyzeOptions, analyze
from kvtools.normalize.references import refers_to_place

HEAD, TAIL = "주제", " 제목과 지은이를 적고, 줄거리는 쓰지 마세요. 답은 한국어로만 쓰세요."
READING = AnalyzeOptions(tokenizer="bytes", chat_template="plain", block_size=4)


def log_of(folder: Path, prompts: list[str]) -> Path:
    path = folder / "log.jsonl"
    rows = ({"id": f"r{number}", "prompt": prompt} for number, prompt in enumerate(prompts))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def hoisted(log: Path, **more: object) -> tuple[int, list[str]]:
    """Return how many requests change, and the prompts that come out."""
    out = log.with_name("out.jsonl")
    options = NormalizeOptions(
        target=out,
        tokenizer="bytes",
        chat_template="plain",
        block_size=4,
        **more,  # type: ignore[arg-type]
    )
    report = normalize(log, options)
    return report.requests.changed, [json.loads(line)["prompt"] for line in out.read_text().splitlines()]


def in_two_forms(shared: Path) -> tuple[str, str]:
    """Return case 037's prompt in NFC and in NFD."""
    lines = (shared / "cases/037-hangul-nfd-vs-nfc/input.jsonl").read_text().splitlines()
    one, other = (json.loads(line)["prompt"] for line in lines)
    assert one != other
    assert unicodedata.normalize("NFC", one) == unicodedata.normalize("NFC", other)
    return one, other


def test_037_plain_hoist_moves_no_byte_form(shared: Path, tmp_path: Path) -> None:
    forms = in_two_forms(shared)
    prompts = [forms[number % 2] + TAIL for number in range(40)]
    log = log_of(tmp_path, prompts)
    assert hoisted(log) == (0, prompts)
    assert [found.kind for found in analyze(log, READING).findings or ()] == ["unicode_form"]
    changed, out = hoisted(log, modes=("canonicalize",), forms=("unicode_form",))
    composed = unicodedata.normalize("NFC", forms[0]) + TAIL
    assert (changed, set(out)) == (sum(prompt != composed for prompt in prompts), {composed})
    assert changed == 20


def test_037_beside_a_value_only_the_value_moves(shared: Path, tmp_path: Path) -> None:
    forms = in_two_forms(shared)
    log = log_of(tmp_path, [f"{forms[n % 2]} 주문 {7000 + n * 37} 의{TAIL}" for n in range(40)])
    found = analyze(log, READING).findings or []
    assert [one.kind for one in found] == ["number", "unicode_form"]
    changed, out = hoisted(log)
    assert changed == 40
    for number, prompt in enumerate(out):
        # The text keeps the form that it has; the number stands behind.
        assert prompt == f"{forms[number % 2]} 주문 [number] 의{TAIL}\n\n[number]: {7000 + number * 37}"


def test_a_word_that_differs_is_a_value_though_it_has_two_forms_too(tmp_path: Path) -> None:
    words = ["café", unicodedata.normalize("NFD", "café"), "thé"]
    log = log_of(
        tmp_path, [f"Order {words[n % 3]} now. Be kind to all who ask, and be short." for n in range(42)]
    )
    assert [one.kind for one in analyze(log, READING).findings or ()] != ["unicode_form"]


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        ("blank_lines", "Be kind.\n\nBe short.", "Be kind.\n\n\nBe short."),
        ("no_break_spaces", "Weigh 5 kg of it.", "Weigh 5\u00a0kg of it."),
        ("trailing_blanks", "Be kind.\nBe short.", "Be kind. \nBe short."),
        ("line_ends", "Be kind.\nBe short.", "Be kind.\r\nBe short."),
    ],
)
def test_each_form_is_a_finding_by_its_rule(tmp_path: Path, kind: str, one: str, other: str) -> None:
    rest = " Answer every question from the records below, and never make anything up."
    log = log_of(tmp_path, [(one, other)[number % 2] + rest for number in range(40)])
    found = analyze(log, READING).findings or []
    assert [(one.kind, one.fix.startswith("write one form: ")) for one in found] == [(kind, True)]
    # The rule of that name makes all prompts one, so that the finding is mended by it.
    _, out = hoisted(log, modes=("canonicalize",), forms=(kind,))
    assert set(out) == {one + rest}


def test_half_a_character_refers_to_no_place() -> None:
    assert not refers_to_place("Be kind \ud800.")
    assert refers_to_place("See document 2 \udfff.")
