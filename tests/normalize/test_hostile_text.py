"""20,000 prompts of hostile text through ``normalize`` and ``restore``: every log comes back byte for byte."""

from __future__ import annotations

import json
import random
import unicodedata
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtools.flow import NormalizeOptions, normalize, restore

if TYPE_CHECKING:
    from pathlib import Path

    from kvtools.normalize.modes import Mode

EXAMPLES = 20
REQUESTS = 500
"""Of each of two choices of modes: 2 * 20 * 500 prompts."""

STABLE = "You are the assistant of a shop. Answer in two sentences, name the rule, and never guess. " * 3

PIECES = (
    "订单已经发货，请在三十天内退回。", "주제: 빨간머리 앤", "お問い合わせ番号", "مرحبا بالعالم", "שלום עולם",
    "\u202eright to left\u202c", "e\u0301 n\u0303 a\u0308\u0323", unicodedata.normalize("NFD", "한글 und Übergröße"),
    "a <\u0338 b", "\ufeff", "\u00a0", "\u2028", "\u2029", "\u0085", "\x0b", "\x0c", "\x00", "\x1f", "\x7f",
    "line\r\nline\r\n", "bare\rreturn", "blanks  \n\n\n\n\tand tabs\t\n", "```python\nif x:\n\treturn  {1: 2}\n\n\n```\n",
    "~~~\nopen fence", "{", "}", "{}", "{0}", "{{", "}}", "{{ x }}", "{{ x | upper }}", "{% raw %}", "{% endraw %}",
    "{% for a in b %}", "{# note #}", "[time]", "[time]: ", "[order_id]", "[TIME]", "\n\n[time]: 10:41", "[name_2]",
    "<|im_start|>", "\\", '"', "\\u0041", "\\ud83d", "\\n", "😀", "👩‍👩‍👧", "🇩🇪", "𝔘", "$1", "%s", "null", "2026-07-15T09:00:00Z",
    "order 874635", "550e8400-e29b-41d4-a716-446655440000", "See document 2.", " ", "\n", "\t",
)  # fmt: skip


def hostile(rng: random.Random, found: list[str], most: int = 8) -> str:
    return "".join(
        rng.choice(found if found and rng.random() < 0.2 else PIECES) for _ in range(rng.randint(0, most))
    )


def request(rng: random.Random, number: int, stable: str, found: list[str]) -> dict[str, Any]:
    """A chat or a flat prompt: a time and a name in front of the stable text, which is hostile too."""
    now = f"2026-07-15T{number // 60 % 24:02d}:{number % 60:02d}:{rng.randrange(60):02d}Z"
    head = f"Time: {now}\nOrder: ORD-{rng.randrange(10**6):06d}\n{STABLE}{stable}\n"
    said = hostile(rng, found)
    if rng.random() < 0.3:
        return {"id": number, "prompt": f"{head}The customer says: {said}"}
    parts = [{"type": "text", "text": head}] if rng.random() < 0.2 else head
    return {
        "id": number,
        "messages": [{"role": "system", "content": parts}, {"role": "user", "content": said}],
        "temperature": 1.0,
    }


def line_of(rng: random.Random, record: dict[str, Any]) -> bytes:
    """JSON as several writers write it: escaped (surrogate pairs with it) or not, tight or spaced, slashes escaped."""
    tight = (",", ":") if rng.random() < 0.5 else (", ", ": ")
    text = json.dumps(record, ensure_ascii=rng.random() < 0.5, separators=tight)
    if rng.random() < 0.1:
        text = text.replace("/", "\\/")
    if rng.random() < 0.1:
        text = text.replace("Time", "\\u0054ime")
    return text.encode() + (b"\r\n" if rng.random() < 0.2 else b"\n")


def halved(rng: random.Random, number: int) -> bytes:
    """A line with half of a surrogate pair: JSON by its grammar, and no text."""
    half = rng.choice([r"\ud83d", r"\ude00", r"\ud83d\ud83d", r"\ude00\ud83d", r"\ud83dx"])
    return b'{"id":%d,"prompt":"Time: 10:41 %s"}\n' % (number, half.encode())


def hostile_log(path: Path, seed: int, found: list[str]) -> tuple[int, int]:
    """Write a log; return how many requests it has, and how many lines that hold no text."""
    rng = random.Random(seed)
    stable, halves, lines = hostile(rng, found, 20), 0, []
    for number in range(REQUESTS):
        if number % 50 == 49:
            halves += 1
            lines.append(halved(rng, number))
        else:
            lines.append(line_of(rng, request(rng, number, stable, found)))
    path.write_bytes(b"".join(lines).removesuffix(b"\n" if rng.random() < 0.5 else b""))
    return REQUESTS - halves, halves


@pytest.mark.parametrize("modes", [("hoist",), ("canonicalize", "hoist")], ids="+".join)
def test_every_log_comes_back(tmp_path_factory: pytest.TempPathFactory, modes: tuple[Mode, ...]) -> None:
    """Most prompts are rewritten, all come back; half a surrogate pair is rejected, counted and written as it was."""
    folder = tmp_path_factory.mktemp("hostile")
    log, out, back = (folder / name for name in ("log.jsonl", "out.jsonl", "back.jsonl"))
    changed = total = 0

    @settings(max_examples=EXAMPLES, deadline=None)
    @given(
        seed=st.integers(0, 2**32 - 1),
        found=st.lists(st.text(max_size=12), max_size=10),
        inline=st.booleans(),
    )
    def comes_back(seed: int, found: list[str], *, inline: bool) -> None:
        nonlocal changed, total
        good, halves = hostile_log(log, seed, found)
        options = NormalizeOptions(
            target=out,
            modes=modes,
            inline=inline,
            tokenizer="bytes",
            chat_template="plain",
            input_format="chat-jsonl",
        )
        report = normalize([log], options)
        assert restore(out, back) == REQUESTS
        assert back.read_bytes() == log.read_bytes()
        counts = report.requests
        assert counts.changed + counts.unchanged + counts.refused == good
        assert counts.not_read == report.coverage.rejected == halves
        assert report.coverage.rejected_by_reason == {"bad_json": halves}
        assert not {"not_restored", "other_texts", "not_stable"} & set(counts.reasons)
        changed += counts.changed
        total += REQUESTS
        out.with_name(out.name + ".kvtools").unlink(missing_ok=True)

    comes_back()
    assert total >= EXAMPLES * REQUESTS
    assert changed * 2 > total
