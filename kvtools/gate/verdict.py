"""The gate's verdict. Its types stand in the report's room, so that every form of a report can be made of them."""

from kvtools.report.check import (
    VERDICT_SCHEMA_VERSION,
    Cause,
    Check,
    Level,
    Place,
    Status,
    Unit,
    Verdict,
    VerdictSettings,
)

__all__ = [
    "VERDICT_SCHEMA_VERSION",
    "Cause",
    "Check",
    "Level",
    "Place",
    "Status",
    "Unit",
    "Verdict",
    "VerdictSettings",
]
