"""The rules on limits: longest sequence, requests and tokens of a step, chunked prefill, GPU memory's share.

What vLLM 0.32 refuses at its start: ``SchedulerConfig.verify_max_model_len``, ``CacheConfig`` and
``kv_cache_utils._check_enough_kv_cache_memory``. What a server refuses: a prompt that leaves no room for one token
(``InputProcessor._validate_prompt_len``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kvtools.plan.audit_cache import block_of, percent
from kvtools.plan.audit_model import AuditFinding, NotJudged

if TYPE_CHECKING:
    from kvtools.plan.audit_model import Findings, LogFacts, Setup, Severity

DEFAULT_SEQS = (256, 1024)
"""``max_num_seqs`` of a server where the line says nothing: below 70 GiB of GPU memory, and from there (not A100)."""

DEFAULT_BATCHED = 2048
"""``max_num_batched_tokens`` of a server below 70 GiB of GPU memory: the smallest default."""

ARTICLE_SEQS_PER_QPS = 0.8
UNKNOWN = -1
_STOPS = "vLLM does not start"


def audit_limits(setup: Setup, facts: LogFacts, findings: Findings) -> None:
    """Add what the log says of the limits that the line sets, and limits that contradict each other."""
    _longest(setup, facts, findings)
    _room_for_one(setup, findings)
    _at_once(setup, facts, findings)
    _step(setup, facts, findings)
    _chunks(setup, facts, findings)
    _contradictions(setup, findings)


def longest_sequence(setup: Setup) -> tuple[int | None, str]:
    """Return ``max_model_len`` in tokens (``None``: not known) and where it comes from."""
    given = setup.parsed.value("max_model_len")
    if given is not None and given > 0:
        return given, "--max-model-len"
    return setup.model.max_position, "the model's own limit"


def _longest(setup: Setup, facts: LogFacts, findings: Findings) -> None:
    limit, source = longest_sequence(setup)
    if limit is None:
        findings.not_judged.append(
            NotJudged(
                "max-model-len",
                "--max-model-len",
                "not given, and without --model-config the model's own is not known",
            )
        )
        return
    outputs = np.maximum(facts.output_tokens, 0)
    refused = int((facts.prompt_tokens >= limit).sum())
    cut = int(((facts.prompt_tokens < limit) & (facts.prompt_tokens + outputs > limit)).sum())
    whole = int((facts.prompt_tokens + np.maximum(outputs, 1)).max(initial=0))
    severity: Severity = "high" if refused else "medium" if cut else "ok"
    findings.found.append(
        AuditFinding(
            rule="max-model-len", flag="--max-model-len", severity=severity,
            symptom="requests of this log do not fit" if refused or cut else "all requests fit",
            measured=f"{refused:,} of {len(facts.prompt_tokens):,} requests would be refused, {cut:,} answers cut at "
            f"{limit:,} tokens ({source}); the longest prompt and answer have {whole:,}",
            cause="a prompt and one token of its answer must fit" if refused else "an answer ends at the limit"
            if cut else "", advice=f"give --max-model-len {whole} or more" if refused or cut else "",
            value=refused, unit="requests",
        )
    )  # fmt: skip
    own = setup.model.max_position
    allowed = setup.environment.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN") == "1"
    if (
        source == "--max-model-len"
        and own is not None
        and limit > own
        and not (allowed or setup.model.rope_scaled)
    ):
        findings.found.append(
            _stops("max-model-len-model", "--max-model-len", f"{limit:,} is more than the model's own {own:,}",
                   f"give {own} or less, or scale the positions with --hf-overrides")
        )  # fmt: skip


def _room_for_one(setup: Setup, findings: Findings) -> None:
    limit, source = longest_sequence(setup)
    blocks = setup.room.capacity_blocks
    if limit is None or blocks is None:
        return
    size = block_of(setup.parsed)
    needed = -(-limit // size)
    if needed > blocks:
        findings.found.append(
            _stops("max-model-len-memory", "--max-model-len",
                   f"one sequence of {limit:,} tokens ({source}) takes {needed:,} blocks, there are {blocks:,}",
                   f"give --max-model-len {blocks * size} or less, or more memory")
        )  # fmt: skip


def _at_once(setup: Setup, facts: LogFacts, findings: Findings) -> None:
    given = setup.parsed.value("max_num_seqs")
    flying = facts.in_flight
    if flying is None:
        findings.not_judged.append(
            NotJudged(
                "max-num-seqs",
                "--max-num-seqs",
                "the log lacks times or latencies, so that nobody knows how many ran at once",
            )
        )
        return
    limit = given or DEFAULT_SEQS[0]
    above = flying.share_above(limit)
    rate = len(facts.prompt_tokens) / facts.seconds if facts.seconds else 0.0
    per_rule = f"; 0.8 of {rate:.2f} requests/s, as some guides have it, is {ARTICLE_SEQS_PER_QPS * rate:.1f}"
    named = (
        f"{limit:,}" if given else f"{limit:,} (the default; {DEFAULT_SEQS[1]:,} from 70 GiB of GPU memory)"
    )
    severity: Severity = "high" if above >= 0.1 else "medium" if above else "ok"
    findings.found.append(
        AuditFinding(
            rule="max-num-seqs", flag="--max-num-seqs", severity=severity if given or not above else "info",
            symptom="requests wait for a place" if above else "enough places",
            measured=f"up to {flying.peak:,} requests in flight, {flying.p99:,} at most in 99 % of the time; more than "
            f"{named} in {percent(above)} of it{per_rule}",
            cause="a request beyond --max-num-seqs waits" if above else "",
            advice=f"give --max-num-seqs {flying.p99} or more where the KV memory holds them" if above else "",
            value=above, unit="share",
        )
    )  # fmt: skip
    _held_at_once(setup, facts, findings)


def _held_at_once(setup: Setup, facts: LogFacts, findings: Findings) -> None:
    blocks, flying = setup.room.capacity_blocks, facts.in_flight
    if blocks is None or flying is None:
        return
    over = flying.peak_blocks > blocks
    findings.found.append(
        AuditFinding(
            rule="kv-demand", flag="--max-num-seqs", severity="info" if over else "ok",
            symptom="running requests can fill the KV cache" if over else "running requests leave room",
            measured=f"requests in flight needed {flying.peak_blocks:,} blocks, none shared; there are {blocks:,}",
            cause="then vLLM preempts, and computes the preempted again" if over else "",
            advice="replay it with kvtools replay --arrivals log" if over else "",
            value=flying.peak_blocks, unit="blocks",
        )
    )  # fmt: skip


def _step(setup: Setup, facts: LogFacts, findings: Findings) -> None:
    given = setup.parsed.value("max_num_batched_tokens")
    if given is None or setup.parsed.value("enable_chunked_prefill") is False:
        return
    longer = int((facts.prompt_tokens > given).sum())
    part = longer / max(len(facts.prompt_tokens), 1)
    small = part >= 0.5
    findings.found.append(
        AuditFinding(
            rule="max-num-batched-tokens", flag="--max-num-batched-tokens", severity="medium" if small else "ok",
            symptom="most prompts take several steps" if small else "steps hold most prompts",
            measured=f"{longer:,} of {len(facts.prompt_tokens):,} prompts ({percent(part)}) are over {given:,} tokens",
            cause="a step computes no more than --max-num-batched-tokens" if small else "",
            advice="leave the flag out, or give the p95 of the prompts or more" if small else "",
            value=part, unit="share",
        )
    )  # fmt: skip


def _chunks(setup: Setup, facts: LogFacts, findings: Findings) -> None:
    if setup.parsed.value("enable_chunked_prefill") is not False:
        return
    batched = setup.parsed.value("max_num_batched_tokens")
    limit, source = longest_sequence(setup)
    if batched is not None and limit is not None and batched < limit:
        findings.found.append(
            _stops("chunked-prefill-off", "--no-enable-chunked-prefill",
                   f"without chunks a step must hold {limit:,} tokens ({source}), not {batched:,}",
                   "leave --no-enable-chunked-prefill out")
        )  # fmt: skip
        return
    long = int((facts.prompt_tokens > DEFAULT_BATCHED).sum())
    findings.found.append(
        AuditFinding(
            rule="chunked-prefill-off", flag="--no-enable-chunked-prefill", severity="medium",
            symptom="chunked prefill is switched off",
            measured=f"{long:,} of {len(facts.prompt_tokens):,} prompts are over {DEFAULT_BATCHED:,} tokens, "
            "each computed in one step",
            cause="answers stand still while a long prompt is computed; vLLM does not support it for generating models",
            advice="leave the flag out: chunked prefill is on by default",
            value=long, unit="requests",
        )
    )  # fmt: skip


def _contradictions(setup: Setup, findings: Findings) -> None:
    value = setup.parsed.value
    part, seqs, batched = (
        value("gpu_memory_utilization"),
        value("max_num_seqs"),
        value("max_num_batched_tokens"),
    )
    if part is not None and not 0 < part <= 1:
        findings.found.append(
            _stops("gpu-memory-utilization", "--gpu-memory-utilization", f"{part:g} is no share above 0 and up to 1",
                   f"give {part / 100:g}" if 1 < part <= 100 else "give a share such as 0.92")
        )  # fmt: skip
    for dest, least in (("block_size", 1), ("max_num_seqs", 1), ("max_num_batched_tokens", 1)):
        if value(dest) is not None and value(dest) < least:
            name = setup.parsed.given[dest].flag.name
            findings.found.append(
                _stops("below-one", name, f"{value(dest)} is below {least}", f"give {name} 1 or more")
            )
    if seqs is not None and batched is not None and batched < seqs:
        findings.found.append(
            _stops("batched-below-seqs", "--max-num-batched-tokens",
                   f"{batched:,} tokens a step are fewer than --max-num-seqs {seqs:,}",
                   f"give {seqs} or more: each running request takes a token of a step")
        )  # fmt: skip
    active = value("max_num_active_seqs")
    if active is not None and seqs is not None and active > seqs:
        findings.found.append(
            _stops("active-above-seqs", "--max-num-active-seqs", f"{active:,} is more than --max-num-seqs {seqs:,}",
                   f"give {seqs} or less")
        )  # fmt: skip
    limit, _ = longest_sequence(setup)
    threshold = value("long_prefill_token_threshold", 0)
    if limit is not None and threshold > limit:
        findings.found.append(
            _stops("long-prefill-threshold", "--long-prefill-token-threshold",
                   f"{threshold:,} is more than the longest sequence, {limit:,}", f"give {limit} or less")
        )  # fmt: skip


def _stops(rule: str, flag: str, measured: str, advice: str) -> AuditFinding:
    return AuditFinding(
        rule=rule, flag=flag, severity="high", symptom="a value that the engine refuses", measured=measured,
        cause=_STOPS, advice=advice,
    )  # fmt: skip
