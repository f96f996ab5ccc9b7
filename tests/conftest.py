"""What all tests share: where the real traces are, and small hand-made request tables."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"

# How long an example takes says more of the machine than of the code.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real traces, published figures and cases beside the project."""
    if not SHARED.is_dir():
        pytest.skip("no folder 'shared' beside the project: real traces and cases are not here")
    return SHARED


@pytest.fixture(scope="session")
def data() -> Path:
    """The project's own small logs."""
    return ROOT / "data"
