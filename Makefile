# Everything a contributor runs. Needs Python >= 3.11 and make; the rest is installed into .venv.
# `make` alone lists the targets. Another interpreter: make PYTHON=/path/to/python3.12 setup

VENV    := .venv
PYTHON  ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
             $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
PY      := $(VENV)/bin/python
UV      := $(VENV)/bin/uv
UV_PIN  := uv==0.13.7
UV_PIP  := $(UV) pip
WORKERS ?= 2
CODE    := $(wildcard src tests bench examples)
ARGS    ?=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo test check tests lint fmt type layers records conform pythons newest share campaign machine kills \
        kills-postgres fleet upgrade cluster mutants bench promises demo-lake look docs lock build clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  \033[1m%-14s\033[0m %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# --- environment: one stamp per step, so that a second run does nothing -----------------------------------------------

$(VENV)/.uv:
	@test -n "$(PYTHON)" || { echo "Tenure needs Python >= 3.11: none found on PATH (or give PYTHON=...)" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Tenure needs Python >= 3.11: $(PYTHON) is older" >&2; exit 1; }
	@test -x $(PY) || $(PYTHON) -m venv $(VENV) \
	  || { rm -rf $(VENV); echo "no virtual environment could be made (Debian, Ubuntu: install python3-venv)" >&2; exit 1; }
	$(PY) -m pip install --quiet --disable-pip-version-check $(UV_PIN)
	@touch $@

# Core only: what a user of the library gets. It adds to .venv and never takes away, so it may follow a full setup.
$(VENV)/.core: $(VENV)/.uv requirements-core.lock pyproject.toml
	$(UV_PIP) install --quiet --python $(PY) --require-hashes -r requirements-core.lock
	$(UV_PIP) install --quiet --python $(PY) --no-deps -e .
	@touch $@

$(VENV)/.full: $(VENV)/.uv requirements.lock pyproject.toml
	$(UV_PIP) install --quiet --python $(PY) --require-hashes -r requirements.lock
	$(UV_PIP) install --quiet --python $(PY) --no-deps -e .
	@touch $(VENV)/.core $@

setup: $(VENV)/.full ## make .venv with everything for development

# --- the two commands -------------------------------------------------------------------------------------------------

demo: $(VENV)/.core ## install the core only and watch jobs flow through a SQLite store
	$(PY) -m tenure.demo $(ARGS)

demo-lake: $(VENV)/.full ## a day of synthetic history, a lake of it, and a report on disk
	$(PY) -m examples.lake.run $(ARGS)

test: lint type layers records tests ## everything a commit must pass: lint, types, layers, records, tests

# --- parts of test ----------------------------------------------------------------------------------------------------

tests: $(VENV)/.full ## the tests alone (ARGS="-k cancel" to choose)
	$(PY) -m pytest -n $(WORKERS) $(ARGS)

lint: $(VENV)/.full ## ruff: rules and format
	$(PY) -m ruff check $(CODE)
	$(PY) -m ruff format --check $(CODE)

fmt: $(VENV)/.full ## ruff: repair and format in place
	$(PY) -m ruff check --fix $(CODE)
	$(PY) -m ruff format $(CODE)

type: $(VENV)/.full ## mypy, strict
	$(PY) -m mypy $(CODE)

layers: $(VENV)/.full ## import-linter: which package may import which
	$(VENV)/bin/lint-imports --no-logo

records: $(VENV)/.full ## no promise is without a record or broken by its own; lists the records of older code
	$(PY) -m bench.promises --check

conform: $(VENV)/.full ## the conformance suite alone, on every store
	$(PY) -m pytest -n $(WORKERS) tests/conformance $(ARGS)

# The other Pythons that the classifiers name, each in .venv-3.x. They are looked for on PATH and in pyenv.
pythons: $(VENV)/.full ## make test on Python 3.11, 3.12 and 3.13 (ARGS="3.12 3.13" to choose)
	$(PY) -m tests.pythons $(ARGS)

newest: $(VENV)/.full ## a share of the tests on the newest of these Pythons that is found
	$(PY) -m tests.pythons --newest --goal share

SHARE := tests/conformance/test_memory.py tests/conformance/test_sqlite.py tests/engine/test_worker.py \
         tests/engine/test_declaring.py tests/engine/test_processes.py tests/engine/test_supervisor.py

share: $(VENV)/.full ## what `make newest` runs: conformance on memory and SQLite, declaring jobs, the worker
	$(PY) -m pytest -n $(WORKERS) $(SHARE) $(ARGS)

# --- long runs --------------------------------------------------------------------------------------------------------

campaign: machine kills kills-postgres fleet upgrade cluster ## the long runs: random ones that the docs quote, and a cluster

machine: $(VENV)/.full ## campaign: the state machine against every store
	$(PY) -m tests.campaign $(ARGS)

kills: $(VENV)/.full ## campaign: processes on one SQLite file, killed again and again
	$(PY) -m tests.kills $(ARGS)

kills-postgres: $(VENV)/.full ## campaign: the same on a PostgreSQL server, which is killed too
	$(PY) -m tests.kills --store postgres --jobs 500000 --server-kills 50 --worker-kills 200 $(ARGS)

fleet: $(VENV)/.full ## campaign: whole workers, supervisors and children, killed again and again
	$(PY) -m tests.fleet $(ARGS)

upgrade: $(VENV)/.full ## campaign: stores of earlier versions, migrated while programs of both work on them
	$(PY) -m tests.upgrade $(ARGS)

cluster: $(VENV)/.full ## campaign: Spark on executors of their own that are killed, and a driver that is killed
	$(PY) -m pytest -m campaign tests/spark/test_cluster_story.py $(ARGS)

mutants: $(VENV)/.full ## apply deliberate bugs one at a time and show that the suite kills each
	$(PY) -m tests.mutants $(ARGS)

bench: $(VENV)/.full ## throughput, growth with backlog, fairness, whole workers beside Huey and PostgreSQL queues
	$(PY) -m bench $(ARGS)

promises: $(VENV)/.full ## each promise with its command and its figure (ARGS="postgres --recorded" to choose)
	$(PY) -m bench.promises $(ARGS)

look: $(VENV)/.full ## open reports in Chromium: pictures, and nothing overflows or is requested
	$(PY) -m tests.look $(ARGS)

# --- files that are made ----------------------------------------------------------------------------------------------

docs: $(VENV)/.full ## regenerate the generated documents (a test checks that they are fresh)
	$(PY) -m tenure.domain.diagram > docs/states.md
	$(PY) -m tests.reference > docs/reference.md

COMPILE = $(UV_PIP) compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
          --custom-compile-command 'make lock' pyproject.toml

lock: $(VENV)/.uv ## renew the lock files (UPGRADE=--upgrade for newer versions)
	$(COMPILE) $(UPGRADE) -o requirements-core.lock
	$(COMPILE) $(UPGRADE) --extra spark --extra testing --group dev -c requirements-core.lock -o requirements.lock

build: $(VENV)/.full ## wheel and source distribution into dist/
	$(PY) -m build --quiet --installer uv

clean: ## remove .venv, caches and builds
	rm -rf $(VENV) .venv-3.* build dist htmlcov .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage .coverage.*
	find src $(wildcard tests bench) -name __pycache__ -type d -prune -exec rm -rf {} +
