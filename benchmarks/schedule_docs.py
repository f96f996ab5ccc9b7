"""docs/plan-schedule.md: the sweep and the four scenarios of the project's mixed traffic.

    make docs-schedule

The traffic is ``kvtools sample mixed-traffic`` (20,000 requests, one seed); the command is the one that the page shows.
What stands between the two marks is written anew, nothing else.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs/plan-schedule.md"
KVTOOLS = [sys.executable, "-m", "kvtools"]
COMMAND = re.compile(r"^kvtools plan schedule mixed\.csv (?:.*\\\n)*.*$", re.MULTILINE)


def between(page: str, mark: str, text: str) -> str:
    """Return ``page`` with ``text`` between ``<!-- mark -->`` and ``<!-- /mark -->``."""
    begin, end = f"<!-- {mark} -->", f"<!-- /{mark} -->"
    head, _, rest = page.partition(begin)
    _, found, tail = rest.partition(end)
    assert found, f"{PAGE} has no {begin} … {end}"
    return f"{head}{begin}\n{text.strip()}\n{end}{tail}"


def main() -> None:
    page = PAGE.read_text()
    command = COMMAND.search(page)
    assert command, f"{PAGE} shows no command for mixed.csv"
    words = shlex.split(command[0].replace("\\\n", " "))[1:]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*KVTOOLS, "sample", "mixed-traffic", "-o", "mixed.csv"], cwd=folder, check=True)
        done = subprocess.run(
            [*KVTOOLS, *words], cwd=folder, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    PAGE.write_text(between(page, "tables", f"```text\n{done.stdout.decode()}```"))


if __name__ == "__main__":
    main()
