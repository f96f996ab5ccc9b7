"""kvtools: what vLLM's prefix cache reuses of a request log, and what stops it."""

__version__ = "0.1.0"
