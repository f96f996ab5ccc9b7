"""``kvtools plan routing``: case 024 by command, the page, the JSON names, and bad input in one sentence."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import Run


@pytest.fixture
def turns(tmp_path: Path) -> Path:
    """One conversation of four turns, 80, 128, 176 and 224 tokens long, each the one before and more (case 024)."""
    words = list(range(64)), list(range(1000, 1144))
    lines = [
        {
            "id": f"t{turn}",
            "ts": 20 * turn,
            "session_id": "s1",
            "prompt_token_ids": [
                *words[0],
                *words[1][: 48 * turn],
                *range(9000 + 100 * turn, 9016 + 100 * turn),
            ],
        }
        for turn in range(4)
    ]
    path = tmp_path / "turns.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_024_turns_scattered_over_replicas(kvtools: Run, turns: Path) -> None:
    done = kvtools("plan", "routing", turns, "--replicas", "1,4", "--format", "json")
    assert (done.code, done.err) == (0, "")
    report = json.loads(done.out)
    hits = {(one["policy"], one["replicas"]): one["hit_tokens"] for one in report["routing"]}
    together = 0 + 64 + 112 + 160
    assert report["ceiling"] == {"hit_tokens": together, "hit_rate": together / (80 + 128 + 176 + 224)}
    assert report["floor"] == [
        {"replicas": 1, "hit_tokens": together, "hit_rate": together / 608},
        {"replicas": 4, "hit_tokens": 0, "hit_rate": 0.0},
    ]
    assert {hits[policy, 1] for policy, count in hits if count == 1} == {together}
    assert (hits["round-robin", 4], hits["least-loaded", 4]) == (0, 0)
    assert hits["session-affine", 4] == hits["prefix-aware", 4] == together
    # A key inside the 64 tokens that all turns share keeps them together, a longer one does not.
    lengths = {one["tokens"]: (one["keys"], one["hit_rate"]) for one in report["routing_key"]["lengths"]}
    assert lengths[16] == (1, together / 608)
    assert 64 not in lengths  # no more keys than of 16
    # Its third and fourth turn share 64 + 64 tokens at least.
    assert (lengths[128][0], lengths[256][0]) == (3, 4)
    assert report["routing_key"]["first_difference_tokens"] is None  # there is one session
    affine = next(
        one for one in report["routing"] if (one["policy"], one["replicas"]) == ("session-affine", 4)
    )
    assert affine["imbalance"] == 4.0
    assert sorted(affine["requests"]) == [0, 0, 0, 4]
    assert report["sessions"] == {"sessions": 1, "named": 4, "found": 0}


def test_the_page(kvtools: Run, log: Path) -> None:
    """Requests a and b share 32 of 40 bytes; c is alone. Two policies on two replicas."""
    options = ("--tokenizer", "bytes", "--replicas", "1,2", "--policy", "round-robin,prefix-aware")
    done = kvtools("plan", "routing", log, *options)
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0] == "26.7 % of prompt tokens hit on 2 replicas with prefix-aware routing;"
    assert lines[1] == "  round-robin, the floor: 0.0 % · one unlimited engine, the ceiling: 26.7 %"
    assert "round-robin        26.7 %  1.00     0.0 %  1.33" in done.out
    assert "prefix-aware       26.7 %  1.00    26.7 %" in done.out
    assert "cannot see what replicas have cached" in done.out
    assert lines[-1].endswith("--nginx upstream.conf")
    assert all(len(line) <= 80 for line in lines[:-1])  # a command is not wrapped


def test_the_snippet_is_written_and_nginx_takes_it(kvtools: Run, log: Path, tmp_path: Path) -> None:
    nginx = shutil.which("nginx")
    if nginx is None:
        pytest.skip("nginx is not installed (apt-get install --no-install-recommends nginx-light)")
    target = tmp_path / "upstream.conf"
    servers = "127.0.0.1:8001,127.0.0.1:8002"
    done = kvtools(
        "plan", "routing", log, "--policy", "session-affine", "--servers", servers, "--nginx", target,
        "--header", "X-Conversation",
    )  # fmt: skip
    assert done.code == 0
    text = target.read_text()
    assert "hash $kvtools_routing_key consistent;" in text
    assert "$http_x_conversation" in text
    assert "server 127.0.0.1:8002;" in text
    (tmp_path / "nginx.conf").write_text(
        f"pid {tmp_path}/nginx.pid;\nerror_log {tmp_path}/error.log;\nevents {{}}\nhttp {{\naccess_log off;\n"
        "include upstream.conf;\nserver { listen 127.0.0.1:9; location / { proxy_pass http://kvtools_replicas; } }\n}\n"
    )
    words = [
        nginx,
        "-t",
        "-p",
        str(tmp_path),
        "-c",
        str(tmp_path / "nginx.conf"),
        "-e",
        str(tmp_path / "error.log"),
    ]
    checked = subprocess.run(words, capture_output=True, text=True, check=False)
    assert "syntax is ok" in checked.stderr, checked.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--replicas", "0"], "not a whole number"),
        (["--replicas", "2000"], "numbers from 1 to 256"),
        (["--policy", "random"], "different ones of round-robin"),
        (["--servers", "a b"], "write host:port"),
        (["--nginx", "x.conf", "--policy", "prefix-aware"], "nginx cannot route prefix-aware"),
        (["--header", "X; evil"], "no header that nginx can read"),
        (["--kv-memory", "1GiB"], "go together"),
    ],
)
def test_wrong_use_is_one_sentence(kvtools: Run, log: Path, options: list[str], said: str) -> None:
    done = kvtools("plan", "routing", log, *options)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert done.err.count("\n") == 1


def test_bad_input_is_one_sentence(kvtools: Run, log: Path, tmp_path: Path) -> None:
    missing = kvtools("plan", "routing", tmp_path / "nowhere.jsonl")
    assert missing.code == 3
    too_small = kvtools("plan", "routing", log, "--tokenizer", "bytes", "--capacity-blocks", "2")
    assert too_small.code == 3
    assert "none of the 3 requests fits a cache of 2 blocks" in too_small.err
    empty = tmp_path / "empty.jsonl"
    empty.write_text('{"id":"a","ts":1}\n')
    assert kvtools("plan", "routing", empty).code == 3
    overwritten = kvtools("plan", "routing", log, "--nginx", log)
    assert (overwritten.code, "would overwrite" in overwritten.err) == (2, True)


def test_plan_help_loads_nothing_but_names_its_verbs(kvtools: Run) -> None:
    done = kvtools("plan", "--help")
    assert done.code == 0
    assert "routing" in done.out
    assert "sizing" in done.out
