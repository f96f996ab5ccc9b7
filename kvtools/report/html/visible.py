"""Text from a log, made fit for a page: nothing invisible, nothing that turns the text around it, not too long."""

from __future__ import annotations

import html
import unicodedata

LONGEST_CHARS = 80
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})
"""Unicode categories that show nothing, or steer what does: controls, marks of direction, lone surrogates."""


def visible(text: str, longest: int = LONGEST_CHARS) -> str:
    """Return ``text`` on one line, each hidden character as U+FFFD, cut to ``longest`` characters with an ellipsis."""
    # Cut first: a value of a megabyte is not looked at whole. White space may only make it shorter.
    words = " ".join(text[: 4 * longest].split())
    shown = "".join("\ufffd" if unicodedata.category(char) in _HIDDEN else char for char in words)
    return shown if len(shown) <= longest and len(text) <= 4 * longest else shown[: longest - 1] + "…"


def plot_label(text: str, longest: int = 40) -> str:
    """Return ``text`` as a label that plotly takes literally: it reads labels as a small subset of HTML."""
    return html.escape(visible(text, longest))
