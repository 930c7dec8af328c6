# The one task runner. Every target works on a fresh clone with nothing but python3 (3.11 or later) and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help install demo test test-slow lint format bench clean
.DEFAULT_GOAL := help

help:
	@echo "make demo       train on 1 % of a 30,000-row spiral, label all of it, save a model and a picture"
	@echo "make test       the test suite, without the slow reproductions"
	@echo "make test-slow  the reproductions of the paper"
	@echo "make bench      speed and memory of knet and its peers; rewrites docs/performance.md"
	@echo "make lint       format check, lint, types"
	@echo "make format     rewrite the sources in the house format"
	@echo "make clean      remove everything that was generated, the environment included"

install: $(STAMP)

# Installed anew only when the requirements change.
$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,plots]'
	@touch $@

demo: $(STAMP)
	$(BIN)/knet demo

# One thread per worker: two workers then fill two cores.
test: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m "not slow"

test-slow: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m slow

# PEERS names an interpreter that has spectralnet and clustpy; without one their cases are skipped.
DATA ?= ../shared/datasets/paper
PEERS ?= $(BIN)/python
bench: $(STAMP)
	$(BIN)/python -m benchmarks.speed $(DATA) -o build/speed.jsonl --peers-python $(PEERS)
	$(BIN)/python -m benchmarks.speed_page build/speed.jsonl docs

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --strict src

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) build dist knet-demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
