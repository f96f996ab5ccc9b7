"""The routing snippet in a real nginx: what it accepts, and that each key goes where the replay says."""

from __future__ import annotations

import http.client
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest

from kvtools.errors import UsageError
from kvtools.plan.routing import LEAST_LOADED, PREFIX_AWARE, PREFIX_HASH, ROUND_ROBIN, SESSION_AFFINE
from kvtools.plan.routing_nginx import checked_servers, nginx_upstream
from kvtools.plan.routing_ring import Ring, key_hashes

NGINX = shutil.which("nginx")
real = pytest.mark.skipif(
    NGINX is None, reason="nginx is not installed (apt-get install --no-install-recommends nginx-light)"
)


class Who(BaseHTTPRequestHandler):
    """Answers with the port it listens on."""

    def do_GET(self) -> None:
        body = str(self.server.server_address[1]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keep silent."""


@contextmanager
def replicas(count: int) -> Iterator[list[str]]:
    """Run servers that say who they are; yield their names."""
    with ExitStack() as stack:
        names = []
        for _ in range(count):
            server = stack.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), Who))
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
            stack.callback(server.shutdown)
            names.append(f"127.0.0.1:{server.server_port}")
        yield names


def command(folder: Path, snippet: str, port: int) -> list[str]:
    """Write a configuration of its own around the snippet and return the command that runs nginx with it."""
    assert NGINX
    (folder / "upstream.conf").write_text(snippet)
    temporary = "".join(
        f"{kind}_temp_path {folder / kind};\n"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"pid {folder / 'nginx.pid'};\ndaemon off;\nmaster_process off;\nerror_log {folder / 'error.log'} warn;\n"
        f"events {{}}\nhttp {{\naccess_log off;\n{temporary}include upstream.conf;\n"
        f"server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://kvtools_replicas; }} }}\n}}\n"
    )
    return [NGINX, "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", str(folder / "error.log")]


def reachable(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def front(folder: Path, snippet: str) -> Iterator[int]:
    """Run nginx with the snippet until the block ends; yield its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = command(folder, snippet, port)
    checked = subprocess.run([*words, "-t"], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    assert "warn" not in checked.stderr
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 20
        while not reachable(port):
            assert process.poll() is None, (folder / "error.log").read_text()
            assert time.monotonic() < deadline, "nginx does not answer"
            time.sleep(0.02)
        yield port
    finally:
        process.terminate()
        process.wait(timeout=20)


def asked(port: int, headers: dict[str, str]) -> str:
    """Return the name of the replica that answers a request."""
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    line.request("GET", "/v1/models", headers=headers)
    name = f"127.0.0.1:{line.getresponse().read().decode()}"
    line.close()
    return name


@real
@pytest.mark.parametrize("count", [2, 5])
def test_nginx_sends_each_session_where_the_replay_does(tmp_path: Path, count: int) -> None:
    sessions = [f"session-{number}" for number in range(120)]
    with replicas(count) as names:
        predicted = Ring(names).servers_of(np.array([crc32(s.encode()) for s in sessions], dtype=np.uint32))
        assert len(set(predicted.tolist())) == count
        snippet = nginx_upstream(SESSION_AFFINE, names, None, 1)
        with front(tmp_path, snippet) as port:
            for session, server in zip(sessions, predicted.tolist(), strict=True):
                assert asked(port, {"X-Session-Id": session}) == names[server], session


@real
def test_nginx_sends_each_prefix_where_the_replay_does(tmp_path: Path) -> None:
    keys = np.arange(1, 60, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    with replicas(3) as names:
        predicted = Ring(names).servers_of(key_hashes(keys)).tolist()
        with front(tmp_path, nginx_upstream(PREFIX_HASH, names, "X-Head", 128)) as port:
            found = [asked(port, {"X-Head": f"{key:016x}"}) for key in keys.tolist()]
    assert found == [names[server] for server in predicted]


@real
def test_requests_without_a_key_are_spread(tmp_path: Path) -> None:
    """Not all on the server of the empty key, which would be half the ring's worth of load on one replica."""
    with replicas(2) as names, front(tmp_path, nginx_upstream(SESSION_AFFINE, names, None, 1)) as port:
        assert {asked(port, {}) for _ in range(60)} == set(names)


@real
def test_the_policies_without_a_key(tmp_path: Path) -> None:
    with replicas(3) as names:
        with front(tmp_path, nginx_upstream(ROUND_ROBIN, names, None, 1)) as port:
            seen = [asked(port, {}) for _ in range(9)]
        assert seen[:3] * 3 == seen
        assert set(seen) == set(names)
        with front(tmp_path, nginx_upstream(LEAST_LOADED, names, None, 1)) as port:
            assert asked(port, {}) in names


def test_a_server_more_moves_few_keys() -> None:
    """A ring of five gives its fifth server about a fifth of the keys, and moves no other key."""
    hashes = key_hashes(np.arange(20_000, dtype=np.uint64))
    names = [f"vllm-{number}:8000" for number in range(5)]
    four, five = (Ring(names[:count]).servers_of(hashes) for count in (4, 5))
    moved = four != five
    assert (five[moved] == 4).all()
    assert 0.1 < moved.mean() < 0.3


def test_what_nginx_cannot_do_is_refused() -> None:
    with pytest.raises(UsageError, match="nginx cannot route prefix-aware"):
        nginx_upstream(PREFIX_AWARE, ["a:1"], None, 1)
    with pytest.raises(UsageError, match="no header that nginx can read"):
        nginx_upstream(SESSION_AFFINE, ["a:1"], "X; evil", 1)


@pytest.mark.parametrize("name", ["a b:1", "a:1;", "", "a:123456", "http://a:1", "a\n:1"])
def test_names_that_are_no_servers_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="write host:port"):
        checked_servers([name])
    assert checked_servers(["vllm-0.vllm:8000", "[::1]:80", "10.0.0.1"]) == (
        "vllm-0.vllm:8000",
        "[::1]:80",
        "10.0.0.1",
    )
