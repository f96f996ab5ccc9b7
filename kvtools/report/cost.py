"""Tokens into money: a price for computing prompt tokens, and how much of a day a log covers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvtools.errors import UsageError

if TYPE_CHECKING:
    from kvtools.report.traffic import Period

_DAY_US = 86_400_000_000
_HOUR_US = 3_600_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """What a million computed prompt tokens cost, in the currency of whoever named it, and where that is from."""

    per_mtok: float
    source: str


@dataclass(frozen=True, slots=True)
class CostBasis:
    """How tokens of a log become money per day: ``tokens / days * price``.

    ``days`` is the time between the first and the last arrival, ``None`` (with the reason in ``why_not``) where that
    is unknown. ``extrapolated``: less than an hour stands for a day. ``requests`` are those that the tokens are of.
    """

    price: Price
    requests: int
    days: float | None
    extrapolated: bool
    why_not: str | None


@dataclass(frozen=True, slots=True)
class Cost:
    """Money, in the currency of the price. ``per_day`` is ``None`` without a clock, both where there is no request."""

    per_day: float | None
    per_million_requests: float | None


def price_of(
    per_mtok: float | None = None,
    per_gpu_hour: float | None = None,
    prefill_tokens_per_s: float | None = None,
    gpus: int = 1,
) -> Price | None:
    """Return the price of a million prompt tokens: given, or made of a GPU's; ``None`` where none is given.

    An hour of ``gpus`` GPUs computes ``prefill_tokens_per_s`` * 3600 prompt tokens (of all of them together), which
    is the price of prefill alone: as if the GPUs did nothing else.

    Raises:
        UsageError: both prices, half of the second one, or a number that is not above 0.
    """
    by_gpu = per_gpu_hour is not None or prefill_tokens_per_s is not None
    if per_mtok is not None and by_gpu:
        raise UsageError("give --price, or --gpu-hour-price with --prefill-tokens-per-s, not both.")
    if per_mtok is not None:
        return Price(_above_zero("--price", per_mtok), f"{per_mtok:g} per million prompt tokens")
    if not by_gpu:
        return None
    if per_gpu_hour is None or prefill_tokens_per_s is None:
        raise UsageError("--gpu-hour-price and --prefill-tokens-per-s need each other: give both.")
    hour = _above_zero("--gpu-hour-price", per_gpu_hour) * int(_above_zero("--gpus", gpus))
    speed = _above_zero("--prefill-tokens-per-s", prefill_tokens_per_s)
    return Price(
        hour / (speed * 3600) * 1e6,
        f"{per_gpu_hour:g} per GPU hour{'' if gpus == 1 else f' x {gpus}'}, {speed:,.0f} prompt tokens/s",
    )


def _above_zero(option: str, value: float) -> float:
    if not math.isfinite(value) or value <= 0:
        raise UsageError(f"{option} {value:g}: give a number above 0.")
    return value


def cost_basis(price: Price, requests: int, period: Period | None) -> CostBasis:
    """Return how the tokens of ``requests`` requests that arrived in ``period`` become money.

    ``period`` is that of the requests the tokens are counted of: behind ``--measure-from`` it begins there.
    """
    if period is None:
        return CostBasis(price, requests, None, extrapolated=False, why_not="the log has no clock")
    length = period.last_us - period.first_us
    if length <= 0:
        return CostBasis(
            price, requests, None, extrapolated=False, why_not="all requests came at the same moment"
        )
    return CostBasis(price, requests, length / _DAY_US, extrapolated=length < _HOUR_US, why_not=None)


def cost_of(tokens: int, basis: CostBasis) -> Cost:
    """Return what ``tokens`` computed prompt tokens cost, per day of such traffic and per million such requests."""
    money = tokens * basis.price.per_mtok / 1e6
    return Cost(
        per_day=None if basis.days is None else money / basis.days,
        per_million_requests=money / basis.requests * 1e6 if basis.requests else None,
    )


def basis_sentence(basis: CostBasis) -> str:
    """Say how the money was worked out."""
    if basis.days is None:
        return f"Money per million requests, not per day: {basis.why_not} ({basis.price.source})."
    hours = 24 * basis.days
    covered = (
        f"{basis.days:.1f} days"
        if hours >= 48
        else f"{hours:.1f} h"
        if hours >= 1
        else f"{60 * hours:.0f} min"
    )
    if basis.extrapolated:
        covered = f"only {covered}, taken as typical of a day"
    return f"Money per day: tokens / time covered ({covered}), at {basis.price.source}."


def money(amount: float | None) -> str:
    """Return an amount with enough digits to act on: ``0.042``, ``3.10``, ``1,240``; ``n/a`` where it is unknown."""
    if amount is None:
        return "n/a"
    if amount and abs(amount) < 1:
        return f"{amount:.2g}"
    return f"{amount:,.2f}" if abs(amount) < 100 else f"{amount:,.0f}"
