# Every target sets up what it needs in .venv and is quick once that is done.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PRODUCT := $(VENV)/.product
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
SOURCES := cli profiler planner applier schemas

.PHONY: demo test lint format bench docs clean
.DEFAULT_GOAL := test

# what users install
$(PRODUCT): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "energyopt needs Python 3.11 or newer: make PYTHON=python3.12 ..." >&2; exit 1; }
	@echo "setting up $(VENV) (once; a minute or two)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) -e .
	@touch $@

# and what developers need besides: the tests' tools, torch, whose kernels the tests really run, and the search's BoTorch
$(STAMP): $(PRODUCT)
	@echo "adding the tests' tools and torch (once)"
	@$(PIP) -e '.[dev,search,torch]'
	@touch $@

demo: $(PRODUCT) ## profile a simulated GPU, plan, apply and compare an example pipeline
	@examples/demo.sh $(BIN)/energyopt

test: $(STAMP) ## the whole test suite
	@$(BIN)/pytest -n auto

lint: $(STAMP) ## ruff and mypy
	@$(BIN)/ruff check $(SOURCES) tests benchmarks examples
	@$(BIN)/ruff format --check $(SOURCES) tests benchmarks examples
	@$(BIN)/mypy

format: $(STAMP)
	@$(BIN)/ruff check --fix $(SOURCES) tests benchmarks examples
	@$(BIN)/ruff format $(SOURCES) tests benchmarks examples

bench: $(STAMP) ## time the planner on the real profiles
	@$(BIN)/python -m benchmarks

docs: $(STAMP) ## put the real --help texts into the README
	@$(BIN)/python examples/update_readme.py

clean:
	rm -rf $(VENV) build dist demo-out
