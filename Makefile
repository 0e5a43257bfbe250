# `make demo` and `make test` do everything, from nothing; `make help` lists the rest.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help preflight setup demo chromium servers test soak s3 registry wheel docs lint format lock clean

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV_VERSION := 0.13.7
UV := VIRTUAL_ENV=$(VENV) $(BIN)/uv
# Two Spark sessions keep two cores busy; more processes than that only take memory.
WORKERS ?= 2

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

preflight:
	@$(PYTHON) infra/preflight.py

setup: preflight $(VENV)/.ready ## install everything into .venv (once; quick when nothing changed)

# A newer mark than these files means that .venv is what they ask for.
$(VENV)/.ready: requirements-dev.lock pyproject.toml infra/jars.py infra/jars.sha256 infra/class_archive.py infra/own_classes.py infra/preflight.py $(wildcard infra/java/*/*.java) | preflight
	@echo "Setting up Braid in $(VENV): about three minutes the first time"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@# Compiled once: where nothing may write bytecode, every process would compile all that it imports.
	@$(UV) pip install --compile-bytecode --require-hashes --requirement requirements-dev.lock
	@$(UV) pip install --quiet --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q braid batch_layer speed_layer serving_layer infra examples
	@$(BIN)/braid setup
	@touch $@

demo: setup ## run the platform on this machine and check its numbers
	@$(BIN)/braid demo

# The browser's tests want Debian's Chromium: root gets it, others are told how.
chromium:
	@command -v chromium >/dev/null || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null \
		&& echo "Installing Chromium for the tests of the dashboard" \
		&& { apt-get update -qq; DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; } \
		>/dev/null 2>&1; } \
		|| echo "No Chromium: the dashboard's tests will be skipped. On Debian: apt-get install chromium"

# Sinks are tried on Debian's PostgreSQL, alert rules on its promtool: likewise, and neither is started as a service.
servers:
	@test -n "$$(ls /usr/lib/postgresql/*/bin/initdb 2>/dev/null)" -a -n "$$(command -v promtool)" || { test "$$(id -u)" = 0 \
		&& command -v apt-get >/dev/null && echo "Installing PostgreSQL and promtool for the tests of sinks and alerts" \
		&& { apt-get update -qq; RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
		postgresql prometheus; } >/dev/null 2>&1; } \
		|| echo "No PostgreSQL or promtool: their tests will be skipped. On Debian: apt-get install postgresql prometheus"

# A file stays in one process, with what its tests share; tests/conftest.py gives the slow ones first.
test: setup chromium servers ## run the tests
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m "not soak"

soak: setup s3 registry chromium servers ## run the long tests: whole engines started and killed, backfills, the tutorial; an hour
	@$(BIN)/python -m pytest -m soak

s3: setup ## fetch what a BRAID_HOME in S3 needs, and the store that its tests run against
	@$(BIN)/braid setup s3 s3proxy

registry: setup ## fetch the schema registry that the tests of Avro run against
	@$(BIN)/braid setup registry

wheel: setup ## build the package into dist/
	@rm -rf build dist
	@$(UV) build --quiet --wheel --no-build-isolation --python $(BIN)/python --out-dir dist .
	@rm -rf build
	@ls dist/*.whl

docs: setup ## build the documentation's site into site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "Open site/index.html"

lint: setup ## ruff, mypy and the import boundaries
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

format: setup ## let ruff format the code
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

# Two files: what is deployed has no tools of development in it, and both have the same version of what both have.
LOCK = $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--custom-compile-command "make lock" pyproject.toml

lock: setup ## resolve pyproject.toml anew into the two files of pinned packages
	@$(LOCK) --upgrade --extra all --output-file requirements.lock
	@$(LOCK) --upgrade --extra dev --constraint requirements.lock --output-file requirements-dev.lock

clean: ## remove what set-up and runs made (.venv, .braid, caches)
	@if [ -x $(BIN)/braid ]; then $(BIN)/braid broker stop; $(BIN)/braid cluster stop; fi
	@rm -rf $(VENV) .braid .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist site *.egg-info spark-warehouse
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
