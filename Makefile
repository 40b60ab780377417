# Two commands on a fresh machine: `make run` and `make test`. Each target installs what it needs into .venv.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# The real datasets, when they lie beside the checkout; without them the tests that need one are skipped.
ifneq ($(wildcard ../shared/data/README.md),)
export OFEDIQ_DATA ?= $(abspath ../shared/data)
endif

BENCH ?= peers
SANITIZED = maps_and_derivatives or many_clients or sums_of or topk or errors or scaffold or any_stack or quantizer or bad_arguments or other_shapes or other_sizes or (equals_jax and cnn) or of_numpy or with_compiled_code

.PHONY: help setup run test check format bench readers sanitize device flower docs clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "%-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: .venv/.dev ## make .venv with everything for development

.venv/.python:
	$(PYTHON) -c 'import sys; sys.exit("ofediq needs Python 3.11 or newer, found " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
	@touch $@

.venv/.run: .venv/.python pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e '.[sim,report]'
	@touch $@

.venv/.dev: .venv/.python pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e '.[dev]'
	@touch $@ .venv/.run

run: .venv/.run ## the main job, on embedded data
	$(BIN)/ofediq run --methods fedogd,ofedavg,fedomd,ofediq,ofedgrid --step-size 0.5 --out runs/digits --force

test: .venv/.dev ## all tests
	$(BIN)/python -m pytest -n 2 --dist loadfile

check: .venv/.dev ## format, lint, types, import rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: .venv/.dev ## write the code in the project's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: .venv/.dev ## measure against peers, each in its own .bench/ environment; BENCH="peers --quick": a minute
	$(BIN)/python -m benchmarks $(BENCH)

# At -O1 they compile in a seventh of the time.
CHECKED = OFEDIQ_CACHE=$$(mktemp -d) LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" \
	ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1 \
	CC="gcc -fsanitize=address,undefined -fno-sanitize-recover=undefined -g -O1" \
	$(BIN)/python -m pytest -q -p no:cacheprovider

readers: .venv/.dev ## what reads strangers' bytes, under gcc's address and undefined-behaviour sanitizers
	$(CHECKED) tests/codec/test_numerals.py tests/codec/test_readers.py tests/federation/test_measures.py

sanitize: readers ## the same, all kernels so, and with clang where it is
	$(CHECKED) tests/simulation/test_native.py tests/simulation/test_convolutions.py -k "$(SANITIZED)"
	if command -v clang >/dev/null; then OFEDIQ_CACHE=$$(mktemp -d) CC=clang \
	$(BIN)/python -m pytest -q -p no:cacheprovider tests/simulation/test_native.py -k "$(SANITIZED)"; fi

device: .venv/.dev ## what the C client takes on a Cortex-M4; needs arm-none-eabi-gcc and qemu-system-arm
	$(BIN)/python -m benchmarks device

flower: .venv/.dev ## the tests inside Flower's simulation, in an environment of its own in .bench/
	$(BIN)/python -c 'from benchmarks.peers.environments import environment; environment("ofediq-flower")'
	$(BIN)/python -m pytest -q tests/flower

docs: .venv/.dev ## the documentation site, in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "site/index.html"

clean: ## remove what the targets made
	rm -rf .venv build dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis
