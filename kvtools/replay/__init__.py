"""Replay a log through an engine: the simulator, vLLM in a process of its own, or a server.

Empty on purpose: vLLM's worker process imports this package and must not load numba with it.
"""
