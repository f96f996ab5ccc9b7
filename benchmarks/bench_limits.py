"""What no tool that reads a log can undercut: reading and parsing alone, copying memory, the tokenizer alone.

    python benchmarks/bench_limits.py LOG          (prints JSON: CPU seconds by name)

Each is the best of three. "parse" decodes the JSON of every line into the typed record that the reader takes; "read"
is the file alone, from the system's cache.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from kvtools.chat import DEFAULT_TEMPLATE, load
from kvtools.readers.chat_jsonl import READER
from kvtools.tokens import CheckedTokenizer, load_tokenizer

if TYPE_CHECKING:
    from collections.abc import Callable

RUNS = 3
CHUNK_BYTES = 8 << 20


def best(function: Callable[[], object]) -> float:
    """Return the CPU seconds of the quickest of a few calls."""
    spent = []
    for _ in range(RUNS):
        begun = time.process_time()
        function()
        spent.append(time.process_time() - begun)
    return min(spent)


def copied(log: Path) -> float:
    data = np.fromfile(log, dtype=np.uint8)
    target = np.empty_like(data)
    np.copyto(target, data)  # its pages are there from now on
    return best(lambda: np.copyto(target, data))


def read_only(log: Path) -> None:
    with log.open("rb", buffering=0) as file:
        while file.read(CHUNK_BYTES):
            pass


def parsed(log: Path) -> int:
    decoder, lines = msgspec.json.Decoder(READER.record), 0
    with log.open("rb") as file:
        while block := b"".join(file.readlines(CHUNK_BYTES)):
            lines += len(decoder.decode_lines(block))
    return lines


def main() -> None:
    log = Path(sys.argv[1])
    spent = {
        "copy the log in memory": copied(log),
        "read the file": best(lambda: read_only(log)),
        "read and parse": best(lambda: parsed(log)),
    }
    template, tokenizer = load(DEFAULT_TEMPLATE), load_tokenizer()
    assert isinstance(tokenizer, CheckedTokenizer)
    with log.open("rb") as file:
        texts = [template.render(json.loads(line)["messages"]) for line in file]
    fast = tokenizer._fast  # noqa: SLF001 - without its check
    spent["fast tokenizer alone"] = best(lambda: fast.encode_batch(texts))
    few = texts[:: max(1, len(texts) // 200)]
    share = len(texts) / len(few)
    spent["reference tokenizer alone"] = share * best(lambda: tokenizer.reference.encode(few))
    print(json.dumps(spent))


if __name__ == "__main__":
    main()
