"""Names that articles and old guides give for flags of vLLM, and what the engine has for the idea.

Invented ones were never flags. Gone ones were, in versions before 0.32; the sentence says what came instead. A name
that the table of flags at hand knows is never looked up here.
"""

from __future__ import annotations

_COLD = (
    "vLLM has one queue; separate cold requests by priority (--scheduling-policy priority) or by a deployment of "
    "their own"
)
_NO_WARMUP = "vLLM warms no prompts; send a warm-up set before the traffic (kvtools warmup)"

INVENTED = {
    "cold-max-num-seqs": f"{_COLD}; --max-num-seqs limits all requests together",
    "hot-max-num-seqs": f"{_COLD}; --max-num-seqs limits all requests together",
    "warmup-tokens": _NO_WARMUP,
    "warmup-requests": _NO_WARMUP,
    "cold-timeout-ms": "vLLM ends no request by time; let the gateway or the client do it",
    "stream-priority": "a request carries its own priority, with --scheduling-policy priority",
    "enable-cold-path": _COLD,
    "separate-batch-queues": _COLD,
    "max-paddings": "vLLM pads no batches; --max-num-batched-tokens bounds a step",
    "scheduler-policy": "the flag is --scheduling-policy (fcfs or priority); --scheduler-cls takes a class of your own",
    "preemption-mode": "vLLM always preempts by computing anew; there is no choice",
    "topology-aware": "vLLM places no requests; that is the gateway's work",
    "enable-disk-cache": "KV offloading is --kv-offloading-size (CPU memory) or a connector in --kv-transfer-config",
    "use-cache": "nothing of the kind is per request; the prefix cache is on for all unless --no-enable-prefix-caching",
    "enable-prefix-cache": "the flag is --enable-prefix-caching, and it is on without it",
    "enable-prefix-cache-sharing": "all requests share the prefix cache; cache_salt in a request keeps tenants apart",
    "enable-prefix-cache-reuse": "the prefix cache is on by default; no flag is needed",
    "enable-auto-prefix-caching": "the flag is --enable-prefix-caching, and it is on without it",
    "disable-prefix-caching": "the flag is --no-enable-prefix-caching",
    "prefix-cache-size": "the prefix cache is all KV memory that no running request needs; it has no size of its own",
    "kv-cache-block-size": "the flag is --block-size",
    "kv-cache-size": "the flags are --kv-cache-memory-bytes (per GPU) and --gpu-memory-utilization",
    "max-batch-size": "vLLM batches by step: --max-num-seqs requests, --max-num-batched-tokens tokens",
    "mem-fraction-static": "that is SGLang's; vLLM has --gpu-memory-utilization",
    "enable-kv-cache": "a KV cache is always there",
}

GONE = {
    "swap-space": "blocks are no longer swapped to CPU memory; KV offloading is --kv-offloading-size",
    "num-scheduler-steps": "multi-step scheduling is gone; see --async-scheduling",
    "multi-step-stream-outputs": "multi-step scheduling is gone",
    "use-v2-block-manager": "there is one block manager; leave it out",
    "disable-log-requests": "requests are not logged unless --enable-log-requests",
    "guided-decoding-backend": "it is --structured-outputs-config.backend",
    "enable-reasoning": "--reasoning-parser alone does it",
    "max-seq-len-to-capture": "CUDA graphs are set with --cudagraph-capture-sizes",
    "max-context-len-to-capture": "CUDA graphs are set with --cudagraph-capture-sizes",
    "cuda-graph-sizes": "it is --cudagraph-capture-sizes",
    "device": "vLLM finds the device by itself; leave it out",
    "rope-scaling": "it is --hf-overrides '{\"rope_scaling\": …}'",
    "rope-theta": "it is --hf-overrides '{\"rope_theta\": …}'",
    "task": "it is --runner pooling, with --convert where a generating model is to pool",
    "worker-use-ray": "it is --distributed-executor-backend ray",
    "engine-use-ray": "leave it out",
    "num-lookahead-slots": "--speculative-config decides it",
    "lora-extra-vocab-size": "adapters add no vocabulary any more; leave it out",
    "max-num-partial-prefills": "see --long-prefill-token-threshold",
    "max-long-partial-prefills": "see --long-prefill-token-threshold",
    "scheduler-delay-factor": "the scheduler waits for nothing; leave it out",
    "tokenizer-pool-size": "tokenizing has no pool; see --api-server-count",
    "speculative-model": "it is --speculative-config.model",
    "num-speculative-tokens": "it is --speculative-config.num_speculative_tokens",
    "disable-async-output-proc": "leave it out",
    "override-pooler-config": "it is --pooler-config",
    "full-cuda-graph": "it is --compilation-config.cudagraph_mode",
    "calculate-kv-scales": "scales come with the checkpoint; leave it out",
}

GONE_VARIABLES = {
    "VLLM_USE_V1": "there is only V1",
    "VLLM_ATTENTION_BACKEND": "it is --attention-backend",
    "VLLM_USE_RAY_SPMD_WORKER": "leave it out",
    "VLLM_FLASH_ATTN_VERSION": "it is --attention-config.flash_attn_version",
}


def told_of(name: str) -> str | None:
    """Return what vLLM has for the idea behind a flag that it lacks, ``None`` where nothing is known of it."""
    plain = name.partition("=")[0].lstrip("-").replace("_", "-").removeprefix("no-")
    return INVENTED.get(plain) or GONE.get(plain)
