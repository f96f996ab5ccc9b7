"""How figures stand on a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import RenderableType

_LABEL_CHARS = 15


def labelled(label: str, text: str) -> RenderableType:
    """Return a line with its label in front; what does not fit goes on under the text."""
    grid = Table.grid(padding=0)
    grid.add_column(width=_LABEL_CHARS)
    grid.add_column()
    grid.add_row(Text(label), Text(text))
    return grid


def left(text: str, cells: int) -> str:
    """Return ``text`` with blanks behind it, ``cells`` wide on a terminal: a Chinese character takes two."""
    return text + " " * (cells - cell_len(text))


def right(text: str, cells: int) -> str:
    """Return ``text`` with blanks in front of it, ``cells`` wide on a terminal."""
    return " " * (cells - cell_len(text)) + text
