"""The adapter: a case of ``shared/cases`` as a token log that kvtools reads. The conventions stand in its README."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kvtools.blocks import MediaSpans, block_keys
from kvtools.cache import Interner, Prompts, Simulation, Workload, simulate, study_cache
from kvtools.model import Arrivals, CacheSpec, SchedulerSpec
from kvtools.table import Ragged, digest64, namespace_of, offsets_of


@dataclass(frozen=True)
class Case:
    config: dict[str, Any]
    requests: list[dict[str, Any]]
    expected: dict[str, Any]

    @classmethod
    def load(cls, cases: Path, number: str) -> Case:
        (folder,) = cases.glob(f"{number}-*")
        lines = (folder / "input.jsonl").read_bytes().strip().split(b"\n")
        given = folder / "config.json"
        config = json.loads(given.read_text()) if given.exists() else {}
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

    def token_log(self, path: Path) -> Path:
        """Write the case as a token log."""
        lines = []
        for request, prompt in zip(self.requests, self.prompts(), strict=True):
            line = {"id": request["id"], "ts": request["ts"], "prompt_token_ids": prompt}
            line["session_id"] = request.get("session")
            line["prompt_logprobs"] = request.get("prompt_logprobs")
            lines.append(json.dumps(line))
        path.write_text("\n".join(lines))
        return path

    def simulate(
        self, blocks: int | None, output_tokens: list[int], arrivals: Arrivals, **rules: Any
    ) -> Simulation:
        """Run the case through the scheduler simulator, block 16; ``rules`` are further fields of the cache."""
        lengths, keys = self._keys(16)
        count = len(lengths)
        prompts = Interner().intern(keys.values).tolist()
        rows, fresh = [], max(prompts, default=0) + 1
        for index in range(count):
            row = prompts[keys.offsets[index] : keys.offsets[index + 1]]
            own = (lengths[index] + output_tokens[index] - 1) // 16 - len(row)
            rows.append(row + list(range(fresh, fresh + own)))
            fresh += own
        zeros = np.zeros(count, dtype=np.int64)
        work = Workload(
            lengths,
            np.array(output_tokens),
            np.array([block for row in rows for block in row], dtype=np.int64),
            offsets_of(np.array([len(row) for row in rows])),
            zeros,
            zeros,
            zeros.astype(np.bool_),
        )
        return simulate(work, CacheSpec(16, blocks, **rules), SchedulerSpec(arrivals=arrivals))

    def hits(self, block_size: int | None = None, blocks: int | None = None) -> list[int]:
        """Hit tokens of each request, one after another, in a cache of ``blocks`` usable blocks."""
        size = block_size or self.config.get("block_size", 16)
        lengths, keys = self._keys(size)
        skips = np.array([request.get("prompt_logprobs") is not None for request in self.requests])
        ids = Interner().intern(keys.values)
        study = study_cache(Prompts(lengths, ids, keys.offsets, skips), CacheSpec(size, blocks))
        return study.result.hit_tokens.tolist()

    def _keys(self, block_size: int) -> tuple[np.ndarray, Ragged]:
        prompts = self.prompts()
        lengths = np.array([len(prompt) for prompt in prompts], dtype=np.int64)
        tokens = Ragged(np.array([t for p in prompts for t in p], dtype=np.int32), offsets_of(lengths))
        names = [namespace_of(None, None, request.get("cache_salt")) for request in self.requests]
        return lengths, block_keys(tokens, names, block_size, media=self._media())

    def _media(self) -> MediaSpans | None:
        found = [
            (row, medium["offset"], medium["length"], digest64(medium["hash"]))
            for row, request in enumerate(self.requests)
            for medium in request.get("mm", [])
        ]
        if not found:
            return None
        *places, digests = zip(*found, strict=True)
        return MediaSpans(*map(np.array, places), np.array(digests, dtype=np.uint64))
