"""What a request shows when it arrives at the API server: the features of the rules, from its headers and body."""

from __future__ import annotations

from collections import OrderedDict, deque
from itertools import pairwise
from math import sqrt
from typing import Any

import msgspec

from kvtools.heat.features import RECENT_ARRIVALS

_MOST_ROUTES = 4096


class Body(msgspec.Struct):
    """The fields of a completion's or chat's body that are looked at; all others are skipped, unread."""

    priority: Any = None
    prompt: Any = None
    messages: Any = None


def read_body(raw: bytes) -> Body | None:
    """Return the body, ``None`` where it is no JSON object: vLLM says so to its client."""
    try:
        return msgspec.json.decode(raw, type=Body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def prompt_tokens(body: Body, bytes_per_token: float) -> int | None:
    """Return the tokens of the longest prompt: exact of token ids, by its bytes of text; ``None`` is not known."""
    prompts = body.prompt if isinstance(body.prompt, list) else [body.prompt]
    if prompts and all(isinstance(token, int) for token in prompts):
        return len(prompts)
    lengths = [len(prompt) for prompt in prompts if isinstance(prompt, list)]
    if not bytes_per_token:
        return max(lengths, default=None)
    sizes = [len(prompt.encode()) for prompt in prompts if isinstance(prompt, str)]
    if isinstance(body.messages, list):
        sizes.append(sum(map(_text_bytes, body.messages)))
    return max((*lengths, *(round(size / bytes_per_token) for size in sizes)), default=None)


def _text_bytes(message: Any) -> int:
    content = message.get("content") if isinstance(message, dict) else None
    parts = content if isinstance(content, list) else [{"text": content}]
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return sum(len(text.encode()) for text in texts if isinstance(text, str))


class Rhythm:
    """The last arrivals of each route; the routes that were not seen for longest are forgotten first."""

    def __init__(self) -> None:
        """Start without any."""
        self._arrivals: OrderedDict[str, deque[float]] = OrderedDict()

    def arrived(self, route: str, now_s: float) -> tuple[float | None, float | None]:
        """Note an arrival; return mean and variation of the gaps, as ``kvtools.heat.features.recent``."""
        times = self._arrivals.setdefault(route, deque(maxlen=RECENT_ARRIVALS))
        self._arrivals.move_to_end(route)
        if len(self._arrivals) > _MOST_ROUTES:
            self._arrivals.popitem(last=False)
        times.append(now_s)
        gaps = [later - earlier for earlier, later in pairwise(times)]
        if not gaps:
            return None, None
        mean = sum(gaps) / len(gaps)
        if len(gaps) == 1:
            return mean, None
        spread = sqrt(max(sum(gap * gap for gap in gaps) / len(gaps) - mean * mean, 0.0))
        return mean, spread / mean if mean else 0.0
