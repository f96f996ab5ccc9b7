"""The rules on the prefix cache: switched off, block size, memory, element type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtools.plan.audit_model import AuditFinding, NotJudged, severity_of

if TYPE_CHECKING:
    from kvtools.plan.audit_model import Findings, LogFacts, Setup
    from kvtools.plan.flags_parse import Parsed

DEFAULT_BLOCK, LARGEST_BLOCK = 16, 1 << 20
KERNEL_TOKENS = 16
"""FlashAttention, FlashInfer, Triton and FlexAttention of vLLM 0.32 take blocks of multiples of 16 tokens."""

ENOUGH_SHARE = 0.9


def percent(rate: float) -> str:
    """Return a share (0..1) as ``28.3 %``."""
    return f"{100 * rate:.1f} %"


def audit_cache(setup: Setup, facts: LogFacts, findings: Findings) -> None:
    """Add what the log says of the prefix cache that the line sets up."""
    _switched_on(setup, facts, findings)
    _block_size(setup, facts, findings)
    _memory(setup, facts, findings)
    _elements(setup, facts, findings)
    _not_modelled(setup, findings)


def block_of(parsed: Parsed) -> int:
    """Return the tokens of a block; a size that no engine takes is brought into a range that can be replayed."""
    return min(max(parsed.value("block_size") or DEFAULT_BLOCK, 1), LARGEST_BLOCK)


def _switched_on(setup: Setup, facts: LogFacts, findings: Findings) -> None:
    hits = f"{facts.hit_tokens:,} of {facts.queried_tokens:,} prompt tokens ({percent(facts.hit_rate)})"
    on = setup.parsed.value("enable_prefix_caching", default=True)
    if on is False:
        findings.found.append(
            AuditFinding(
                rule="prefix-caching", flag="--no-enable-prefix-caching", severity=severity_of(facts.hit_rate),
                symptom="prefix caching is switched off", measured=f"{hits} would hit with it on",
                cause="every prompt is computed whole", advice="leave the flag out: prefix caching is on by default",
                value=facts.hit_rate, unit="share",
            )
        )  # fmt: skip
        return
    if facts.reported_tokens == 0 and facts.hit_rate >= 0.01:
        findings.found.append(
            AuditFinding(
                rule="reported-zero", flag=None, severity="medium",
                symptom="the server that wrote the log reported no hits",
                measured=f"it reported 0 tokens where {hits} can hit",
                cause="its prefix cache was off, flushed, or not counted", advice="see kvtools analyze on the log",
                value=0.0, unit="share",
            )
        )  # fmt: skip
    findings.found.append(
        AuditFinding(
            rule="prefix-caching", flag="--enable-prefix-caching", severity="ok", symptom="prefix caching is on",
            measured=f"{hits} hit" + ("" if setup.parsed.is_set("enable_prefix_caching") else "; on by default"),
            value=facts.hit_rate, unit="share",
        )
    )  # fmt: skip


def _block_size(setup: Setup, facts: LogFacts, findings: Findings) -> None:
    given, size = setup.parsed.value("block_size"), block_of(setup.parsed)
    if given is not None and (given < 1 or given % KERNEL_TOKENS):
        findings.found.append(
            AuditFinding(
                rule="block-size-kernel", flag="--block-size", severity="high",
                symptom="no attention kernel takes this block size",
                measured=f"{given} is no multiple of {KERNEL_TOKENS}" + _layers(setup, given),
                cause="vLLM's attention backends take blocks of multiples of 16 tokens (32 on a CPU)",
                advice="leave --block-size out: the engine chooses one that its kernels take",
                value=given, unit="tokens",
            )
        )  # fmt: skip
    if len(facts.steps) < 2:
        findings.not_judged.append(
            NotJudged("block-size", "--block-size", "the log lists block ids, which cannot be cut anew")
        )
        return
    rates = ", ".join(f"{step.block_size}: {percent(step.hit_rate)}" for step in facts.steps)
    own = next(step for step in facts.steps if step.block_size == size)
    least = next((step for step in facts.steps if step.block_size == DEFAULT_BLOCK), own)
    lost = max(least.hit_rate - own.hit_rate, 0.0)
    coarse = size > DEFAULT_BLOCK and severity_of(lost) != "info"
    findings.found.append(
        AuditFinding(
            rule="block-size", flag="--block-size", severity=severity_of(lost) if coarse else "ok",
            symptom="the block is coarse for these prompts" if coarse else "block size",
            measured=f"hit rate by block size, same memory: {rates}"
            + (_layers(setup, size) if given is not None else ""),
            cause=f"only whole blocks are reused: {size} tokens a block lose {percent(lost)} of the prompt tokens"
            if coarse else "", advice="leave --block-size out, or give 16 where the kernel takes it" if coarse else "",
            value=lost, unit="share",
        )
    )  # fmt: skip


def _layers(setup: Setup, size: int) -> str:
    """Answer the folklore that a block should have as many tokens as the model has layers."""
    if setup.model.layers is None or setup.model.layers != size:
        return ""
    return f"; that it is the number of layers ({size}) means nothing: each layer keeps a block of its own"


def _memory(setup: Setup, facts: LogFacts, findings: Findings) -> None:
    blocks = setup.room.capacity_blocks
    if blocks is None:
        findings.not_judged.append(NotJudged("kv-memory", "--gpu-memory-utilization", setup.room.basis))
        return
    lost = max(facts.ceiling_rate - facts.hit_rate, 0.0)
    needed = facts.curve.blocks_for(ENOUGH_SHARE)
    short = lost >= 0.001
    most = "at most " if setup.room.at_most else ""
    refused = (
        f"; {facts.refused_requests:,} requests are larger than all of it" if facts.refused_requests else ""
    )
    findings.found.append(
        AuditFinding(
            rule="kv-memory", flag="--gpu-memory-utilization",
            severity="high" if facts.refused_requests else severity_of(lost) if short else "ok",
            symptom="the KV cache is too small for what comes again" if short else "KV memory",
            measured=f"{most}{blocks:,} blocks ({setup.room.basis}) hit {percent(facts.hit_rate)} of "
            f"{percent(facts.ceiling_rate)} within reach; {percent(ENOUGH_SHARE)} of that take {needed:,} blocks"
            + refused,
            cause="blocks are evicted before they are asked for again" if short else "",
            advice=_more_room(setup, needed) if short else "", value=lost, unit="share",
        )
    )  # fmt: skip


def _more_room(setup: Setup, needed: int) -> str:
    size = setup.room.bytes_per_block
    gib = "" if size is None else f" ({needed * size / (1 << 30):.1f} GiB on each GPU)"
    return f"make room for {needed:,} blocks{gib}: more GPU memory for the cache, or --kv-cache-dtype fp8 after a test"


def _elements(setup: Setup, facts: LogFacts, findings: Findings) -> None:
    blocks = setup.room.capacity_blocks
    dtype = setup.parsed.value("kv_cache_dtype", "auto")
    if blocks is None:
        findings.not_judged.append(NotJudged("kv-dtype", "--kv-cache-dtype", setup.room.basis))
        return
    halved = dtype.startswith("fp8")
    other = facts.rate_at(max(blocks // 2, 1) if halved else 2 * blocks)
    gain = facts.rate_at(blocks) - other if halved else other - facts.rate_at(blocks)
    weights = setup.parsed.value("quantization")
    note = (
        f"; --quantization {weights} makes weights smaller, not blocks" if weights and dtype == "auto" else ""
    )
    findings.found.append(
        AuditFinding(
            rule="kv-dtype", flag="--kv-cache-dtype", severity="info" if gain >= 0.001 else "ok",
            symptom="what the element type of the cache is worth",
            measured=f"twice the blocks ({dtype if halved else 'fp8'} for 16 bits) {'' if halved else 'would '}bring "
            f"{percent(gain)} of the prompt tokens{note}",
            cause="an element of fp8 takes one byte instead of two", value=gain, unit="share",
            advice="" if halved or gain < 0.01 else "test answers with --kv-cache-dtype fp8 before using it",
        )
    )  # fmt: skip


def _not_modelled(setup: Setup, findings: Findings) -> None:
    for dest, what in (
        ("prefix_match_unit", "hits inside a block are not modelled: the figures count whole blocks"),
        ("kv_transfer_config", "a KV connector is not modelled: the figures are of the GPU's own cache"),
        ("kv_offloading_size", "KV offloading is not modelled here: see kvtools plan sizing"),
        ("mamba_block_size", "hybrid models are not modelled"),
    ):
        if setup.parsed.is_set(dest) and setup.parsed.value(dest) is not None:
            findings.not_judged.append(NotJudged("not-modelled", setup.parsed.given[dest].flag.name, what))
