"""Write the table of vLLM's flags that kvtools ships: run it where that vLLM is installed (``make flags``).

The table is dated; where nothing but the date would change, the file stays as it is.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from kvtools.plan.flags import committed_table
from kvtools.plan.flags_installed import ask_installed

FOLDER = Path(__file__).resolve().parents[1] / "kvtools/plan"


@dataclass(frozen=True)
class Written:
    """Where the table stands, and whether it is new."""

    path: Path
    new: bool


def write_table(folder: Path = FOLDER) -> Written:
    """Ask the installed vLLM and write ``flags-<version>.json``; tables of other versions are removed."""
    table = ask_installed().table
    path = folder / f"flags-{table.vllm}.json"
    today = datetime.now(UTC).date().isoformat()
    if path.exists() and msgspec.structs.replace(committed_table(), made="") == table:
        return Written(path, new=False)
    dated = msgspec.to_builtins(msgspec.structs.replace(table, made=today))
    # What says nothing beyond the default is left out, and each flag has a line: a new version reads as a diff.
    flags = [
        {name: value for name, value in flag.items() if value not in (None, False)}
        for flag in dated.pop("flags")
    ]
    lines = ",\n".join(f"  {msgspec.json.encode(flag).decode()}" for flag in flags)
    head = ",\n".join(
        f" {msgspec.json.encode(name).decode()}: {msgspec.json.encode(value).decode()}"
        for name, value in dated.items()
    )
    for old in folder.glob("flags-*.json"):
        old.unlink()
    path.write_text(f'{{\n{head},\n "flags": [\n{lines}\n ]\n}}\n')
    return Written(path, new=True)


if __name__ == "__main__":
    written = write_table()
    print(f"{written.path.name}: {'written' if written.new else 'unchanged'}", file=sys.stderr)
