"""The sentence of each verdict on an engine's counters, and what to do."""

from __future__ import annotations

from kvtools.report.metrics import MetricsVerdict

_SAID: dict[str, tuple[str, tuple[str, ...]]] = {
    "measured": ("Counted by the engine; without --log there is nothing to compare it with.", ()),
    "agrees": ("The engine counts what the log predicts.", ()),
    "no_traffic": (
        "No traffic: nothing was asked of the engine between the scrapes.",
        ("take the second scrape later, or name the metrics of the server that has the traffic",),
    ),
    "not_counted": (
        "The prefix cache is not counted: prompts were computed, but no lookup was recorded.",
        (
            "serve with --enable-prefix-caching (the default of V1), and see vllm:cache_config_info",
            "pooling requests and those with prompt_logprobs look nothing up and are not counted",
        ),
    ),
    "engine_side_zero": (
        "The log has reuse, the engine reports none: not a prompt problem, look at the engine.",
        (
            "enable_prefix_caching in vllm:cache_config_info, and the server's own warnings at its start",
            "the match unit of the model: hybrid and sliding-window models reuse whole groups of blocks",
            "what resets the cache: /reset_prefix_cache, sleep mode, new weights",
            "a salt, an adapter or multimodal data per request, which part prompts that look equal",
        ),
    ),
    "hits_stopped": (
        "Hits stopped while queries go on; the average since the start hides it.",
        (
            "what changed at that time: a deployment, a template, a salt, another model or routing",
            "compare the requests before and after: kvtools analyze LOG, kvtools diff",
        ),
    ),
    "other_time": (
        "The log is of another time than the scrapes: nothing to compare.",
        ("take scrapes and log of the same hours",),
    ),
    "other_traffic": (
        "The engine saw other traffic than the log holds; the two rates are about different requests.",
        (
            "more than the log: other clients, health checks, warm-up, another log of the same server",
            "less than the log: requests went to other servers, failed on the way, or a gateway answered them",
        ),
    ),
    "cache_flushed": (
        "The cache was emptied on the way: lower than the log predicts, with restarts or dips.",
        ("what restarts the server or resets its cache (kvtools warmup fills it again)",),
    ),
    "preempted": (
        "Preemptions: the KV cache was full, and blocks were taken that the log's replay still has.",
        (
            "more KV memory or fewer requests at once (kvtools plan sizing, kvtools plan audit)",
            "replay the log with the engine's size: --capacity-blocks N (num_gpu_blocks - 1)",
        ),
    ),
    "several_engines": (
        "Several engines, each with a cache of its own: the log was replayed as if it went to one.",
        ("kvtools plan routing LOG --replicas N says what routing makes of it",),
    ),
    "cache_too_small": (
        "Lower than an unlimited cache would hit: the engine's cache has a limit.",
        ("replay the log with the engine's size: --capacity-blocks N (num_gpu_blocks - 1)",),
    ),
    "warm_start": (
        "Higher than the log predicts: the cache held prefixes from before the log's first request.",
        ("compare a later stretch: --measure-from leaves out the start of the log",),
    ),
    "external_cache": (
        "Higher than the log predicts by what came from outside the engine's own cache.",
        (),
    ),
    "unexplained": (
        "The engine and the log differ, and no counter says why.",
        (
            "check that tokenizer, chat template and block size are the server's",
            "replay the log on the server: kvtools replay LOG --engine server --url URL",
        ),
    ),
}


def metrics_verdict(kind: str, also: tuple[str, ...], evidence: tuple[str, ...]) -> MetricsVerdict:
    """Return the verdict with its sentence and advice."""
    sentence, advice = _SAID[kind]
    return MetricsVerdict(
        kind=kind, sentence=sentence, also=list(also), evidence=list(evidence), advice=list(advice)
    )


def sentence_of(kind: str) -> str:
    """Return the sentence of a verdict."""
    return _SAID[kind][0]
