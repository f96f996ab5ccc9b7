"""A routing policy as an nginx ``upstream`` block, with no module beyond nginx's own.

nginx hashes what a header holds. It counts no tokens and sees no caches: ``prefix-hash`` needs a header that the client
or a gateway sets, and ``prefix-aware`` needs a router that follows the replicas' caches.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kvtools.errors import UsageError
from kvtools.heat.nginx import Gateway
from kvtools.plan.routing import LEAST_LOADED, PREFIX_HASH, ROUND_ROBIN, SESSION_AFFINE

if TYPE_CHECKING:
    from collections.abc import Sequence

NGINX_POLICIES = (ROUND_ROBIN, LEAST_LOADED, SESSION_AFFINE, PREFIX_HASH)
SESSION_HEADER, PREFIX_HEADER = "X-Session-Id", "X-Prefix-Key"

_SERVER = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.-]{0,252}|\[[0-9a-fA-F:]{2,45}\])(:[0-9]{1,5})?")
_SAID = {
    ROUND_ROBIN: ("nginx's own order: each request to the next server",),
    LEAST_LOADED: ("fewest open connections: nginx does not see the tokens that a replica computes",),
    SESSION_AFFINE: (
        "the client sends {header} with every turn of a conversation;",
        "a request without it goes to any server",
    ),
    PREFIX_HASH: (
        "the client or a gateway sends {header}: a hash of the first {tokens} tokens of the prompt (of all",
        "of a shorter one), or of the text that they stand for; a request without it goes to any server",
    ),
}


def checked_servers(servers: Sequence[str]) -> tuple[str, ...]:
    """Return the servers' names.

    Raises:
        UsageError: one is no ``host:port``, or stands there twice.
    """
    for server in servers:
        if not _SERVER.fullmatch(server):
            raise UsageError(f"--servers {server!r}: write host:port, such as 10.0.0.1:8000.")
    if len(set(servers)) < len(servers):
        raise UsageError("--servers: a server stands there twice; name each once.")
    return tuple(servers)


def nginx_upstream(policy: str, servers: Sequence[str], header: str | None, key_tokens: int) -> str:
    """Return the ``map`` and ``upstream`` blocks for nginx's ``http`` block.

    ``header`` carries the session's id or the prefix's key (default: ``X-Session-Id``, ``X-Prefix-Key``);
    ``key_tokens``: of the prefix.

    Raises:
        UsageError: nginx cannot do the policy, or the header's name is none.
    """
    if policy not in NGINX_POLICIES:
        raise UsageError(f"nginx cannot route {policy}: take one of {', '.join(NGINX_POLICIES)}.")
    name = header or (PREFIX_HEADER if policy == PREFIX_HASH else SESSION_HEADER)
    said = [line.format(header=name, tokens=f"{key_tokens:,}") for line in _SAID[policy]]
    lines = [f"# kvtools plan routing: {policy} on {len(servers)} replicas, for nginx's http block."]
    lines += [f"# {line}" for line in said]
    method = {LEAST_LOADED: ["    least_conn;"], ROUND_ROBIN: []}.get(policy)
    if method is None:
        variable = Gateway(route_header=name).variable("route")
        method = ["    hash $kvtools_routing_key consistent;"]
        lines += [
            f"map {variable} $kvtools_routing_key {{",
            '    ""      $request_id;',
            f"    default {variable};",
            "}",
        ]
    lines += ["upstream kvtools_replicas {", *method, *(f"    server {server};" for server in servers), "}"]
    lines += ["# and in a server block: location /v1/ { proxy_pass http://kvtools_replicas; }"]
    return "\n".join(lines) + "\n"
