"""Cases of group B of ../shared/cases through ``normalize`` and ``convert``: what moves, what stays, what leaks."""

from __future__ import annotations

import hashlib
import json
import random
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from shared_case import Case

from kvtools.blocks import block_keys
from kvtools.cli import main
from kvtools.errors import UsageError
from kvtools.fields import Learned, SectionSample, grouped, learn_group
from kvtools.fields.catalogue import Catalogue
from kvtools.flow import NormalizeOptions, normalize, restore
from kvtools.table import Ragged, digest64, offsets_of

if TYPE_CHECKING:
    from pathlib import Path

BYTES: dict[str, Any] = {"tokenizer": "bytes", "chat_template": "plain"}


def log_of(case: Path) -> Path:
    (log,) = case.glob("input.jsonl")
    return log


def folder(shared: Path, number: str) -> Path:
    (found,) = (shared / "cases").glob(f"{number}-*")
    return found


def learned(prompts: list[str]) -> list[Learned]:
    sample = SectionSample()
    for prompt in prompts:
        sample.offer("prompt", prompt, None)
    groups = grouped(list(sample.texts.values()))
    return [one for group in groups for one in learn_group(group, Catalogue.bundled())]


def prompts_of(shared: Path, number: str) -> list[str]:
    return [request["prompt"] for request in Case.load(shared / "cases", number).requests]


def command(monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> None:
    monkeypatch.setattr(sys, "argv", ["kvtools", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0


def telltales(requests: list[dict[str, Any]], block: int) -> list[bytes]:
    """All that must not leave: each name and prompt, their unkeyed hashes, and those of each prompt's first block."""
    found = []
    for request in requests:
        person, prompt = request["user"], request["prompt"]
        first = prompt.encode()[:block]
        for text in (person.encode(), prompt.encode(), first):
            hashes = [hashlib.new(name, text).hexdigest() for name in ("sha256", "sha1", "md5", "blake2b")]
            found += [value[:16].encode() for value in hashes]
            own = digest64(text.decode())
            found += [str(own).encode(), f"{own:016x}".encode()]
        ids = Ragged(
            np.frombuffer(first, dtype=np.uint8).astype(np.int32), offsets_of(np.array([len(first)]))
        )
        (key,) = block_keys(ids, [None], block).values.tolist()
        found += [str(key).encode(), f"{key:016x}".encode(), person.encode()]
    return found


def test_042_no_report_and_no_export_names_or_links_anybody(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One byte is one token and a block is four, so that ``Hell`` is a first block that could be guessed."""
    case = Case.load(shared / "cases", "042")
    assert case.expected["leak_check"] is True
    log = log_of(folder(shared, "042"))
    reading = ("--tokenizer", "bytes", "--chat-template", "plain")
    cache = (*reading, "--block-size", "4")
    reports = [f"--report={kind}={tmp_path / kind}" for kind in ("html", "json", "md", "text")]
    command(monkeypatch, "analyze", "logs", log, *cache, *reports, "-o", tmp_path / "page")
    command(
        monkeypatch, "replay", log, *cache, "--per-request", tmp_path / "hits", "-o", tmp_path / "replayed"
    )
    command(monkeypatch, "normalize", log, "--dry-run", *cache, "--refused", tmp_path / "refused")
    for form in ("mooncake", "parquet"):
        export = ("-o", tmp_path / form, "--to", form, "--anonymize", *reading)
        command(monkeypatch, "convert", log, *export, *(("--block-size", "4") if form == "mooncake" else ()))
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert len(written) == 10
    for name, data in written.items():
        leaks = [one for one in telltales(case.requests, 4) if one in data]
        assert not leaks, name
        assert name == "refused" or data


def test_042_two_exports_are_not_linked_unless_a_key_says_so(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, out = log_of(folder(shared, "042")), tmp_path / "out"
    reading = ("--anonymize", "--tokenizer", "bytes", "--chat-template", "plain")

    def ids(*key: str) -> list[str]:
        command(monkeypatch, "convert", log, "-o", out, "--to", "mooncake", *reading, *key)
        return [json.loads(line)["request_id"] for line in out.read_bytes().splitlines()]

    runs = [ids(), ids()]
    assert not set(runs[0]) & set(runs[1])
    assert ids("--key", "ours") == ids("--key", "ours")
    assert not set(ids("--key", "ours")) & set(ids("--key", "theirs"))


def test_044_two_fields_vary_and_what_is_constant_is_none(shared: Path) -> None:
    case = Case.load(shared / "cases", "044")
    (one,) = learned(prompts_of(shared, "044"))
    assert len(one.template.gaps) == case.expected["fields"] == 2
    assert all(value in one.template.literals[0] for value in case.expected["not_flagged"])
    log = log_of(folder(shared, "044"))
    with pytest.raises(UsageError, match=r"no such field varies in the log; it has time, value\.$"):
        normalize(log, NormalizeOptions(fields=("date",), **BYTES))


def test_046_a_class_is_no_field(shared: Path) -> None:
    case = Case.load(shared / "cases", "046")
    found = learned(prompts_of(shared, "046"))
    assert len(found) == case.expected["templates"] == 2
    assert [len(one.texts) for one in found] == case.expected["sizes"] == [3, 3]
    assert [[gap.name for gap in one.template.gaps] for one in found] == [["request_id"], ["request_id"]]
    assert sorted(one.template.literals[0][:13] for one in found) == ["Run in mode 1", "Run in mode 2"]


def test_046_a_template_is_written_for_each_class(shared: Path, tmp_path: Path) -> None:
    """The number is named: at the end of the prompt it costs nothing, and nothing would move by itself."""
    log, out = log_of(folder(shared, "046")), tmp_path / "out"
    templates = tmp_path / "templates"
    named = NormalizeOptions(target=out, learn=templates, fields=("request_id",), **BYTES)
    report = normalize(log, named)
    written = json.loads((templates / "manifest.json").read_text())["templates"]
    assert [(entry["requests"], [field["name"] for field in entry["fields"]]) for entry in written] == [
        (3, ["request_id"]),
        (3, ["request_id"]),
    ]
    assert len(report.templates) == 2
    restore(out, tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == log.read_bytes()


def test_047_any_order_gives_one_template_and_one_id(shared: Path) -> None:
    case = Case.load(shared / "cases", "047")
    prompts = prompts_of(shared, "047")
    (one,) = learned(prompts)
    assert case.expected["templates"] == 1
    assert case.expected["order_invariant"] is True
    assert one.template.literals == ("", " restarted service web")
    for seed in range(12):
        (other,) = learned(random.Random(seed).sample(prompts, len(prompts)))
        assert (other.template, other.template.template_id) == (one.template, one.template.template_id)
        assert (other.texts, other.values) == (one.texts, one.values)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1)])
def test_047_any_order_of_the_log_names_one_template(
    shared: Path, tmp_path: Path, order: tuple[int, ...]
) -> None:
    """The id as the report has it is the one that the prompts by themselves give."""
    lines = log_of(folder(shared, "047")).read_bytes().strip().split(b"\n")
    log = tmp_path / "log.jsonl"
    log.write_bytes(b"".join(lines[place] + b"\n" for place in order))
    report = normalize(log, NormalizeOptions(fields=("value",), **BYTES))
    (one,) = learned(prompts_of(shared, "047"))
    assert report.templates == [one.template.template_id]
    assert report.requests.changed == 4


PASSAGES = [
    "Returns are taken for thirty days from delivery, unopened, with the printed slip in the box.",
    "Shipping takes two working days inland and five abroad; the courier sends a link on the first.",
    "Gift cards never lapse, are never paid out, and are taken for any article of the shop.",
    "Repairs are free in the first year; behind that the workshop names a price before it begins.",
]


def chats_like(request: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """The case's request as chats: documents drawn in changing order before a stable text, and its question.

    Written as the case writes them: numbered where its documents are, plain lines where they are not.
    """
    numbered = any(text.startswith("[") for text in request["docs"])
    asked = request["question"]
    rows = []
    for number in range(count):
        drawn = random.Random(number).sample(PASSAGES, 3)
        lines = [f"[{place}] {text}" if numbered else text for place, text in enumerate(drawn, 1)]
        rules = (
            "Answer in two sentences, name the rule that you apply, and never guess what is not written. " * 4
        )
        system = "You answer from what is written here.\n" + "\n".join(lines) + "\n" + rules
        messages = [{"role": "system", "content": system}, {"role": "user", "content": asked}]
        rows.append({"id": f"{request['id']}-{number}", "messages": messages})
    return rows


@pytest.mark.parametrize(("name", "refused"), [("r1", True), ("r2", False)])
def test_048_lines_that_are_named_by_number_stay(
    shared: Path, tmp_path: Path, name: str, *, refused: bool
) -> None:
    """Where the question names a document by number nothing moves, and the reason is counted; else it pays."""
    case = Case.load(shared / "cases", "048")
    (request,) = (one for one in case.requests if one["id"] == name)
    assert case.expected[name].startswith("blocked:ordinal_reference") is refused
    # The plain documents of r2 in both logs: the question alone decides.
    rows = chats_like({**request, "docs": case.requests[1]["docs"]}, 24)
    log, out = tmp_path / "log.jsonl", tmp_path / "out.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    report = normalize(log, NormalizeOptions(target=out, **BYTES))
    if refused:
        assert report.requests.changed == 0
        assert report.requests.reasons == {"refers_to_place": 24}
        assert out.read_bytes() == log.read_bytes()
    else:
        assert report.requests.changed == 24
        assert report.requests.reasons == {}
        assert report.hit_rate.before is not None
        assert report.hit_rate.after is not None
        assert report.hit_rate.after > report.hit_rate.before
    restore(out, tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == log.read_bytes()


def test_048_numbered_documents_are_not_moved(shared: Path, tmp_path: Path) -> None:
    """As the case has them: ``[1]``, ``[2]`` are numbers that an answer cites, wherever the question points."""
    case = Case.load(shared / "cases", "048")
    rows = chats_like({**case.requests[0], "question": "How long is shipping?"}, 24)
    log, out = tmp_path / "log.jsonl", tmp_path / "out.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    normalize(log, NormalizeOptions(target=out, **BYTES))
    for before, after in zip(log.read_bytes().splitlines(), out.read_bytes().splitlines(), strict=True):
        logged, sent = (json.loads(line)["messages"][0]["content"] for line in (before, after))
        assert sent.split("\n")[1:4] == logged.split("\n")[1:4]
