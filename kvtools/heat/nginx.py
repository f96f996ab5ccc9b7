"""Rules as an nginx snippet: nested ``map`` blocks, no module beyond nginx's own, that tag a request by its headers.

nginx sees the path, headers and the number of bytes of a request; it counts no tokens and remembers no arrivals.
A rule with a test that it cannot make is left out whole and named: half a rule would tag other requests.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvtools.errors import UsageError
from kvtools.heat.priority import COLD, COLD_ON_DISK, HOT, vllm_priority, x_priority
from kvtools.heat.rules import RuleSet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvtools.heat.rules import Condition, Rule

_HEADER = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,99}")
_LONGEST_NAME = 1000  # bytes; nginx takes no parameter above 4096, and quoting may double a name twice
_END = r"\z"  # not $, which a line feed may follow
_LONGEST_COMMENT = 600
_NEVER = {
    "recent_interval_s": "nginx keeps no history of a route's arrivals",
    "recent_interval_cv": "nginx keeps no history of a route's arrivals",
    "known_prefix_share": "nginx does not know which prompts came before",
    "turn": "nginx does not count the turns of a conversation",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """Where a request shows its features: ``route_header`` and ``tokens_header`` name headers, if there are such.

    Without ``route_header`` the route is the path of the request where ``route_is_path``, and else not seen.

    Raises:
        UsageError: a header's name has other characters than letters, digits and hyphens.
    """

    route_header: str | None = None
    route_is_path: bool = False
    tokens_header: str | None = None

    def __post_init__(self) -> None:
        for name in (self.route_header, self.tokens_header):
            if name is not None and not _HEADER.fullmatch(name):
                raise UsageError(
                    f"{name!r} is no header that nginx can read: give letters, digits and hyphens."
                )

    def variable(self, feature: str) -> str | None:
        """Return nginx's variable of a feature, ``None`` where it has none."""
        if feature == "route" and self.route_header is None:
            return "$uri" if self.route_is_path else None
        header = {
            "route": self.route_header,
            "prompt_tokens": self.tokens_header,
            "request_type": "X-Request-Type",
            "priority": "X-Vllm-Priority",
        }.get(feature)
        return None if header is None else "$http_" + header.lower().replace("-", "_")

    def obstacle(self, condition: Condition) -> str | None:
        """Return why nginx cannot make a test, ``None`` where it can."""
        if condition.feature in _NEVER:
            return _NEVER[condition.feature]
        if self.variable(condition.feature) is None:
            if condition.feature == "route":
                return "nginx is not told where the route stands (--route-header NAME, or --route-path)"
            return "nginx sees bytes, not tokens (--tokens-header NAME, if a header carries their number)"
        if isinstance(condition.value, tuple):
            for name in condition.value:
                if not name.isprintable() or len(name.encode("utf-8", "replace")) > _LONGEST_NAME:
                    return "a name in it has characters or a length that nginx does not take"
        return None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A rule that nginx cannot express: its place in the rule set (1 is the first), the rule, and why."""

    place: int
    rule: Rule
    reason: str

    def __str__(self) -> str:
        return f"rule {self.place} {self.rule.name} ({self.rule}): {self.reason}"


@dataclass(frozen=True, slots=True)
class Snippet:
    """``text`` for nginx's ``http`` block; ``rules``: those it follows, in their order; ``left_out``: the others."""

    text: str
    rules: RuleSet
    left_out: tuple[LeftOut, ...]


def nginx_snippet(rules: RuleSet, gateway: Gateway) -> Snippet:
    """Return the snippet. It labels as ``Snippet.rules`` do: as if the rules that are left out never fitted."""
    kept: list[Rule] = []
    left_out: list[LeftOut] = []
    for place, rule in enumerate(rules.rules, 1):
        reasons = dict.fromkeys(why for condition in rule.when if (why := gateway.obstacle(condition)))
        if reasons:
            left_out.append(LeftOut(place, rule, "; ".join(reasons)))
        else:
            kept.append(rule)
    followed = RuleSet(tuple(kept), rules.default)
    blocks = [_HEAD, *_left_out_comment(left_out), *_tests_and_rules(followed, gateway), *_results(followed)]
    return Snippet("\n".join([*blocks, _HEADERS]), followed, tuple(left_out))


_HEAD = """\
# Written by kvtools rules. Include it in the http block of nginx.conf:
#     include kvtools/nginx.conf;
# A request is tagged by the first rule that fits. What the client says of itself in X-Request-Type is one of them:
# in front of clients that are not trusted, write "" for "$http_x_request_type" below.
"""

_HEADERS = """\
# A server or location that has a proxy_set_header of its own inherits none from here: repeat these three there.
proxy_set_header X-Request-Type $kvtools_class;
proxy_set_header X-Priority $kvtools_priority;
proxy_set_header X-Vllm-Priority $kvtools_vllm_priority;
"""


def _left_out_comment(left_out: Sequence[LeftOut]) -> list[str]:
    if not left_out:
        return []
    return ["# Not expressible in nginx, and left out:\n" + "".join(_comment(f"  {one}") for one in left_out)]


def _comment(text: str) -> str:
    # nginx takes no line of a comment above 4096 bytes, and a rule may list thousands of routes.
    return f"# {text if len(text) <= _LONGEST_COMMENT else text[:_LONGEST_COMMENT] + '…'}\n"


def _tests_and_rules(rules: RuleSet, gateway: Gateway) -> list[str]:
    """Return a map per test that is made (1 where it holds) and one per rule (1 where all its tests hold)."""
    blocks: list[str] = []
    variables: dict[Condition, str] = {}
    for place, rule in enumerate(rules.rules, 1):
        for condition in rule.when:
            if condition not in variables:
                variables[condition] = f"$kvtools_test_{len(variables) + 1}"
                source, lines = gateway.variable(condition.feature), _test_lines(condition)
                blocks.append(_comment(str(condition)) + _map(f'"{source}"', variables[condition], lines))
        tests = "".join(f"${{{variables[condition][1:]}}}" for condition in rule.when)
        lines = ["default 0", f'"{"1" * len(rule.when)}" 1']
        blocks.append(_comment(f"{rule.name}: {rule}") + _map(f'"{tests}"', f"$kvtools_rule_{place}", lines))
    return blocks


def _results(rules: RuleSet) -> list[str]:
    fits = "".join(f"${{kvtools_rule_{place}}}" for place in range(1, len(rules.rules) + 1))
    classes, priorities = [f"default {rules.default}"], [f"default {x_priority(rules.default)}"]
    for place, rule in enumerate(rules.rules):
        first = f'"~^{"0" * place}1"'
        classes.append(f"{first} {rule.label}")
        priorities.append(f"{first} {x_priority(rule.label, disk_cache=rule.disk_cache)}")
    numbers = [f"{priority} {vllm_priority(priority)}" for priority in (HOT, COLD, COLD_ON_DISK)]
    return [
        _map(f'"{fits}"', "$kvtools_class", classes),
        _map(f'"{fits}"', "$kvtools_priority", priorities),
        "# vLLM serves the smallest number first: 5 - X-Priority.\n"
        + _map("$kvtools_priority", "$kvtools_vllm_priority", numbers),
    ]


def _map(source: str, target: str, lines: Sequence[str]) -> str:
    return f"map {source} {target} {{\n" + "".join(f"    {line};\n" for line in lines) + "}\n"


def _test_lines(condition: Condition) -> list[str]:
    """Return the lines of the map of one test; a header that is missing, or no whole number, is 0 as in ``Condition``.

    Names are compared by case-sensitive patterns: nginx compares plain strings without regard to case.
    """
    if isinstance(condition.value, tuple):
        inside, outside = (1, 0) if condition.op == "in" else (0, 1)
        patterns = [f"{_quoted('~^' + re.escape(name) + _END)} {inside}" for name in condition.value]
        return [f"default {outside}", *([] if inside else ['"" 0']), *patterns]
    above, below = (1, 0) if condition.op == ">" else (0, 1)
    bound = math.floor(condition.value)
    if bound >= 0:
        split = [(_greater(bound), above), ("[0-9]+", below), ("-[0-9]+", below)]
    else:
        split = [("[0-9]+", above), ("-" + _greater(-bound - 1), below), ("-[0-9]+", above)]
    return ["default 0", *(f"{_quoted('~^' + pattern + _END)} {result}" for pattern, result in split)]


def _greater(bound: int) -> str:
    """Return a pattern of the whole numbers above ``bound`` (>= 0): longer, or larger at the first difference."""
    digits = str(bound)
    places = len(digits)
    ways = [f"[1-9][0-9]{{{places},}}"]
    for place, digit in enumerate(digits):
        if digit != "9":
            rest = places - place - 1
            ways.append(f"{digits[:place]}[{int(digit) + 1}-9]" + (f"[0-9]{{{rest}}}" if rest else ""))
    return f"0*(?:{'|'.join(ways)})"


def _quoted(pattern: str) -> str:
    return '"' + pattern.replace("\\", "\\\\").replace('"', '\\"') + '"'
