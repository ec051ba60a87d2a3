# Two commands set everything up in .venv: `make demo` runs the main job, `make test` the tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# CuPy comes along where an NVIDIA driver is present.
GPU_EXTRA := $(shell command -v nvidia-smi >/dev/null 2>&1 && echo ",cuda13")

# With extras. uv takes a quarter of pip's time; where it cannot, pip installs.
install = $(BIN)/uv pip install --quiet --python $(BIN)/python -e ".[$(1)]" || \
	$(BIN)/python -m pip install --quiet -e ".[$(1)]"
COMMA := ,

.PHONY: demo test lint format bench guard coverage docs site wheel clean

# Without a compiler and a GPU there is nothing to compare the oracle with.
demo: $(VENV)/.installed
	$(BIN)/gpuemu compare
	$(if $(shell command -v $(CXX) g++ clang++ nvidia-smi),$(BIN)/gpuemu diff --cases 2000)

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

# Times of bench/, with device and versions; `gpuemu bench --compare old.json bench.json` reads them.
bench: $(VENV)/.installed-dev
	$(BIN)/python -m pytest bench -n 0 --benchmark-only --benchmark-json=bench.json

# The CPU side beside NumPy in the same process: fails where it got much slower.
guard: $(VENV)/.installed-dev
	$(BIN)/python bench/guard.py

# Lines and branches of gpuemu/ that the tests run, then lines of cuda_src/ in the host build.
coverage: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n auto --cov --cov-report=term-missing --cov-fail-under=$(COVERAGE)
	rm -rf build/coverage
	GPUEMU_HOST_COVERAGE=build/coverage $(BIN)/python -m pytest -n 0 -k "not mutants and not kernels" $(HOST_TESTS)
	$(BIN)/gcovr --merge-lines --root . --filter cuda_src/ --fail-under-line $(HOST_COVERAGE) build/coverage
COVERAGE ?= 95
HOST_COVERAGE ?= 100
HOST_TESTS := $(addprefix tests/,mfma matmul tile gemm emulation difftest/test_reference.py \
	difftest/test_device_cases.py)

# Pictures from the code and from docs/measured, then the site.
docs: $(VENV)/.installed-dev
	$(BIN)/python docs/make/pictures.py
	$(MAKE) site

site: $(VENV)/.installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

wheel: $(VENV)/.installed-dev
	$(BIN)/python -m build --wheel

clean:
	rm -rf $(VENV) build dist site bench.json

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	-$(BIN)/python -m pip install --quiet --upgrade pip uv
	$(call install,plot$(GPU_EXTRA))
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(call install,dev$(COMMA)nvrtc$(GPU_EXTRA))
	touch $@
