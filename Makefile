# Works with GNU make 3.81 (macOS) and later.
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# The first Python that is new enough; `make install PYTHON=/path/to/python3.12` chooses another.
PYTHON = $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	if $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo $$p; break; fi; done)

.DEFAULT_GOAL := help
.PHONY: help install serve demo test lint format bench proto clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' Makefile

install: $(STAMP) ## Make .venv with everything, and get the embedded model
	@$(BIN)/python -m standfast.engines.model

$(STAMP): pyproject.toml
	@if [ -z "$(PYTHON)" ]; then \
		echo "standfast needs Python 3.11 or later and found none: install it, or give one as make install PYTHON=…" >&2; \
		exit 1; fi
	@if [ ! -x $(BIN)/pip ]; then \
		echo "making $(VENV) with $(PYTHON)"; \
		$(PYTHON) -m venv --clear $(VENV) || { rm -rf $(VENV); \
		echo "$(PYTHON) cannot make a virtual environment: on Debian and Ubuntu, apt install python3-venv" >&2; \
		exit 1; }; fi
	@$(BIN)/python -m pip install --disable-pip-version-check --quiet --upgrade 'pip>=25.1'
	@echo "installing Standfast, the embedded engine and the development tools into $(VENV)"
	@$(BIN)/python -m pip install --disable-pip-version-check --group dev --editable '.[embedded]'
	@touch $(STAMP)

serve: install ## Start the gateway on 127.0.0.1:8790 (options: make serve ARGS="--port 9000")
	@exec $(BIN)/standfast serve $(ARGS)

demo: install ## Run the scripted agent raw and through Standfast, and compare
	@exec $(BIN)/standfast demo $(ARGS)

test: install ## Run all tests (a part: make test ARGS=tests/unit)
	@$(BIN)/python -m pytest -n 2 --dist loadfile $(ARGS)

lint: $(STAMP) ## Check style, types and the direction of imports
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(STAMP) ## Format the code
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: install ## Measure the core, and what the gateway adds (bench/README.md)
	@$(BIN)/python bench/core.py
	@$(BIN)/python bench/gateway.py $(ARGS)

proto: $(STAMP) ## Generate the code of docs/format/fingerprint.proto anew
	@$(PYTHON) -m venv build/proto
	@build/proto/bin/python -m pip install --disable-pip-version-check --quiet grpcio-tools==1.74.0
	@build/proto/bin/python -m grpc_tools.protoc -Idocs/format --python_out=src/standfast/prompt \
		--pyi_out=src/standfast/prompt docs/format/fingerprint.proto

clean: ## Remove .venv, caches and build results (not the model)
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage*
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +
