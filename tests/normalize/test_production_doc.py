"""docs/production.md runs: its blocks are taken from the page, and what it promises of them is tried."""

from __future__ import annotations

import asyncio
import importlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

DOC = Path(__file__).resolve().parents[2] / "docs/production.md"
STABLE = "Answer in one sentence, and name the order that you speak of."
LOGGED = f"Current time: 10:41. You are the assistant of the shop for u_1.\n{STABLE}"
SENT = (
    f"Current time: [time]. You are the assistant of the shop for [user_id].\n{STABLE}\n\n"
    "[time]: 10:41\n[user_id]: u_1"
)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", DOC.read_text(), re.DOTALL | re.MULTILINE)


@pytest.fixture(autouse=True)
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as the page describes it: the templates, and the modules of the page."""
    (template,) = blocks("jinja")
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates/shop.j2").write_text(template)
    (tmp_path / "templates/flat.j2").write_text("{# role: prompt #}\nNow: {{ time }}\nQ: {{ question }}\nA:")
    for block in blocks("python"):
        named = re.match(r"# (\w+\.py)\n", block)
        if named:
            (tmp_path / named[1]).write_text(block)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_the_block_without_a_server_runs() -> None:
    (block,) = (block for block in blocks("python") if not block.startswith("# "))
    exec(compile(block, "production.md", "exec"), {})  # noqa: S102 - our own page


def test_the_litellm_hook() -> None:
    hook = importlib.import_module("normalize_hook").normalize_prompts

    def called(data: dict[str, Any]) -> dict[str, Any]:
        done: dict[str, Any] = asyncio.run(hook.async_pre_call_hook(None, None, data, "completion"))
        return done

    user = {"role": "user", "content": "Where is it?"}
    assert called({"model": "m", "messages": [{"role": "system", "content": LOGGED}, user]}) == {
        "model": "m",
        "messages": [{"role": "system", "content": SENT}, user],
    }
    assert called({"prompt": "Now: 10:41\nQ: why?\nA:"}) == {
        "prompt": "Now: [time]\nQ: why?\nA:\n\n[time]: 10:41"
    }
    others: list[dict[str, Any]] = [
        {"input": "a"},
        {"prompt": [1, 2]},
        {"messages": None},
        {"messages": [7, None, {}]},
    ]
    for other in others:
        assert called(dict(other)) == other


class App:
    """An application that reads its request to the end, answers, and waits for the client to leave."""

    def __init__(self) -> None:
        self.scope: dict[str, Any] = {}
        self.body = b""
        self.then: dict[str, Any] = {}

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        self.scope = scope
        more = scope["type"] == "http"
        while more:
            event = await receive()
            self.body += event["body"]
            more = event["more_body"]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"done"})
        self.then = await receive()


def requested(scope: dict[str, Any], body: list[bytes]) -> tuple[App, list[dict[str, Any]]]:
    """Send a request in chunks through the middleware; return what the application and the client got."""
    app, sent = App(), list[dict[str, Any]]()
    events = [
        {"type": "http.request", "body": part, "more_body": number + 1 < len(body)}
        for number, part in enumerate(body)
    ]
    events.append({"type": "http.disconnect"})

    async def receive() -> dict[str, Any]:
        return events.pop(0)

    async def send(event: dict[str, Any]) -> None:
        sent.append(event)

    middleware = importlib.import_module("normalize_asgi").NormalizePrompts(app)
    asyncio.run(middleware(scope, receive, send))
    return app, sent


def http(path: str, headers: list[tuple[bytes, bytes]], method: str = "POST") -> dict[str, Any]:
    return {"type": "http", "method": method, "path": path, "headers": headers}


def chat(content: str) -> dict[str, Any]:
    user = {"role": "user", "content": "订单在哪里？ \ud83d"}
    return {"model": "m", "seed": 7, "messages": [{"role": "system", "content": content}, user]}


def chunks(data: bytes) -> list[bytes]:
    return [data[place : place + 50] for place in range(0, len(data), 50)]


@pytest.mark.parametrize("length", [b"content-length", b"transfer-encoding"])
def test_the_middleware_rewrites_a_chunked_body(length: bytes) -> None:
    body = json.dumps(chat(LOGGED)).encode()
    value = b"chunked" if length == b"transfer-encoding" else str(len(body)).encode()
    scope = http("/v1/chat/completions", [(b"host", b"h"), (length, value), (b"accept", b"*/*")])
    app, sent = requested(scope, chunks(body))
    assert json.loads(app.body) == chat(SENT)
    assert sorted(app.scope["headers"]) == [
        (b"accept", b"*/*"),
        (b"content-length", str(len(app.body)).encode()),
        (b"host", b"h"),
    ]
    assert scope["headers"] == [(b"host", b"h"), (length, value), (b"accept", b"*/*")]
    assert [event["type"] for event in sent] == ["http.response.start", "http.response.body"]
    assert app.then == {"type": "http.disconnect"}


def test_the_middleware_rewrites_a_flat_prompt() -> None:
    app, _ = requested(http("/v1/completions", []), [json.dumps({"prompt": "Now: 1\nQ: 2\nA:"}).encode()])
    assert json.loads(app.body) == {"prompt": "Now: [time]\nQ: 2\nA:\n\n[time]: 1"}


@pytest.mark.parametrize(
    "path, method, body",
    [
        ("/v1/chat/completions", "POST", b'{ "messages": [{"role": "system", "content": "other text"}] }'),
        ("/v1/chat/completions", "POST", b'{"messages": "none"}'),
        ("/v1/chat/completions", "POST", b"\x1f\x8b no JSON at all, but longer than a chunk of fifty bytes"),
        ("/v1/chat/completions", "POST", b"[" * 200_000),
        ("/v1/chat/completions", "POST", b"[]"),
        ("/v1/completions", "POST", b'{"prompt": [1, 2, 3]}'),
        ("/v1/completions", "POST", b""),
        ("/v1/embeddings", "POST", json.dumps(chat(LOGGED)).encode()),
        ("/v1/chat/completions", "PUT", json.dumps(chat(LOGGED)).encode()),
    ],
    ids=["unfit", "no-list", "no-json", "deep", "array", "ids", "empty", "path", "method"],
)
def test_everything_else_passes_untouched(path: str, method: str, body: bytes) -> None:
    scope = http(path, [(b"content-length", b"%d" % len(body))], method)
    app, _ = requested(scope, chunks(body) or [b""])
    assert app.body == body
    assert app.scope == scope


def test_other_protocols_pass_untouched() -> None:
    app, _ = requested({"type": "lifespan"}, [])
    assert app.scope == {"type": "lifespan"}


def test_a_client_that_leaves_early_reaches_no_application() -> None:
    app, sent = requested(http("/v1/completions", []), [])
    assert (app.scope, sent) == ({}, [])
