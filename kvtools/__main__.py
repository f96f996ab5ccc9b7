"""``python -m kvtools``."""

from kvtools.cli import main

main()
