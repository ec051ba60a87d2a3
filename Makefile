# Two commands set everything up in .venv: `make demo` runs the main job, `make test` the tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# CuPy comes along where an NVIDIA driver is present.
GPU_EXTRA := $(shell command -v nvidia-smi >/dev/null 2>&1 && echo ",cuda13")

.PHONY: demo test lint format bench docs wheel clean

demo: $(VENV)/.installed
	$(BIN)/gpuemu compare
	$(BIN)/gpuemu diff --cases 2000

test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n auto

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $(wildcard cuda_src/*)

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(wildcard cuda_src/*)

bench: $(VENV)/.installed-dev
	$(BIN)/python -m pytest bench -n 0 --benchmark-only --benchmark-json=bench.json

wheel: $(VENV)/.installed-dev
	$(BIN)/python -m build --wheel

clean:
	rm -rf $(VENV) build dist bench.json

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e ".[plot$(GPU_EXTRA)]"
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet -e ".[dev,nvrtc$(GPU_EXTRA)]"
	touch $@
