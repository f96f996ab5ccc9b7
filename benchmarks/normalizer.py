"""Microseconds that ``Normalizer.normalize`` takes for a prompt of 1,000 tokens: median and p99.

    python benchmarks/normalizer.py

A chat of a system prompt with three values (time, user, order) in front of and within its stable text, and a question.
Every request has other values. The target is a median under 100; the time of its checks (taken back, done a second
time) is part of it. ``unfit`` is the same prompt where no template fits. Wall-clock time of one thread: load on the
machine shows in p99 first.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from kvtools import Normalizer
from kvtools.tokens import load_tokenizer

REQUESTS, TOKENS, TARGET_US = 20_000, 1_000, 100
RULE = "You answer questions about orders, shipping, returns and invoices of the shop in plain words.\n"
HEAD = "Current time: {time}\nYou are the assistant of the shop for user {user}.\n"
END = "The question is about order {order}.\nBe brief."


def request(number: int, rules: str) -> list[dict[str, str]]:
    time_of_day = f"2026-07-15T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}Z"
    system = HEAD.format(time=time_of_day, user=f"u_{100_000 + number}") + rules
    system += END.format(order=700_000 + 7 * number)
    return [{"role": "system", "content": system}, {"role": "user", "content": "Where is my parcel?"}]


def rules_of(tokens: int) -> str:
    """Return as many rules as make the prompt's texts ``tokens`` long, to a rule."""
    encode = load_tokenizer().encode
    rules = 0
    while len(encode(["".join(turn["content"] for turn in request(0, RULE * rules))]).values) < tokens:
        rules += 1
    return RULE * rules


def measured(normalizer: Normalizer, requests: list[list[dict[str, str]]], *, fits: bool) -> str:
    spent = []
    for messages in requests:
        begun = time.perf_counter_ns()
        _, values = normalizer.normalize(messages)
        spent.append((time.perf_counter_ns() - begun) / 1000)
        assert bool(values) is fits
    return f"median {statistics.median(spent):.0f} us, p99 {statistics.quantiles(spent, n=100)[98]:.0f} us"


def main() -> None:
    rules = rules_of(TOKENS)
    with tempfile.TemporaryDirectory() as folder:
        names = {name: f"{{{{ {name} }}}}" for name in ("time", "user", "order")}
        Path(folder, "shop.j2").write_text((HEAD + rules + END).format(**names), encoding="utf-8")
        normalizer = Normalizer.load(folder)
    requests = [request(number, rules) for number in range(REQUESTS)]
    length = len("".join(turn["content"] for turn in requests[0]))
    print(
        f"{TOKENS:,} tokens ({length:,} characters), 3 fields, {REQUESTS:,} requests (target: median {TARGET_US})"
    )
    print(f"rewritten: {measured(normalizer, requests, fits=True)}")
    others = [request(number, RULE[:9] + rules) for number in range(REQUESTS)]
    print(f"unfit:     {measured(normalizer, others, fits=False)}")


if __name__ == "__main__":
    main()
