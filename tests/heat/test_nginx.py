"""The exported snippet in a real nginx: what it accepts, and how it tags real requests."""

from __future__ import annotations

import http.client
import json
import random
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kvtools.errors import UsageError
from kvtools.heat.nginx import Gateway, nginx_snippet
from kvtools.heat.rules import (
    ARTICLE_B,
    HEADER,
    OVER_8192_TOKENS,
    Arriving,
    Condition,
    HeatRules,
    Rule,
    RuleSet,
)

NGINX = shutil.which("nginx")
real = pytest.mark.skipif(
    NGINX is None, reason="nginx is not installed (apt-get install --no-install-recommends nginx-light)"
)

ROUTES = (
    "chat",
    "Chat",
    "report/01",
    'quo"te\\back$slash',
    "a b; }",
    "~^x.*",
    "日本",
    "default",
    "hostnames",
)
X_PRIORITY = {"hot": 5, "cold": 2}

RULES = RuleSet(
    (
        OVER_8192_TOKENS,
        ARTICLE_B,
        *HEADER,
        Rule(
            "model-1", (Condition("route", "in", ROUTES[2:5]), Condition("prompt_tokens", ">", 200)), "cold"
        ),
        Rule("model-2", (Condition("recent_interval_s", "<=", 0.35),), "cold"),
        Rule("model-3", (Condition("route", "in", ("chat", *ROUTES[5:])),), "hot"),
        Rule("model-4", (Condition("priority", ">", -3), Condition("priority", "<=", 12.5)), "hot"),
        Rule("model-5", (Condition("route", "not_in", ("Chat",)), Condition("priority", "<=", -7)), "hot"),
    ),
    "cold",
)
EVERYTHING = Gateway(route_header="X-Route", tokens_header="X-Prompt-Tokens")


def reachable(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Echo(BaseHTTPRequestHandler):
    """Answers with the headers it got."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = json.dumps(dict(self.headers.items())).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keep silent."""


@dataclass
class Front:
    """A running nginx."""

    port: int

    def tags(self, headers: dict[str, str], path: str = "/v1/chat/completions") -> dict[str, str]:
        """Return the headers that the upstream got for a request with ``headers``."""
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        line.putrequest("POST", path)
        for name, value in {**headers, "Content-Length": "2"}.items():
            line.putheader(name, value.encode())
        line.endheaders(b"{}")
        answer = line.getresponse()
        seen: dict[str, str] = json.loads(answer.read())
        line.close()
        return {name.lower(): value for name, value in seen.items()}


def configured(folder: Path, snippet: str, port: int, upstream: int, location: str = "") -> list[str]:
    """Write a configuration of its own around the snippet and return the command that runs nginx with it."""
    assert NGINX
    (folder / "rules.conf").write_text(snippet, encoding="utf-8")
    temporary = "".join(
        f"{kind}_temp_path {folder / kind};\n"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"pid {folder / 'nginx.pid'};\ndaemon off;\nmaster_process off;\nerror_log {folder / 'error.log'} warn;\n"
        f"events {{}}\nhttp {{\naccess_log off;\n{temporary}include rules.conf;\n"
        f"server {{ listen 127.0.0.1:{port}; location / {{ {location} proxy_pass http://127.0.0.1:{upstream}; }} }}\n}}\n"
    )
    return [NGINX, "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", str(folder / "error.log")]


@contextmanager
def front(folder: Path, snippet: str, location: str = "") -> Iterator[Front]:
    """Run nginx with the snippet before an upstream that echoes, until the block ends."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Echo) as upstream:
        threading.Thread(target=upstream.serve_forever, args=(0.02,), daemon=True).start()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = configured(folder, snippet, port, upstream.server_port, location)
        checked = subprocess.run([*command, "-t"], capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stderr
        assert "warn" not in checked.stderr
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 20
            while not reachable(port):
                assert process.poll() is None, (folder / "error.log").read_text()
                assert time.monotonic() < deadline, "nginx does not answer"
                time.sleep(0.02)
            yield Front(port)
        finally:
            process.terminate()
            process.wait(timeout=20)
            upstream.shutdown()


def drawn(rng: random.Random) -> dict[str, object]:
    """Return a request that may say anything of itself, and often something near a bound."""
    request: dict[str, object] = {
        "route": rng.choice((*ROUTES, "elsewhere", None)),
        "prompt_tokens": rng.choice((0, 9, 200, 201, 999, 1000, 1001, 8192, 8193, 10_000, None)),
        "request_type": rng.choice(("hot", "cold", "Hot", "batch", None, None, None)),
        "priority": rng.choice((-100, -8, -7, -6, -3, -2, -1, 0, 5, 12, 13, 100, None)),
    }
    return {name: value for name, value in request.items() if value is not None}


def sent(request: dict[str, object]) -> dict[str, str]:
    """Return the headers that carry a request's features."""
    names = {
        "route": "X-Route",
        "prompt_tokens": "X-Prompt-Tokens",
        "request_type": "X-Request-Type",
        "priority": "X-Vllm-Priority",
    }
    return {names[feature]: str(value) for feature, value in request.items()}


@real
def test_nginx_tags_real_requests_as_the_rules_do(tmp_path: Path) -> None:
    snippet = nginx_snippet(RULES, EVERYTHING)
    assert [(one.place, one.rule.name) for one in snippet.left_out] == [(6, "model-2")]
    rng, rules, seen = random.Random(1), HeatRules(RULES), set()
    with front(tmp_path, snippet.text) as nginx:
        for _ in range(150):
            request = drawn(rng)
            tags = nginx.tags(sent(request))
            # No recent interval is known here, so that the rule that nginx leaves out fits no request.
            rule, label = rules.fitted(request), rules.label(request)
            priority = 1 if rule is not None and rule.disk_cache else X_PRIORITY[label]
            assert tags["x-request-type"] == label, request
            assert tags["x-priority"] == str(priority), request
            assert tags["x-vllm-priority"] == str(5 - priority), request
            seen.add(RULES.rules.index(rule) if rule else None)
    assert seen == {0, 1, 2, 3, 4, 6, 7, 8, None}


@real
def test_without_headers_of_its_own_nginx_knows_what_the_sender_says(tmp_path: Path) -> None:
    snippet = nginx_snippet(RULES, Gateway())
    assert [one.place for one in snippet.left_out] == [1, 2, 5, 6, 7, 9]
    with front(tmp_path, snippet.text) as nginx:
        assert nginx.tags({"X-Request-Type": "hot"})["x-request-type"] == "hot"
        assert nginx.tags({"X-Request-Type": "cold"})["x-priority"] == "2"
        # A long prompt is not known to be one: nginx sees bytes, not tokens.
        assert nginx.tags({"X-Prompt-Tokens": "9000", "X-Request-Type": "hot"})["x-request-type"] == "hot"
        assert nginx.tags({})["x-request-type"] == "cold"


@real
def test_the_path_may_be_the_route(tmp_path: Path) -> None:
    rules = RuleSet((Rule("model-1", (Condition("route", "in", ("/v1/chat/completions",)),), "hot"),), "cold")
    with front(tmp_path, nginx_snippet(rules, Gateway(route_is_path=True)).text) as nginx:
        assert nginx.tags({}, "/v1/chat/completions?stream=1")["x-request-type"] == "hot"
        assert nginx.tags({}, "/v1/chat/Completions")["x-request-type"] == "cold"
        assert nginx.tags({}, "/v1/chat/completions%0A")["x-request-type"] == "cold"


@real
def test_a_location_with_headers_of_its_own_repeats_the_three_lines(tmp_path: Path) -> None:
    text = nginx_snippet(RuleSet((), "cold"), Gateway()).text
    lines = [line for line in text.splitlines() if line.startswith("proxy_set_header")]
    assert len(lines) == 3
    with front(tmp_path, text, "proxy_set_header X-Own 1; " + " ".join(lines)) as nginx:
        tags = nginx.tags({"X-Request-Type": "hot"})
    assert (tags["x-own"], tags["x-request-type"], tags["x-priority"], tags["x-vllm-priority"]) == (
        "1",
        "cold",
        "2",
        "3",
    )


@real
def test_rules_of_thousands_of_routes_are_taken(tmp_path: Path) -> None:
    routes = tuple(f"tenant-{number:05d}/{'x' * 40}" for number in range(3000))
    rules = RuleSet((Rule("model-1", (Condition("route", "in", routes),), "hot"), *HEADER), "cold")
    with front(tmp_path, nginx_snippet(rules, EVERYTHING).text) as nginx:
        assert nginx.tags({"X-Route": routes[-1]})["x-request-type"] == "hot"
        assert nginx.tags({"X-Route": routes[-1][:-1]})["x-request-type"] == "cold"


@real
@pytest.mark.parametrize("bound", [0, 9, 10, 409, 8192, -1, -10, -409, 7.5, -7.5])
def test_bounds_are_kept_to_the_unit(tmp_path: Path, bound: float) -> None:
    """Every number near the bound, and near powers of ten, is on the side where arithmetic has it."""
    near = {round(bound) + step for step in (-2, -1, 0, 1, 2)} | {
        0,
        1,
        -1,
        9,
        10,
        11,
        99,
        100,
        1000,
        -9,
        -10,
        -1000,
    }
    above = RuleSet((Rule("a", (Condition("priority", ">", bound),), "hot"),), "cold")
    below = RuleSet((Rule("b", (Condition("priority", "<=", bound),), "hot"),), "cold")
    for number, rules in enumerate((above, below)):
        folder = tmp_path / str(number)
        folder.mkdir()
        with front(folder, nginx_snippet(rules, Gateway()).text) as nginx:
            for value in near:
                expected = (value > bound) is (rules is above)
                for text in (str(value), f"{value:06d}"):
                    tagged = nginx.tags({"X-Vllm-Priority": text})["x-request-type"]
                    assert tagged == ("hot" if expected else "cold"), text
            for text in ("", "seven", "1e3", "7.0", "--1"):
                assert nginx.tags({"X-Vllm-Priority": text})["x-request-type"] == "cold", text


def test_what_nginx_cannot_express_is_named_in_the_snippet() -> None:
    snippet = nginx_snippet(RULES, Gateway())
    comment = [line for line in snippet.text.splitlines() if line.startswith("#   rule ")]
    assert comment[0] == (
        "#   rule 1 over-8192-tokens (cold if prompt_tokens > 8192 (disk cache)): nginx sees bytes, not tokens "
        "(--tokens-header NAME, if a header carries their number)"
    )
    assert comment[3].endswith(": nginx keeps no history of a route's arrivals")
    assert snippet.rules == RuleSet((*HEADER, RULES.rules[7]), "cold")


def test_a_name_that_would_leave_its_line_is_left_out() -> None:
    rule = Rule("model-1", (Condition("route", "in", ("x\n} evil",)),), "hot")
    snippet = nginx_snippet(RuleSet((rule,), "cold"), EVERYTHING)
    assert len(snippet.left_out) == 1
    assert "\n} evil" not in snippet.text
    with pytest.raises(UsageError, match="no header that nginx can read"):
        Gateway(route_header="X; evil")


def test_the_labels_of_the_snippet_are_those_of_the_rules_it_follows() -> None:
    """``Snippet.rules`` is the rule set without those left out: what the first test compares nginx with."""
    snippet = nginx_snippet(RULES, EVERYTHING)
    assert snippet.rules.label(Arriving(recent_interval_s=0.1)) == "cold"
    assert snippet.rules.fitted(Arriving(recent_interval_s=0.1)) is None
