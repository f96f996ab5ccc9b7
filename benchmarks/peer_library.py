"""What a user of drain3 or datasketch would run over a log of prompts; needs nothing but that library.

PYTHON benchmarks/peer_library.py drain3|datasketch PROMPTS.jsonl
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SHINGLE_WORDS = 5
PERMUTATIONS = 64


def prompts(path: str) -> Iterator[str]:
    with open(path, encoding="utf-8") as file:  # noqa: PTH123 - a script for any Python
        for line in file:
            yield json.loads(line)["prompt"]


def mined(path: str) -> int:
    """Cluster prompts into templates; return how many."""
    from drain3 import TemplateMiner  # noqa: PLC0415 - each library lives in an environment of its own

    miner = TemplateMiner()
    for prompt in prompts(path):
        miner.add_log_message(prompt.replace("\n", " "))
    return len(miner.drain.clusters)


def hashed(path: str) -> int:
    """Sketch the 5-word shingles of each prompt and look for its near neighbours; return how many were found."""
    from datasketch import MinHash, MinHashLSH  # noqa: PLC0415 - the same

    index, found = MinHashLSH(threshold=0.5, num_perm=PERMUTATIONS), 0
    for number, prompt in enumerate(prompts(path)):
        words = prompt.split()
        sketch = MinHash(num_perm=PERMUTATIONS)
        sketch.update_batch(
            [
                " ".join(words[at : at + SHINGLE_WORDS]).encode()
                for at in range(len(words) - SHINGLE_WORDS + 1)
            ]
        )
        found += bool(index.query(sketch))
        index.insert(str(number), sketch)
    return found


if __name__ == "__main__":
    print({"drain3": mined, "datasketch": hashed}[sys.argv[1]](sys.argv[2]))
