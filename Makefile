# Everything runs in .venv, which every target sets up first; on a fresh machine Python 3.11+ and make are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help demo test check bench wheel-test data docs setup clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

setup: $(READY)  ## install kvtools and the development tools into .venv

demo: $(READY)  ## set up and analyze data/shop-assistant.jsonl
	$(BIN)/kvtools analyze logs data/shop-assistant.jsonl

test: $(READY) check  ## set up, check style and types, run the tests
	$(BIN)/python -m pytest -m "not wheel and not oracle and not vllm"
	$(MAKE) wheel-test

check: $(READY)  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

wheel-test: $(READY)  ## build the wheel and run it in a clean environment
	$(BIN)/python -m pytest -m wheel

bench: $(READY)  ## measure CPU time and memory on the logs in ../shared
	$(BIN)/python benchmarks/analyze.py

data: $(READY)  ## write data/ anew with the generators of kvtools/samples
	$(BIN)/kvtools sample shop-assistant -o data/shop-assistant.jsonl
	$(BIN)/kvtools sample canonical -o data

docs: $(READY)  ## write docs/cli.md anew from the commands
	$(BIN)/python tests/test_docs.py

clean:  ## remove the environment and all caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
