# Everyday commands. `make` alone lists them.
#
# make PYTHON=python3.12 …            another interpreter (3.11 or later)
# make test ARGS="-k signal -x"       arguments for pytest

.DEFAULT_GOAL := help
.PHONY: help setup demo test check test-pythons mutants crash bench format lock clean

export PYTHON
unexport PYTHONPATH PYTHONHOME
ARGS ?=
bin := .venv/bin

help: ## list these commands
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(firstword $(MAKEFILE_LIST)) | \
		while IFS='|' read -r name text; do printf '%-22s %s\n' "  $$name" "$$text"; done

setup: ## make .venv: the package and the locked tools
	@scripts/setup

demo: setup ## 200 orders, a worker killed half-way, and an audit: under a minute
	@$(bin)/perdure demo $(ARGS)

test: setup ## run the everyday tests
	$(bin)/python -m pytest $(ARGS)

check: setup ## format, lint, types, layers, tidiness
	$(bin)/ruff format --check .
	$(bin)/ruff check .
	$(bin)/pyright
	$(bin)/lint-imports
	$(bin)/python -m pytest -q tests/test_tidy.py tests/test_tree.py

test-pythons: ## run the kernel's tests on every Python from 3.11 on that is here
	scripts/test-pythons $(ARGS)

mutants: setup ## break the kernel on purpose, one rule at a time; every break must be noticed
	$(bin)/python scripts/mutants.py $(ARGS)

crash: setup ## kill an engine with SIGKILL, N=1000 times, and look whether anything was lost or doubled
	$(bin)/python -m tests.crash.driver $(or $(N),1000) $(SEED)

bench: setup ## measure the kernel, the store, the engine, pipelines (PEER="command" measures another one with it)
	@status=0; $(bin)/python -m bench.kernel || status=1; $(bin)/python -m bench.store || status=1; \
	$(bin)/python -m bench.engine $(if $(PEER),--peer "$(PEER)") $(ARGS) || status=1; \
	$(bin)/python -m bench.pipelines || status=1; exit $$status

format: setup ## put the code into the house format
	$(bin)/ruff check --fix-only --quiet .
	$(bin)/ruff format .

lock: ## write the lock files anew (ARGS=--upgrade for the newest versions)
	scripts/lock $(ARGS)

clean: ## remove everything that was made here
	rm -rf .venv .venvs build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
