"""How a file in each format begins: for people who look for the name of theirs."""

from __future__ import annotations

EXAMPLES = {
    "parquet": "a column per field, named as in chat-jsonl, or --map",
    "azure": "TIMESTAMP,ContextTokens,GeneratedTokens",
    "burstgpt": "Timestamp,Model,Request tokens,Response tokens,…",
    "vllm-log": "INFO 08-01 12:00:00 logger.py:39] Received request cmpl-1: …",
    "sglang-log": "[2026-07-15 08:00:00] Prefill batch. #new-seq: 1, …",
    "prometheus": 'vllm:prefix_cache_queries_total{engine="0"} 1500.0',
    "csv": "timestamp,model,request_json,response_json",
    "otlp": '{"resourceSpans": [{"scopeSpans": [{"spans": […]}]}]}',
    "langfuse": '{"trace": {…}, "observations": [{"type": "GENERATION", …}]}',
    "ragpulse": '{"timestamp": "82", "hash_ids": {"sys_prompt": […], …}}',
    "bailian": '{"chat_id": 1, "parent_chat_id": -1, "hash_ids": […]}',
    "mooncake": '{"timestamp": 0, "input_length": 6758, "hash_ids": [0, 1]}',
    "openai-batch": '{"custom_id": "r-1", "method": "POST", "body": {…}}',
    "tracelab": '{"session_id": "…", "input_tokens_total": 32272, …}',
    "token-log": '{"id": "r-1", "ts": 1.5, "prompt_token_ids": [1, 2, 3]}',
    "exchange": '{"request": {"messages": […]}, "response": {"usage": {…}}}',
    "litellm": '{"request_id": "…", "call_type": "acompletion", "startTime": …}',
    "conversation": '{"traj": [{"role": "system", "content": "…"}, …]}',
    "chat-jsonl": '{"id": "r-1", "timestamp": "…", "messages": […]}',
}
