"""Coverage: where the records of a log went, as it stands in every report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtools.report.model import Coverage
from kvtools.report.numbers import counted, percent
from kvtools.report.words import phrase, say

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
    lines = [read_line(found)]
    if 2 * found.rejected > found.read:
        lines.insert(0, say("ONLY {part} OF THE RECORDS COULD BE USED", part=percent(used / found.read)))
    lines += rejected_line(found)
    if found.not_sent:
        records = counted(found.not_sent, "record")
        lines.append(say("{records} never reached an engine: no lookup", records=records))
    lines += _warnings(found)
    if found.repaired_lines:
        faults = ", ".join(f"{fault} {count:,}" for fault, count in found.repaired_lines.items())
        lines.append(say("read although damaged: {faults}", faults=faults))
    return lines + skipped_line(found)


def read_line(found: Coverage) -> str:
    """Return how many records were read, and how many of them were left out."""
    gone = (
        (found.rejected, phrase("{count} rejected")),
        (found.without_prompt, phrase("{count} without prompt")),
        (found.duplicates, phrase("{count} duplicates")),
    )
    parts = say(", ").join(say(what, count=f"{count:,}") for count, what in gone)
    return say("read {count} records: {parts}", count=f"{found.read:,}", parts=parts)


def rejected_line(found: Coverage) -> list[str]:
    """Return why records were rejected, by the names of the reasons, and where they are listed."""
    if not found.rejected:
        return []
    reasons = ", ".join(f"{reason} {count:,}" for reason, count in found.rejected_by_reason.items())
    return [say("rejected: {reasons} (--rejects FILE lists them)", reasons=reasons)]


def skipped_line(found: Coverage) -> list[str]:
    """Return how many files were left out."""
    if not found.skipped_files:
        return []
    return [say("{files} skipped: no known format", files=counted(len(found.skipped_files), "file"))]


def _warnings(found: Coverage) -> list[str]:
    lines = []
    if found.truncated_prompts:
        cut = counted(found.truncated_prompts, "prompt")
        lines.append(say("CUT by the logger: {cut}; hits and lengths are those of what is left", cut=cut))
    if found.with_media:
        media = counted(found.with_media, "request")
        lines.append(
            say("{media} with pictures or sounds, whose tokens no log tells: not exact there", media=media)
        )
    if found.failed:
        failed = say("{count} failed", count=f"{found.failed:,}")
        if found.retries:
            failed += say(", ") + counted(found.retries, "retry", "retries")
        lines.append(
            say("{failed}: counted as lookups, as if their prompts had been computed", failed=failed)
        )
    elif found.retries:
        again = counted(found.retries, "retry", "retries")
        lines.append(say("{retries}: each is a lookup of its own", retries=again))
    if found.bad_arguments:
        calls = counted(found.bad_arguments, "request")
        lines.append(
            say("{calls} with tool-call arguments that are no JSON object: empty, as in vLLM", calls=calls)
        )
    return lines
