"""Each stage between the bytes of a log and its report: CPU seconds and memory, in one process.

    python benchmarks/bench_stages.py LOG          (prints JSON)

The stages are those of ``analyze``, called one after the other for each chunk, as the fold calls them. Memory is the
resident set at the end of a stage, the largest over all chunks. Numba's machine code is loaded before the clock starts.
"""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from measure import resident_mb

from kvtools.blocks import block_keys
from kvtools.cache import Interner, Prompts, study_cache
from kvtools.chat import DEFAULT_TEMPLATE, load
from kvtools.model import CacheSpec
from kvtools.profile import LogProfile, prefix_similarity
from kvtools.profile.keying import Keyed
from kvtools.profile.state import map_chunk
from kvtools.readers import ReadOptions, find_inputs, read
from kvtools.readers.duplicates import Deduplicator
from kvtools.report.build import curve_sizes
from kvtools.similarity.consecutive import ConsecutiveText, Group
from kvtools.similarity.seen import SeenText
from kvtools.similarity.shingles import distinct_shingles
from kvtools.table import Ragged, text_column
from kvtools.tokens import CheckedTokenizer, load_tokenizer

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

    from kvtools.chat import ChatTemplate
    from kvtools.readers import Chunk

BLOCK_TOKENS = 16
WARM_BYTES = 400_000


@dataclass
class Clock:
    """CPU seconds and largest resident set of each stage."""

    cpu_s: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    mb: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count what happens inside for the stage ``name``."""
        begun = time.process_time()
        yield
        self.cpu_s[name] += time.process_time() - begun
        self.mb[name] = max(self.mb[name], resident_mb())


@dataclass
class Line:
    """The way of one log: what has been gathered of it."""

    clock: Clock
    template: ChatTemplate
    tokenizer: CheckedTokenizer
    profile: LogProfile = field(default_factory=LogProfile)
    seen: SeenText = field(default_factory=SeenText)
    text: ConsecutiveText = field(default_factory=ConsecutiveText)
    once: Deduplicator = field(default_factory=Deduplicator)

    def run(self, log: str) -> dict[str, Any]:
        """Take a log through all stages and return requests, tokens and the clock."""
        chunks = read(find_inputs([log]), ReadOptions(), [])
        while True:
            with self.clock.stage("read and parse"):
                chunk = next(chunks, None)
            if chunk is None:
                break
            self.take(chunk)
        return self.finished()

    def take(self, chunk: Chunk) -> None:
        """Map one chunk."""
        with self.clock.stage("drop repeated calls"):
            chunk, dropped = self.once.first_time(chunk)
        table = chunk.requests
        with self.clock.stage("render"):
            texts = [
                self.template.render(msgspec.json.decode(row or "[]"))
                for row in text_column(table, "messages")
            ]
        with self.clock.stage("check against the reference tokenizer"):
            self.tokenizer._check(texts)  # noqa: SLF001 - the two halves of encode(), apart
        with self.clock.stage("tokenize"):
            tokens = self.tokenizer._encode_fast(texts)  # noqa: SLF001
        with self.clock.stage("keys"):
            keys = block_keys(tokens, text_column(table, "namespace"), BLOCK_TOKENS)
        rows = np.arange(len(table))
        keyed = Keyed(rows, tokens.lengths(), keys, None)
        with self.clock.stage("counts and columns"):
            part = map_chunk(chunk, keyed, dropped)
            self.profile.merge(part)
        self.compare(table, tokens, part)

    def compare(self, table: pd.DataFrame, tokens: Ragged, part: LogProfile) -> None:
        """Compare texts: Jaccard of consecutive requests, first sights, the sample of the variable share."""
        columns = part.columns[0]
        with self.clock.stage("Jaccard of text"):
            sets = distinct_shingles(tokens)
            self.text.add(sets, [Group(None, name) for name in columns.namespace.tolist()])
            pairs = zip(columns.route.tolist(), columns.namespace.tolist(), strict=True)
            self.text.add(sets, [Group(*pair) for pair in pairs])
            self.text.settle()
        with self.clock.stage("first sights"):
            seen = SeenText(level=self.seen.level)
            seen.add(tokens, columns.namespace, columns.arrival_us)
            self.seen.merge(seen)
        with self.clock.stage("variable share"):
            hashes = np.arange(len(table), dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
            self.profile.sample.add(tokens, columns.route.tolist(), hashes)

    def finished(self) -> dict[str, Any]:
        """Do what comes after the last chunk."""
        requests = self.profile.requests()
        with self.clock.stage("dense ids"):
            ids = Interner().intern(requests.keys.values)
        with self.clock.stage("hits and curve"):
            prompts = Prompts(requests.prompt_tokens, ids, requests.keys.offsets, requests.skip_lookup)
            study = study_cache(prompts, CacheSpec(BLOCK_TOKENS, None, "vllm", "one"), 0.0)
            curve = [study.curve.at(size) for size in curve_sizes(study.curve.unique_blocks)]
        with self.clock.stage("Jaccard of prefixes"):
            prefix_similarity(requests, ids)
        with self.clock.stage("variable share"):
            self.profile.sample.variable_tokens()
        tokens = int(requests.prompt_tokens.sum())
        return {
            "requests": len(requests.prompt_tokens),
            "tokens": tokens,
            "hit_tokens": int(study.result.hit_tokens.sum()),
            "sizes": len(curve),
            "cpu_s": dict(self.clock.cpu_s),
            "mb": dict(self.clock.mb),
        }


def main() -> None:
    tokenizer = load_tokenizer()
    assert isinstance(tokenizer, CheckedTokenizer)
    template = load(DEFAULT_TEMPLATE)
    log = sys.argv[1]
    warm = Path(log).with_suffix(".warm.jsonl")
    with Path(log).open("rb") as file:
        warm.write_bytes(b"".join(file.readlines(WARM_BYTES)))
    Line(Clock(), template, tokenizer).run(str(warm))
    warm.unlink()
    print(json.dumps(Line(Clock(), template, tokenizer).run(log)))


if __name__ == "__main__":
    main()
