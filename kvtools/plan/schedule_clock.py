"""How long a step takes: stated, or a roofline of model and GPU (``schedule_fit`` finds a clock in a log)."""

from __future__ import annotations

from dataclasses import dataclass

from kvtools.errors import UsageError
from kvtools.plan.schedule_state import Clock

PREFILL_TOKENS_PER_S = 20_000.0
DECODE_STEP_MS = 15.0
"""Assumed where nothing is known: a mid-size model on one data-centre GPU (as ``kvtools replay --arrivals log``)."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """Dense 16-bit FLOP/s and memory bandwidth in bytes/s of one GPU, as its maker's data sheet gives them."""

    flops: float
    bytes_per_s: float
    source: str


GPUS = {
    "A100": Gpu(312e12, 2.039e12, "NVIDIA A100 80GB SXM data sheet"),
    "H100": Gpu(989e12, 3.35e12, "NVIDIA H100 SXM data sheet"),
    "H200": Gpu(989e12, 4.8e12, "NVIDIA H200 data sheet"),
    "L40S": Gpu(362e12, 0.864e12, "NVIDIA L40S data sheet"),
    "L4": Gpu(121e12, 0.3e12, "NVIDIA L4 data sheet"),
}


@dataclass(frozen=True, slots=True)
class FitError:
    """Relative errors (simulated / logged - 1) on the judged half, ``None`` where the log has no such times.

    ``requests``: how many were compared.
    """

    requests: int
    ttft_p50: float | None
    ttft_p99: float | None
    latency_p50: float | None
    latency_p99: float | None


@dataclass(frozen=True, slots=True)
class StepModel:
    """A clock, where it is from in words, and its error where it was fitted."""

    clock: Clock
    origin: str
    error: FitError | None = None


def linear(prefill_tokens_per_s: float, decode_step_ms: float, origin: str) -> StepModel:
    """Return a clock that adds a fixed time and one for each computed token.

    Raises:
        UsageError: a speed is not above 0, or is out of all reason.
    """
    if not (0 < prefill_tokens_per_s <= 1e9 and 0 < decode_step_ms <= 3.6e6):
        raise UsageError(
            "--prefill-tokens-per-s is above 0 (and at most 1,000,000,000), "
            "--decode-step-ms above 0 (and at most 3,600,000)."
        )
    return StepModel(
        Clock(max(1, round(1000 * decode_step_ms)), round(1e9 / prefill_tokens_per_s), 0, overlap=False),
        origin,
    )


def roofline(gpu: str, count: int, weight_bytes: int, kv_bytes_per_token: int) -> StepModel:
    """Return the roofline (Williams et al., 2009) of a dense model with 16-bit weights on ``count`` equal GPUs.

    A step reads all weights and the KV of its requests once (bytes / bandwidth) and computes 2 FLOP a parameter and
    token (FLOP / peak); the longer of the two counts. It is the least that the hardware allows: no launch, no
    communication, no attention FLOPs. Real steps are longer.

    Raises:
        UsageError: the GPU is not in the table.
    """
    if gpu.upper() not in GPUS:
        raise UsageError(f"--gpu {gpu}: not in the table; take one of {', '.join(GPUS)}, or state the speed.")
    card = GPUS[gpu.upper()]
    bandwidth, flops, parameters = count * card.bytes_per_s, count * card.flops, weight_bytes / 2
    clock = Clock(
        step_us=max(1, round(1e6 * weight_bytes / bandwidth)),
        token_ns=round(1e9 * 2 * parameters / flops),
        context_ns=round(1e9 * kv_bytes_per_token / bandwidth),
        overlap=True,
    )
    named = gpu.upper() if count == 1 else f"{count} {gpu.upper()}"
    return StepModel(clock, f"roofline of {named}: {card.source}; real steps are longer")


def describe(model: StepModel) -> str:
    """Say the clock in one line."""
    clock = model.clock
    speed = "no time" if clock.token_ns == 0 else f"{1e9 / clock.token_ns:,.0f} tokens/s"
    context = f", {clock.context_ns:,} ns a token of context" if clock.context_ns else ""
    step = f"{clock.step_us / 1000:,.1f}" if clock.step_us >= 1000 else f"{clock.step_us / 1000:.3g}"
    return f"{step} ms a step, {speed}{context} ({model.origin})"
