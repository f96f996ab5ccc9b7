"""``kvtools normalize`` and ``kvtools restore`` as users run them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from jinja2 import Environment

from kvtools.chat import load

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Run

STABLE = "You are the assistant of a shop. Answer in two sentences, name the rule, and never guess. " * 4
BYTES = ("--tokenizer", "bytes", "--chat-template", "plain")


def shop_log(folder: Path, name: str = "log.jsonl") -> Path:
    """Return a log of 40 requests whose system prompt begins with a time that no two share."""
    path = folder / name
    lines = []
    for number in range(40):
        system = f"Time: 2026-07-15T08:{number:02d}:00Z\n{STABLE}"
        messages = [
            {"role": "system", "content": system},
            {"role": "user", "content": f"Where is parcel {number}?"},
        ]
        lines.append(json.dumps({"id": f"r{number}", "temperature": 0.5, "messages": messages}))
    lines.insert(20, "not json")
    path.write_bytes("\r\n".join(lines).encode())
    return path


def common(one: bytes, other: bytes) -> int:
    return next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )


def hit_rate(path: Path) -> float:
    """Return the hit rate by hand: whole blocks of 16 bytes, shared with an earlier prompt, at most n - 1 tokens."""
    hits = total = 0
    seen: list[bytes] = []
    for line in path.read_bytes().split(b"\r\n"):
        if line != b"not json":
            prompt = load("plain").render(json.loads(line)["messages"], None).encode()
            shared = max((common(prompt, other) for other in seen), default=0)
            hits += min(shared, len(prompt) - 1) // 16 * 16
            total += len(prompt)
            seen.append(prompt)
    return hits / total


def report(out: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(out)
    return found


def test_the_time_moves_behind_and_comes_back(kvtools: Run, tmp_path: Path) -> None:
    path, out, back = shop_log(tmp_path), tmp_path / "out.jsonl", tmp_path / "back.jsonl"
    ended = kvtools("normalize", path, "-o", out, "--format", "json", *BYTES)
    assert ended.code == 0
    found = report(ended.out)
    assert found["requests"] == {"changed": 40, "unchanged": 0, "refused": 0, "not_read": 1, "reasons": {}}
    assert [
        (field["name"], field["kind"], field["role"], field["requests"]) for field in found["fields"]
    ] == [("time", "time", "system", 40)]
    assert found["hit_rate"] == {"before": hit_rate(path), "after": hit_rate(out)}
    first = json.loads(out.read_bytes().split(b"\r\n")[0])
    assert first["messages"][0]["content"] == f"Time: [time]\n{STABLE}\n\n[time]: 2026-07-15T08:00:00Z"
    assert first["temperature"] == 0.5
    assert out.read_bytes().split(b"\r\n")[20] == b"not json"
    assert kvtools("restore", out, "-o", back).code == 0
    assert back.read_bytes() == path.read_bytes()
    again = kvtools("normalize", out, "-o", tmp_path / "twice.jsonl", "--format", "json", *BYTES)
    assert report(again.out)["requests"]["changed"] == 0
    assert (tmp_path / "twice.jsonl").read_bytes() == out.read_bytes()


def test_learned_templates_give_the_logged_prompts_and_are_applied_again(
    kvtools: Run, tmp_path: Path
) -> None:
    path, out, again, folder = (
        shop_log(tmp_path),
        tmp_path / "out",
        tmp_path / "again",
        tmp_path / "templates",
    )
    assert kvtools("normalize", path, "-o", out, "--learn", folder, *BYTES).code == 0
    (entry,) = json.loads((folder / "manifest.json").read_text())["templates"]
    assert (entry["role"], entry["requests"]) == ("system", 40)
    # The head is stable up to the block of values: `Time: [time]`, the text, a blank line and `[time]: ` follow.
    assert entry["stable_tokens"] == len(f"Time: [time]\n{STABLE}")
    lines = [line for line in path.read_bytes().split(b"\r\n") if line != b"not json"]
    served = Environment().from_string((folder / entry["file"]).read_text())  # noqa: S701 - prompts are no HTML
    logged = Environment().from_string((folder / entry["logged"]).read_text())  # noqa: S701
    values = [json.loads(line) for line in (folder / "values.jsonl").read_text().splitlines()]
    rewritten = [line for line in out.read_bytes().split(b"\r\n") if line != b"not json"]
    assert len(values) == 40
    for one, before, after in zip(values, lines, rewritten, strict=True):
        assert logged.render(one["values"]) == json.loads(before)["messages"][0]["content"]
        assert served.render(one["values"]) == json.loads(after)["messages"][0]["content"]
    assert kvtools("normalize", path, "-o", again, "--templates", folder, *BYTES).code == 0
    assert again.read_bytes() == out.read_bytes()


def test_templates_of_strangers_are_read_and_never_run(kvtools: Run, tmp_path: Path) -> None:
    path, folder = shop_log(tmp_path), tmp_path / "templates"
    folder.mkdir()
    (folder / "a.j2").write_text("Time: {{ ''.__class__.__mro__ }}\nYou")
    ended = kvtools("normalize", path, "--dry-run", "--templates", folder, *BYTES)
    assert ended.code == 3
    assert "a.j2:1" in ended.err
    both = kvtools("normalize", path, "--dry-run", "--templates", folder, "--fields", "time", *BYTES)
    assert both.code == 2


def test_lines_can_hold_what_restores_them(kvtools: Run, tmp_path: Path) -> None:
    path, out, back = shop_log(tmp_path), tmp_path / "out.jsonl", tmp_path / "back.jsonl"
    assert kvtools("normalize", path, "-o", out, "--inline", *BYTES).code == 0
    assert not (tmp_path / "out.jsonl.kvtools").exists()
    lines = out.read_bytes().split(b"\r\n")
    out.write_bytes(b"\r\n".join(reversed(lines)))  # a part of it, or another order, is restored all the same
    assert kvtools("restore", out, "-o", back).code == 0
    assert back.read_bytes().split(b"\r\n") == list(reversed(path.read_bytes().split(b"\r\n")))


def test_check_and_dry_run_write_nothing(kvtools: Run, tmp_path: Path) -> None:
    path = shop_log(tmp_path)
    assert kvtools("normalize", path, "--dry-run", *BYTES).code == 0
    failed = kvtools("normalize", path, "--check", *BYTES)
    assert failed.code == 1
    assert "40 requests would change" in failed.err
    assert sorted(file.name for file in tmp_path.iterdir()) == ["log.jsonl"]
    settled = tmp_path / "settled.jsonl"
    kvtools("normalize", path, "-o", settled, *BYTES)
    assert kvtools("normalize", settled, "--check", *BYTES).code == 0


def test_a_diff_shows_text_only_where_asked(kvtools: Run, tmp_path: Path) -> None:
    path = shop_log(tmp_path)
    plain = kvtools("normalize", path, "--dry-run", *BYTES)
    assert "2026-07-15T08" not in plain.out + plain.err
    shown = kvtools("normalize", path, "--dry-run", "--diff", *BYTES)
    assert "-Time: 2026-07-15T08:00:00Z\n+Time: [time]\n" in shown.out


def test_one_form_and_moves_are_both_taken_back(kvtools: Run, tmp_path: Path) -> None:
    path, out, back = tmp_path / "log.jsonl", tmp_path / "out.jsonl", tmp_path / "back.jsonl"
    plain = shop_log(tmp_path, "plain.jsonl").read_text()
    path.write_text(plain.replace("guess. You", "guess.\\r\\nYou"), newline="")
    assert kvtools("normalize", path, "-o", out, "--mode", "canonicalize,hoist", *BYTES).code == 0
    first = json.loads(out.read_bytes().split(b"\n")[0])
    assert first["messages"][0]["content"].startswith("Time: [time]\nYou are")
    assert "\r" not in first["messages"][0]["content"]
    assert kvtools("restore", out, "-o", back).code == 0
    assert back.read_bytes() == path.read_bytes()


def test_masked_values_are_lost_and_the_page_says_so(kvtools: Run, tmp_path: Path) -> None:
    path, out = shop_log(tmp_path), tmp_path / "out.jsonl"
    ended = kvtools("normalize", path, "-o", out, "--mode", "mask", *BYTES)
    assert "values are lost" in ended.out
    assert b"2026-07-15T08" not in out.read_bytes()
    assert not (tmp_path / "out.jsonl.kvtools").exists()
    assert kvtools("restore", out, "-o", tmp_path / "back.jsonl").code == 3


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("-o", "OUT", "--dry-run"), 2, "one of them"),
        ((), 2, "one of them"),
        (("-o", "LOG"), 2, "would overwrite"),
        (("-o", "OUT", "--mode", "lift"), 2, "not a mode"),
        (("-o", "OUT", "--mode", "mask,hoist"), 2, "stands alone"),
        (("-o", "OUT", "--fields", "order_id"), 2, "no such field varies in the log; it has"),
        (("-o", "OUT", "--mode", "canonicalize", "--forms", "tidy"), 2, "tidy"),
        (("-o", "OUT.gz"), 2, "plain text"),
        (("-o", "OUT.gz", "--inline"), 2, "plain text"),
        (("--dry-run", "--learn", "OUT"), 2, "name OUT"),
        (("-o", "NONE/OUT"), 3, "cannot be written"),
    ],
)
def test_wrong_calls_are_told_in_one_sentence(
    kvtools: Run, tmp_path: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    path = shop_log(tmp_path)
    places = {
        "OUT": tmp_path / "out",
        "LOG": path,
        "OUT.gz": tmp_path / "out.gz",
        "NONE/OUT": tmp_path / "none/out",
    }
    ended = kvtools("normalize", path, *(places.get(argument, argument) for argument in arguments), *BYTES)
    assert ended.code == code
    assert words in ended.err
    assert "Traceback" not in ended.err
    assert sorted(file.name for file in tmp_path.iterdir()) == ["log.jsonl"]


def test_a_format_without_strings_to_rewrite_is_named(kvtools: Run, tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text('{"timestamp": 1, "input_length": 32, "output_length": 1, "hash_ids": [1, 2]}\n')
    ended = kvtools("normalize", path, "-o", tmp_path / "out.jsonl")
    assert ended.code == 3
    assert "kvtools convert" in ended.err


def test_named_fields_move_in_named_messages(kvtools: Run, tmp_path: Path) -> None:
    path, out = shop_log(tmp_path), tmp_path / "out.jsonl"
    ended = kvtools("normalize", path, "-o", out, "--fields", "time", "--in", "user", *BYTES)
    assert ended.code == 2
    assert kvtools("normalize", path, "-o", out, "--fields", "time", "--in", "system", *BYTES).code == 0
    assert b"[time]: 2026" in out.read_bytes()


def test_what_stays_is_listed_with_its_place(kvtools: Run, tmp_path: Path) -> None:
    path, refused = shop_log(tmp_path), tmp_path / "refused.jsonl"
    data = path.read_text().replace("Where is parcel 3?", "What is [time]?").replace(
        "Time: 2026-07-15T08:07:00Z", "Time: [time] 2026-07-15T08:07:00Z"
    )  # fmt: skip
    path.write_text(data, newline="")
    kvtools("normalize", path, "-o", tmp_path / "out.jsonl", "--refused", refused, *BYTES)
    reasons = [json.loads(line) for line in refused.read_text().splitlines()]
    assert {"source": f"{path}:8", "reason": "placeholder_in_text"} in reasons
    assert {"source": f"{path}:21", "reason": "not_this_format"} in reasons
    assert len(reasons) == 2


@pytest.mark.parametrize("inline", [(), ("--inline",)])
def test_a_line_that_one_mode_alone_changes_comes_back(
    kvtools: Run, tmp_path: Path, inline: tuple[str, ...]
) -> None:
    """The second request has a line end to unify and no time to move; it counts, and its place is the user's file."""
    path, out, back, refused = (
        tmp_path / name for name in ("log.jsonl", "out.jsonl", "back.jsonl", "refused")
    )
    lines = shop_log(tmp_path).read_text().split("\n")
    lines.insert(1, json.dumps({"prompt": "One line.\r\nAnother."}))
    lines.insert(2, json.dumps({"prompt": "One line.\r\nYet another.", "metadata": "mine"}))
    path.write_text("\n".join(lines), newline="")
    arguments = ("--mode", "canonicalize,hoist", "--refused", refused, "--format", "json", *inline, *BYTES)
    ended = kvtools("normalize", path, "-o", out, *arguments)
    found = report(ended.out)["requests"]
    # With --inline the line whose metadata is a text has no room for what restores it.
    taken = {"metadata_taken": 1} if inline else {}
    assert (found["changed"], found["refused"], found["reasons"]) == (41 if inline else 42, len(taken), taken)
    assert kvtools("restore", out, "-o", back).code == 0
    assert back.read_bytes() == path.read_bytes()
    assert ended.err.count("not JSON") == 1
    sources = {json.loads(line)["source"] for line in refused.read_text().splitlines()}
    assert sources == {f"{path}:23", *([f"{path}:3"] if inline else [])}


def test_a_log_without_a_clock_is_replayed_in_its_own_order(kvtools: Run, tmp_path: Path) -> None:
    ended = kvtools("normalize", shop_log(tmp_path), "--dry-run", "--format", "json", *BYTES)
    assert report(ended.out)["settings"]["order"] == "log"


def test_several_files_are_one_log_and_keep_their_names(kvtools: Run, tmp_path: Path) -> None:
    first, second = shop_log(tmp_path, "a.jsonl"), tmp_path / "b.jsonl"
    second.write_bytes(first.read_bytes())
    out, back, refused = tmp_path / "out", tmp_path / "back", tmp_path / "refused"
    assert kvtools("normalize", first, second, "-o", out, "--refused", refused, *BYTES).code == 0
    assert kvtools("restore", out, "-o", back).code == 0
    assert back.read_bytes() == first.read_bytes() + b"\n" + second.read_bytes()
    sources = [json.loads(line)["source"] for line in refused.read_text().splitlines()]
    assert sources == [f"{first}:21", f"{second}:21"]


def test_the_page_of_analyze_names_the_command_that_makes_the_fixes(kvtools: Run, tmp_path: Path) -> None:
    path = shop_log(tmp_path)
    page = kvtools("analyze", "logs", path, *BYTES).out
    fixed = tmp_path / "log.norm.jsonl"
    assert page.endswith(f"      kvtools normalize {path} {' '.join(BYTES)} -o {fixed}\n")
    assert "kvtools normalize" not in kvtools("analyze", path, "--all", *BYTES).out
