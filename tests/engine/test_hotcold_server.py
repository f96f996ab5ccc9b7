"""Over HTTP: the middleware tells hot from cold, the scheduler behind it lets hot requests finish first."""

from __future__ import annotations

import http.client
import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

LONG, SHORT = 300, 24  # tokens of a prompt: rules call the long ones cold
PATIENCE_S = 120


class Server:
    """Requests to one server; each in a thread of its own."""

    def __init__(self, url: str, notes: Path) -> None:
        self.place = url.removeprefix("http://")
        self.url, self.notes_path = url, notes
        with urllib.request.urlopen(f"{url}/v1/models") as answer:  # noqa: S310 - our own http
            self.model = json.load(answer)["data"][0]["id"]
        self.finished: list[tuple[str, int, Any]] = []
        self.threads: list[threading.Thread] = []

    def ask(
        self, name: str, prompt: Any, output: int, headers: dict[str, str] | None = None, **body: Any
    ) -> tuple[int, Any]:
        """Send one completion and return status and answer."""
        whole = {"model": self.model, "prompt": prompt, "max_tokens": output, "temperature": 0}
        link = http.client.HTTPConnection(self.place, timeout=PATIENCE_S)
        asked = {"content-type": "application/json", "x-request-id": name} | (headers or {})
        link.request("POST", "/v1/completions", json.dumps(whole | {"ignore_eos": True} | body), asked)
        answer = link.getresponse()
        found = answer.status, json.loads(answer.read())
        link.close()
        return found

    def begin(self, name: str, prompt: Any, output: int, headers: dict[str, str] | None = None) -> None:
        """Send one and go on; ``finished`` lists it when it has come back."""

        def run() -> None:
            status, answer = self.ask(name, prompt, output, headers)
            self.finished.append((name, status, answer))

        self.threads.append(threading.Thread(target=run))
        self.threads[-1].start()

    def join(self) -> list[str]:
        """Wait for all; return their names in the order in which they came back."""
        for thread in self.threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()
        return [name for name, _, _ in self.finished]

    def notes(self) -> list[dict[str, Any]]:
        """Return what the scheduler has noted so far."""
        whole = self.notes_path.read_text().rpartition("\n")[0]
        return [json.loads(line) for line in whole.splitlines()]

    def priority_of(self, name: str) -> int:
        """Return the priority with which a request reached the scheduler."""
        (found,) = {row["priority"] for row in self.notes() if f"-{name}-" in row.get("id", "")}
        return int(found)


@pytest.fixture
def server(hotcold_server: tuple[str, Path]) -> Server:
    return Server(*hotcold_server)


def _until(holds: Callable[[], bool]) -> None:
    for _ in range(100 * PATIENCE_S):
        if holds():
            return
        time.sleep(0.01)
    pytest.fail("it did not come to that")


def _prompt(seed: int, tokens: int) -> list[int]:
    return [1_000 + (7_919 * seed + 31 * place) % 50_000 for place in range(tokens)]


def test_hot_requests_overtake_cold_ones_that_wait(server: Server) -> None:
    before = len(server.notes())
    for number in range(6):
        server.begin(f"cold{number}", _prompt(number, LONG), 80)
    _until(lambda: sum("cold" in row.get("id", "") for row in server.notes()[before:]) == 6)
    for number in range(6):
        server.begin(f"hot{number}", _prompt(100 + number, SHORT), 8)
    order = server.join()
    assert {status for _, status, _ in server.finished} == {200}
    assert {answer["choices"][0]["finish_reason"] for _, _, answer in server.finished} == {"length"}
    # The two that had a seat may end in between; the four behind them wait until the last hot one is done.
    last_hot = max(order.index(f"hot{number}") for number in range(6))
    assert last_hot < order.index([name for name in order if name.startswith("cold")][2])
    steps = [row for row in server.notes()[before:] if "hot" in row]
    assert max(row["cold"] for row in steps) == 2
    assert max(row["hot"] for row in steps) >= 1
    assert [server.priority_of(f"cold{number}") for number in range(6)] == [3] * 6
    assert [server.priority_of(f"hot{number}") for number in range(6)] == [0] * 6


@pytest.mark.parametrize(
    ("name", "prompt", "headers", "body", "priority"),
    [
        ("byrule", _prompt(1, LONG), {}, {}, 3),
        ("bydefault", _prompt(2, SHORT), {}, {}, 0),
        ("bytype", _prompt(3, SHORT), {"X-Request-Type": "cold"}, {}, 3),
        ("bynumber", _prompt(4, LONG), {"X-Priority": "4"}, {}, 1),
        ("byvllm", _prompt(5, SHORT), {"X-Vllm-Priority": "7"}, {}, 7),
        ("bybody", _prompt(6, LONG), {}, {"priority": 2}, 2),
        ("bytwo", [_prompt(7, SHORT), _prompt(8, LONG)], {}, {}, 3),  # one of its prompts is long
    ],
)
def test_the_scheduler_gets_the_priority_that_the_middleware_found(
    server: Server, name: str, prompt: Any, headers: dict[str, str], body: dict[str, Any], priority: int
) -> None:
    status, answer = server.ask(name, prompt, 1, headers, **body)
    assert (status, answer["choices"][0]["finish_reason"]) == (200, "length")
    assert server.priority_of(name) == priority


def test_a_streamed_answer_and_a_chat_go_through(server: Server) -> None:
    body = {"model": server.model, "messages": [{"role": "user", "content": "Does rosemary survive frost?"}]}
    request = urllib.request.Request(  # noqa: S310 - our own http
        f"{server.url}/v1/chat/completions",
        json.dumps(body | {"max_tokens": 5, "stream": True, "ignore_eos": True}).encode(),
        {"content-type": "application/json", "x-request-type": "cold", "x-request-id": "chat"},
    )
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:  # noqa: S310
        lines = [line for line in answer.read().decode().splitlines() if line]
    assert lines[-1] == "data: [DONE]"
    assert json.loads(lines[-2].removeprefix("data: "))["choices"][0]["finish_reason"] == "length"
    assert server.priority_of("chat") == 3


def test_a_bad_header_is_a_400_of_one_sentence(server: Server) -> None:
    status, answer = server.ask("bad", _prompt(8, SHORT), 1, {"X-Priority": "urgent"})
    assert status == 400
    assert answer["error"]["message"] == "X-Priority is 1 to 5, where 5 is the most urgent, not 'urgent'."


def test_what_vllm_refuses_is_still_vllms_to_refuse(server: Server) -> None:
    request = urllib.request.Request(  # noqa: S310 - our own http
        f"{server.url}/v1/completions", b"no JSON", {"content-type": "application/json"}
    )
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=PATIENCE_S)  # noqa: S310
    assert refused.value.code in {400, 422}
    refused.value.close()


def test_a_cold_request_that_waits_too_long_is_aborted_and_its_client_told(server: Server) -> None:
    """Two cold requests that go on for long keep their seats; their clients leave when the third has its answer."""
    links = []
    for number in range(2):
        body = {"model": server.model, "prompt": _prompt(200 + number, LONG), "max_tokens": 3_700}
        link = http.client.HTTPConnection(server.place, timeout=PATIENCE_S)
        headers = {"content-type": "application/json", "x-request-id": f"keeps{number}"}
        link.request(
            "POST", "/v1/completions", json.dumps(body | {"ignore_eos": True, "stream": True}), headers
        )
        links.append((link, link.getresponse()))
    for _, answer in links:
        assert answer.readline().startswith(b"data: ")  # it runs
    status, late = server.ask("late", _prompt(300, LONG), 5)
    for link, answer in links:
        answer.close()
        link.close()
    (choice,) = late["choices"]
    assert status == 200
    assert choice["finish_reason"] == "abort"
    assert choice["stop_reason"] == "cold request waited too long"
    assert choice["text"] == ""
    # Nothing is stuck: the seats are free again for the next one.
    status, after = server.ask("after", _prompt(301, LONG), 5)
    assert (status, after["choices"][0]["finish_reason"]) == (200, "length")
