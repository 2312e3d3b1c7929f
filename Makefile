# Two commands do everything, set-up included:
#   make demo     tune kernels for this CPU and decode with a real model
#   make test     what CI runs
# Variables:
#   TORCH_INDEX=cpu     take PyTorch from its CPU-only wheel index (or any index URL); default: plain pip
#   PYTHON=python3.12   the interpreter (>= 3.11) that the virtual environment is made with
#   ARGS="..."          more arguments for the demo or for pytest
#   JOBS=2              processes that share the test files
# A virtual environment that is already there is kept: `make clean-venv` before changing TORCH_INDEX or PYTHON.

SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
TORCH_INDEX ?=
TORCH_URL = $(if $(filter cpu,$(TORCH_INDEX)),https://download.pytorch.org/whl/cpu,$(TORCH_INDEX))
PIP := $(BIN)/python -m pip --disable-pip-version-check install -c constraints.txt
TRITON := triton==3.6.0
SYSTEM_NVCC = $(shell command -v "$$CUDA_HOME/bin/nvcc" || command -v nvcc)
ARGS ?=
JOBS ?= 2

.PHONY: demo test lint typecheck pytest stale preflight clean clean-venv
.DELETE_ON_ERROR:

demo: $(VENV)/.demo
	$(BIN)/kvbuffer-codegen demo $(ARGS)

test: lint typecheck pytest stale

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

typecheck: $(VENV)/.dev
	$(BIN)/python .ci/typecheck.py .cache/typecheck

pytest: $(VENV)/.dev $(VENV)/.nvcc
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile -m "not slow" $(ARGS)

stale: $(VENV)/.dev $(VENV)/.nvcc
	$(BIN)/kvbuffer-codegen check --stale --compile 6 --part 1,2 & first=$$!; \
	$(BIN)/kvbuffer-codegen check --stale --compile 6 --part 2,2 && wait $$first

# --- set-up: one stamp each, made again when what it was made from changes

preflight:
	@sh .ci/preflight "$(PYTHON)"

$(VENV)/.torch: constraints.txt | preflight
	@echo "Setting up $(VENV): PyTorch first (the CUDA build is large; TORCH_INDEX=cpu takes the CPU build)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) "setuptools>=77" torch $(if $(TORCH_URL),--index-url $(TORCH_URL) --extra-index-url https://pypi.org/simple)
	@$(BIN)/python -c "import triton" 2>/dev/null || $(PIP) -q $(TRITON)  # the CUDA build comes with its own
	@touch $@

$(VENV)/.demo: pyproject.toml $(VENV)/.torch
	@$(PIP) -q -e ".[demo]"
	@touch $@

$(VENV)/.dev: pyproject.toml $(VENV)/.torch
	@$(PIP) -q -e ".[dev]"
	@touch $@ $(VENV)/.demo

# Cubins are built with the system's nvcc, or with the one from the wheels where there is none.
$(VENV)/.nvcc: $(VENV)/.dev
	$(if $(SYSTEM_NVCC),,$(PIP) -q -e ".[cuda-build]")
	@touch $@

clean:
	rm -rf build dist .cache .mypy_cache .pytest_cache .ruff_cache demo.json junit.xml

clean-venv:
	rm -rf $(VENV)
