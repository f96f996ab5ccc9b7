"""The adapter: a case of ``shared/cases`` as a token log that kvtools reads. The conventions stand in its README."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kvtools.blocks import block_keys
from kvtools.cache import Interner, Prompts, study_cache
from kvtools.model import CacheSpec
from kvtools.table import Ragged, namespace_of, offsets_of


@dataclass(frozen=True)
class Case:
    config: dict[str, Any]
    requests: list[dict[str, Any]]
    expected: dict[str, Any]

    @classmethod
    def load(cls, cases: Path, number: str) -> Case:
        (folder,) = cases.glob(f"{number}-*")
        lines = (folder / "input.jsonl").read_bytes().strip().split(b"\n")
        config = json.loads((folder / "config.json").read_text())
        return cls(
            config, [json.loads(line) for line in lines], json.loads((folder / "expected.json").read_text())
        )

    def prompts(self) -> list[list[int]]:
        """Token ids: given, or for ``segments`` n distinct ids per name (a shorter run is a prefix of a longer)."""
        names: dict[str, int] = {}
        prompts = []
        for request in self.requests:
            if "prompt_token_ids" in request:
                prompts.append(request["prompt_token_ids"])
                continue
            tokens: list[int] = []
            for name, length in request["segments"]:
                start = names.setdefault(name, 10_000 * len(names))
                tokens += range(start, start + length)
            prompts.append(tokens)
        return prompts

    def hits(self, block_size: int | None = None, blocks: int | None = None) -> list[int]:
        """Hit tokens of each request, one after another, in a cache of ``blocks`` usable blocks."""
        prompts, size = self.prompts(), block_size or self.config.get("block_size", 16)
        lengths = np.array([len(prompt) for prompt in prompts], dtype=np.int64)
        tokens = Ragged(np.array([t for p in prompts for t in p], dtype=np.int32), offsets_of(lengths))
        names = [namespace_of(None, None, request.get("cache_salt")) for request in self.requests]
        keys = block_keys(tokens, names, size)
        ids = Interner().intern(keys.values)
        study = study_cache(Prompts(lengths, ids, keys.offsets), CacheSpec(size, blocks))
        return study.result.hit_tokens.tolist()
