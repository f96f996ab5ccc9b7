"""Coverage: where the records of a log went, as it stands in every report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtools.report.model import Coverage
from kvtools.report.numbers import counted, percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvtools.profile import Counts


def coverage(counts: Counts, skipped_files: Sequence[str]) -> Coverage:
    """Return the coverage of a log from its counts and the files that were left out."""
    calls = counts.calls
    return Coverage(
        read=counts.records,
        rejected=counts.rejected.total(),
        without_prompt=counts.without_prompt,
        duplicates=counts.duplicates,
        not_sent=counts.not_sent,
        failed=calls.failed if calls.with_status else None,
        retries=calls.retries(),
        streamed=calls.streamed if calls.with_stream else None,
        truncated_prompts=counts.cuts.prompts,
        with_media=counts.with_media,
        bad_arguments=counts.bad_arguments,
        rejected_by_reason=dict(sorted(counts.rejected.items())),
        repaired_lines=dict(sorted(counts.repaired.items())),
        skipped_files=list(skipped_files),
    )


def coverage_lines(found: Coverage, used: int) -> list[str]:
    """Return what to print: where the records went, and what to know of those that were ``used``."""
    gone = (
        (found.rejected, "rejected"),
        (found.without_prompt, "without prompt"),
        (found.duplicates, "duplicates"),
    )
    lines = [f"read {found.read:,} records: " + ", ".join(f"{count:,} {what}" for count, what in gone)]
    if 2 * found.rejected > found.read:
        lines.insert(0, f"ONLY {percent(used / found.read)} OF THE RECORDS COULD BE USED")
    if found.rejected:
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in found.rejected_by_reason.items())
        lines.append(f"rejected: {reasons} (--rejects FILE lists them)")
    if found.not_sent:
        lines.append(f"{counted(found.not_sent, 'record')} never reached an engine: no lookup")
    lines += _warnings(found)
    if found.repaired_lines:
        faults = ", ".join(f"{fault} {count:,}" for fault, count in found.repaired_lines.items())
        lines.append(f"read although damaged: {faults}")
    if found.skipped_files:
        lines.append(f"{counted(len(found.skipped_files), 'file')} skipped: no known format")
    return lines


def _warnings(found: Coverage) -> list[str]:
    lines = []
    if found.truncated_prompts:
        cut = counted(found.truncated_prompts, "prompt")
        lines.append(f"CUT by the logger: {cut}; hits and lengths are those of what is left")
    if found.with_media:
        media = counted(found.with_media, "request")
        lines.append(f"{media} with pictures or sounds, whose tokens no log tells: not exact there")
    if found.failed:
        again = f", {counted(found.retries, 'retry', 'retries')}" if found.retries else ""
        lines.append(
            f"{found.failed:,} failed{again}: counted as lookups, as if their prompts had been computed"
        )
    elif found.retries:
        lines.append(f"{counted(found.retries, 'retry', 'retries')}: each is a lookup of its own")
    if found.bad_arguments:
        calls = counted(found.bad_arguments, "request")
        lines.append(f"{calls} with tool-call arguments that are no JSON object: empty, as in vLLM")
    return lines
