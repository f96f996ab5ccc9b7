"""A baseline: a report that later ones are judged against, and whether two can be compared at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from kvtools import __version__
from kvtools.errors import InputError
from kvtools.report.check import VerdictSettings
from kvtools.report.model import Report

if TYPE_CHECKING:
    from pathlib import Path

BASELINE_VERSION = 1

Origin: TypeAlias = Literal["log", "templates"]


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """What ``kvtools baseline`` writes. ``kvtools_baseline`` is the version of this form.

    ``origin``: recorded requests of a log, or ``templates`` with recorded values, of which ``values_sha256`` tells
    whether they are the same requests. The report carries settings and the SHA-256 of each input.
    """

    kvtools_baseline: int
    kvtools_version: str
    origin: Origin
    values_sha256: str | None
    report: Report

    def to_json(self) -> str:
        """Return the baseline as indented JSON with a final line feed."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode() + "\n"


class _Version(msgspec.Struct):
    kvtools_baseline: int | None = None


def holds_baseline(data: bytes) -> bool:
    """Return whether these bytes are a baseline, of whatever version."""
    try:
        return msgspec.json.decode(data, type=_Version).kvtools_baseline is not None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False


def baseline_of(report: Report, values_sha256: str | None) -> Baseline:
    """Return a report as a baseline; ``values_sha256`` where it was made from templates."""
    return Baseline(
        kvtools_baseline=BASELINE_VERSION,
        kvtools_version=__version__,
        origin="log" if values_sha256 is None else "templates",
        values_sha256=values_sha256,
        report=report,
    )


def read_baseline(path: Path) -> Baseline:
    """Return the baseline in a file.

    Raises:
        InputError: it cannot be read, is no baseline, or is of another version.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror}); write one: kvtools baseline PATH -o {path}."
        ) from None
    try:
        version = msgspec.json.decode(data, type=_Version).kvtools_baseline
        if version == BASELINE_VERSION:
            return msgspec.json.decode(data, type=Baseline)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(
            f"{path}: not a baseline ({error}); write one: kvtools baseline PATH -o {path}."
        ) from None
    if version is None:
        raise InputError(f"{path}: not a baseline; write one: kvtools baseline PATH -o {path}.")
    raise InputError(
        f"{path}: version {version} of a baseline, this kvtools reads {BASELINE_VERSION}; write it again."
    )


def settings_of(report: Report) -> VerdictSettings:
    """Return what a report's hit rate depends on.

    Raises:
        InputError: no request has a prompt, so there is no hit rate.
    """
    cache = report.cache
    if cache is None:
        raise InputError("no request has a prompt, token ids or block ids: there is no hit rate to judge.")
    settings = report.settings
    return VerdictSettings(
        tokenizer=settings.tokenizer,
        chat_template=settings.chat_template,
        order=settings.order,
        measure_from=settings.measure_from,
        cache_model=cache.model,
        block_size=cache.block_size,
        capacity_blocks=cache.capacity_blocks,
        rules=cache.rules,
        outputs=cache.outputs,
    )


_NAMES = {
    "tokenizer": "tokenizer (--tokenizer)",
    "chat_template": "chat template (--chat-template)",
    "order": "order of requests",
    "measure_from": "part that is measured",
    "cache_model": "cache model",
    "block_size": "block size (--block-size)",
    "capacity_blocks": "capacity in blocks (--capacity-blocks)",
    "rules": "rules (--rules)",
    "outputs": "outputs",
}


def check_alike(report: Report, values_sha256: str | None, baseline: Baseline, name: str) -> None:
    """Raise where a baseline (in the file ``name``) is about something else, so that a drop would mean nothing.

    Raises:
        InputError: another setting, another kind of input, or other recorded values.
    """
    now, before = settings_of(report), settings_of(baseline.report)
    for key, words in _NAMES.items():
        one, other = getattr(now, key), getattr(before, key)
        if one != other:
            raise InputError(
                f"{name}: cannot be compared: {words} is {_shown(one)} here and {_shown(other)} there; "
                "use the same, or write the baseline again."
            )
    if (baseline.origin == "templates") != (values_sha256 is not None):
        here = "a log" if values_sha256 is None else "templates with recorded values"
        there = "templates with recorded values" if values_sha256 is None else "a log"
        raise InputError(f"{name}: cannot be compared: this is {here}, the baseline {there}; write it again.")
    if values_sha256 != baseline.values_sha256:
        raise InputError(
            f"{name}: cannot be compared: the recorded values are not those of the baseline, and a change of "
            "templates is judged on the same requests; write the baseline again with these values."
        )


def _shown(value: object) -> str:
    return "unlimited" if value is None else str(value)
