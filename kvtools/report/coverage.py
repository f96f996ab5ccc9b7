"""Coverage: where the records of a log went, as it stands in every report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtools.report.model import Coverage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvtools.profile import Counts


def coverage(counts: Counts, skipped_files: Sequence[str]) -> Coverage:
    """Return the coverage of a log from its counts and the files that were left out."""
    return Coverage(
        read=counts.records,
        rejected=counts.rejected.total(),
        without_prompt=counts.without_prompt,
        duplicates=counts.duplicates,
        not_sent=counts.not_sent,
        rejected_by_reason=dict(sorted(counts.rejected.items())),
        repaired_lines=dict(sorted(counts.repaired.items())),
        skipped_files=list(skipped_files),
    )
