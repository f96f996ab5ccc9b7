"""Command lines as people write them down: what runs, its arguments, the variables set for it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtools.errors import UsageError
from kvtools.plan.flags import committed_table
from kvtools.plan.flags_folklore import GONE, GONE_VARIABLES, INVENTED
from kvtools.plan.flags_parse import parse_line
from kvtools.plan.serve_args import ServeLine, read_line

LINES = {
    "vllm serve m --port 8000 > log 2>&1 &": ServeLine("serve", ("m", "--port", "8000")),
    "vllm serve m --port 8000 2>&1 | tee log": ServeLine("serve", ("m", "--port", "8000")),
    "A=1 B=x vllm serve m": ServeLine("serve", ("m",), {"A": "1", "B": "x"}),
    "sudo env A=1 /opt/venv/bin/vllm serve m": ServeLine("serve", ("m",), {"A": "1"}),
    "export A=1\nvllm serve m \\\n  --port 1\necho done": ServeLine(
        "serve", ("m", "--port", "1"), {"A": "1"}
    ),
    "cd /srv && exec vllm serve m; echo done": ServeLine("serve", ("m",)),
    "# a comment\nvllm serve m --x '{\"a\": [1,\n 2]}'": ServeLine("serve", ("m", "--x", '{"a": [1,\n 2]}')),
    "python3 -u -m vllm.entrypoints.openai.api_server --model m": ServeLine("api_server", ("--model", "m")),
    "--model m --port 1": ServeLine("api_server", ("--model", "m", "--port", "1")),
    "docker run --rm -it --gpus all -p 80:80 --ipc=host -e A=1 vllm/vllm-openai:v0.32.0 --model m": ServeLine(
        "serve", ("--model", "m"), {"A": "1"}
    ),
    "docker run registry.example/ml/vllm-openai@sha256:0 m --port 1": ServeLine(
        "serve", ("m", "--port", "1")
    ),
    "docker run --entrypoint vllm image:1 serve m": ServeLine("serve", ("m",)),
    "podman run -d --entrypoint /bin/bash image -c 'A=1 vllm serve m --port 1'": ServeLine(
        "serve", ("m", "--port", "1"), {"A": "1"}
    ),
    "docker run my/image vllm serve m": ServeLine("serve", ("m",)),
    "sh -c 'vllm serve m'": ServeLine("serve", ("m",)),
    "vllm serve 'a model' --flag \"x y\"": ServeLine("serve", ("a model", "--flag", "x y")),
}


@pytest.mark.parametrize("text", LINES)
def test_forms_of_a_command_line(text: str) -> None:
    assert read_line(text) == LINES[text]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("vllm bench serve", "starts no vLLM server"),
        ("docker run nginx", "starts no vLLM server"),
        ("", "starts no vLLM server"),
        ("vllm serve 'm", "close the quote"),
        ("vllm serve a; vllm serve b", "starts 2 vLLM servers"),
    ],
)
def test_what_starts_no_server_or_several(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_line(text)


WORDS = st.lists(
    st.sampled_from(
        ["m", "--port", "8000", "--port=x", "-tp", "-", "--", "-cc.mode", "3", "-O", "-O3", "--no-enable-prefix-caching",
         "--x.y", "--x.y+", "a,b", "{", '{"a": 1}', "-1", "-0.5", "--config", "$X", "--max-num", "=", "--=", "é", "",
         "--compilation-config.pass_config", "--compilation-config.pass_config.fuse_norm_quant", "true"]
    ),
    max_size=12,
)  # fmt: skip


@given(WORDS)
def test_any_words_are_taken_apart(words: list[str]) -> None:
    parsed = parse_line(ServeLine("serve", tuple(words)), committed_table())
    # A word is a flag's, the model, or a fault: nothing is set that no word asked for.
    assert len(parsed.given) <= len(words)


def test_no_piece_of_folklore_is_a_flag() -> None:
    table = committed_table()
    names = table.by_name()
    assert not {f"--{name}" for name in (*INVENTED, *GONE)} & set(names)
    assert not set(GONE_VARIABLES) & set(table.environment)


def test_advice_names_flags_that_exist() -> None:
    names = committed_table().by_name()
    for told in (*INVENTED.values(), *GONE.values(), *GONE_VARIABLES.values()):
        for word in told.replace(";", " ").replace(",", " ").split():
            if word.startswith("--"):
                flag, _, key = word.partition(".")
                assert flag in names, told
                assert not key or key in (names[flag].fields or {key: None}), told
