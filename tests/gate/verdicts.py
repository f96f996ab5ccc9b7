"""Verdicts made by hand, and text that tries to be more than text."""

from __future__ import annotations

from hypothesis import strategies as st

from kvtools.report.check import Cause, Check, Level, Place, Status, Verdict, VerdictSettings
from kvtools.report.model import Input

HOSTILE = (
    "]]>",
    "<script>alert(1)</script>",
    "<!--",
    "one\ntwo\r\nthree",
    "\x1b[31mred\x1b[0m",
    "\0",
    "\ud800",
    "\udcff",
    "\u202eevil\u2066",
    "\ufffe\uffff",
    "\u2028\u2029\x85",
    "a|b`c`d",
    "@everyone #1 https://example.com www.example.com",
    "::error file=x,line=1::owned",
    "##[error]owned",
    "%0A::set-output name=a::b",
    "[click](https://example.com) {0} {{ now }}",
    "![x](https://example.com/x.png)",
    "&lt;&amp;",
    "</details>",
)
"""XML's own ends, HTML, line ends, terminal codes, halves of characters, turned text, and the commands of pipelines."""

hostile = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(st.characters(codec=None, exclude_categories=()), max_size=40),
    st.lists(st.sampled_from(HOSTILE), min_size=1, max_size=4).map("".join),
)


def check(name: str, status: Status, message: str, *, scope: str | None = None, gates: bool = True) -> Check:
    return Check(
        name=name,
        title=name.replace("-", " "),
        scope=scope,
        status=status,
        measured=0.283,
        limit=0.6,
        unit="share",
        baseline=None,
        message=message,
        limit_from="--" + name,
        gates=gates,
    )


def cause(
    message: str,
    path: str,
    line: int | None,
    level: Level = "error",
    fingerprint: str = "f1",
    rule: str = "field-in-front",
) -> Cause:
    return Cause(
        rule=rule, message=message, place=Place(path=path, line=line), level=level, fingerprint=fingerprint
    )


def verdict(*parts: Check | Cause, inputs: tuple[str, ...] = ("logs/shop.jsonl",)) -> Verdict:
    checks = tuple(part for part in parts if isinstance(part, Check))
    return Verdict(
        schema_version=1,
        kvtools_version="0.1.0",
        inputs=tuple(Input(path=path, sha256="0" * 64, requests=40) for path in inputs),
        settings=VerdictSettings(
            tokenizer="bytes",
            chat_template="plain",
            order="log",
            measure_from=0.0,
            cache_model="full attention",
            block_size=16,
            capacity_blocks=None,
            rules="vllm",
            outputs="one",
        ),
        checks=checks,
        causes=tuple(part for part in parts if isinstance(part, Cause)),
        passed=not any(one.gates and one.status == "fail" for one in checks),
    )


FAILED = verdict(
    check("max-drop", "fail", "hit rate 28.3 %, baseline 61.0 % (dropped 32.7 points, limit 2)"),
    check("min-stable-prefix", "pass", "shop: stable prefix 81 tokens (limit 64)", scope="shop"),
    check("min-jaccard", "n/a", "Jaccard not known"),
    check("a-hit-rate-healthy", "fail", "hit rate 28.3 % (at least 60 % is healthy)", gates=False),
    check("a-warm-up", "n/a", "warm-up not known", gates=False),
    cause("order id stands behind", "templates/shop.j2", 3, "warning", "f2"),
    cause("{{ now }} stands in front of 81 stable tokens", "templates/shop.j2", 1),
)
PASSED = verdict(
    check("min-hit-rate", "pass", "hit rate 70.0 % (limit 60)"), cause("time in front", "logs/shop.jsonl", 7)
)


def attacked(text: str, path: str) -> Verdict:
    """Return a failed verdict with the text in every place that may come from a log, a template or a file name."""
    return verdict(
        check("max-drop", "fail", text, scope=text),
        check("min-hit-rate", "pass", text, scope=text),
        check("min-jaccard", "n/a", text, scope=text),
        check("a-stable-text-first", "fail", text, gates=False),
        cause(text, path, 3, rule=text),
        cause(text, path, None, "note", "f2"),
        inputs=(path,),
    )
