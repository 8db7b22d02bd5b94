# The one front door. `make help` prints the targets from the comments after `##`.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# The interpreter that makes the environment: the first one here that is new enough.
PYTHON ?= $(shell tools/find_python.sh)
VENV := $(CURDIR)/.venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.requirements
BENCH_STAMP := $(VENV)/.requirements-bench
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet install
# Warnings are errors only here, so that half-written code still builds.
CLIPPY := cargo clippy --locked --workspace --all-targets
BENCH := $(BIN)/python benches/python
TEST_PYTHONS := $(BIN)/python tools/test_pythons.py --environments $(VENV)-pythons
LOGITS_MYPY := $(BIN)/mypy --config-file $(CURDIR)/pyproject.toml --python-executable $(VENV)-vllm/bin/python
PYTEST_ARGS ?=
BENCH_ARGS ?=

export PYO3_PYTHON := $(BIN)/python

.PHONY: help setup dev demo logits-extension test test-long oracle test-rust test-model test-asan test-python test-pythons test-logits \
	test-logits-long test-vllm lint lint-rust lint-python lint-logits format bench bench-quick bench-setup bench-head gate lock wheel clean

help: ## print this list
	@awk -F ' ## ' '/^[a-z-]+:.* ## / { sub(/:.*/, "", $$1); printf "  %-16s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(STAMP) ## make .venv with the pinned tools, from any Python 3.11 or later

$(STAMP): requirements-dev.txt
	@command -v cargo >/dev/null || { echo "cargo is not on PATH: install Rust 1.89 or later first" >&2; exit 1; }
	@test -n "$(PYTHON)" || { echo "no Python 3.11 or later was found: name one with PYTHON=..." >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) --require-hashes -r requirements-dev.txt
	@touch $@

bench-setup: $(BENCH_STAMP) ## add the rivals and the plot library to .venv

$(BENCH_STAMP): requirements-bench.txt $(STAMP)
	$(PIP) --require-hashes -r requirements-bench.txt
	@touch $@

dev: $(STAMP) ## build the extension (release profile) and install the package into .venv, editable
	@VIRTUAL_ENV=$(VENV) $(BIN)/maturin develop --release 2>&1 | sed '/^Ignoring /d; /^Looking in /d'

wheel: $(STAMP) ## build the wheel into dist/
	rm -rf dist
	$(BIN)/maturin build --release --interpreter $(BIN)/python --out dist

logits-extension: $(STAMP) ## build the kernels of plugins/vplug_logits (release profile) and put them among its sources
	$(BIN)/python tools/logits_extension.py

demo: dev ## build, then answer on your own environment: entry points, time beside importlib.metadata, one `vplug why`
	@$(BIN)/python tools/demo.py $(PYTHON)

test: test-rust test-model dev wheel ## all tests: Rust, Python here, Python on every interpreter of 3.11 to 3.13 found, the logits plugin
	$(TEST_PYTHONS) --here -- $(PYTEST_ARGS)
	$(MAKE) test-logits

oracle: dev ## 2,000 generated installations: vLLM's own loader beside ours
	VPLUG_ORACLE_PAIRS=2000 $(BIN)/python -m pytest tests/test_vllm_oracle.py -s $(PYTEST_ARGS)

test-rust: ## the tests of the core and of the plugin's kernels; no Python is involved
	cargo test --locked --quiet --workspace

test-model: ## every interleaving of the run-once table, by loom
	RUSTFLAGS="--cfg loom" cargo test --locked --quiet --release --test once_model --target-dir target/loom

test-asan: ## the kernels under AddressSanitizer; skipped, and told, where there is no nightly tool-chain
	@if ! cargo +nightly --version >/dev/null 2>&1; then \
		echo "SKIPPED, the kernels were not tested under AddressSanitizer: there is no nightly tool-chain" \
			"(rustup toolchain install nightly --profile minimal)" >&2; \
	else \
		host=$$(rustc +nightly -vV | sed -n 's/^host: //p'); \
		RUSTFLAGS=-Zsanitizer=address cargo +nightly test --locked --quiet -p vplug_logits --lib --tests \
			--target "$$host" --target-dir target/asan; \
	fi

test-python: dev ## pytest in .venv
	$(BIN)/python -m pytest $(PYTEST_ARGS)

test-long: dev ## the long oracle (40 seeds) and a thousand examples for each property; an hour and more
	VPLUG_LONG=1 $(BIN)/python -m pytest --hypothesis-profile=slow --timeout=4000 $(PYTEST_ARGS)

test-pythons: wheel ## pytest on the built wheel, on each other interpreter found, side by side
	$(TEST_PYTHONS) -- $(PYTEST_ARGS)

test-logits: dev ## plugins/vplug_logits without an engine: an environment of 6 GB, then a few minutes
	$(BIN)/python tools/test_logits.py --environment $(VENV)-vllm -- $(PYTEST_ARGS)

test-logits-long: dev ## what the modes of the logits plugin promise, on 20,000 states of SmolLM2; half an hour
	VPLUG_SMOLLM2_STATES=20000 VPLUG_SMOLLM2_LLOYD=4 $(BIN)/python tools/test_logits.py --environment $(VENV)-vllm -- \
		--timeout=5400 -m smollm2 -s $(PYTEST_ARGS)

test-vllm: wheel ## the built wheel, then plugins/vplug_logits, in a real vLLM on the CPU: an environment of 6 GB, then 20 minutes
	$(BIN)/python tools/test_vllm.py --environment $(VENV)-vllm -- $(PYTEST_ARGS)
	$(BIN)/python tools/test_logits.py --vllm --environment $(VENV)-vllm -- $(PYTEST_ARGS)

lint: lint-rust lint-python ## every check that runs no test

lint-rust: $(STAMP)
	cargo fmt --check
	$(CLIPPY) -- -D warnings
	$(CLIPPY) --features python -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps --quiet

lint-python: dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	MYPYPATH=benches/python $(BIN)/mypy benches
	MYPYPATH=tests/real_vllm:tests/real_vllm/plugins $(BIN)/mypy $(wildcard tests/real_vllm/*.py tests/real_vllm/*/*.py)
	MYPYPATH=python $(BIN)/stubtest vplug_rs._core --mypy-config-file pyproject.toml --allowlist tools/stubtest_allowlist.txt
	PYTHONPATH=python:plugins/vplug_logits/python $(BIN)/lint-imports

lint-logits: $(STAMP) ## types of plugins/vplug_logits, which know torch's and vLLM's: after `make test-logits`
	cd plugins/vplug_logits && MYPYPATH=python:tests:../../python $(LOGITS_MYPY) --exclude '^tests/(real_vllm_logits|adapters_vllm)/' python tests
	cd plugins/vplug_logits/tests/adapters_vllm && MYPYPATH=../../python:../../../../python:..:. $(LOGITS_MYPY) .
	cd plugins/vplug_logits/tests/real_vllm_logits && MYPYPATH=../../python:../../../../python:..:.:../../../../tests/real_vllm $(LOGITS_MYPY) .

format: $(STAMP) ## rewrite the sources as `make lint` wants them
	cargo fmt
	$(BIN)/ruff check --fix-only --exit-zero .
	$(BIN)/ruff format .

bench: dev bench-setup ## every benchmark, half an hour on a quiet machine; writes docs/benchmarks.md, the plot and README's figures
	cargo bench --locked --bench scan --bench entry_points --bench metadata --bench record
	$(BIN)/python -m pytest --benchmark-enable --benchmark-only benches/python/test_api_speed.py
	$(BENCH)/publish.py --measure

bench-quick: dev bench-setup ## the same with few rounds: a look, not a figure
	$(BENCH)/startup.py --quick
	$(BENCH)/calls.py --quick
	$(BENCH)/importing.py --quick
	$(BENCH)/many.py --quick
	$(BENCH)/floor.py --quick
	$(BENCH)/probing.py --quick

bench-head: dev logits-extension ## the logits plugin's heads and whole steps beside torch's: half an hour on a quiet machine; writes its docs and README's table
	$(BIN)/python tools/bench_head.py --environment $(VENV)-vllm -- $(BENCH_ARGS)

gate: dev ## system calls and instructions against the stored numbers; needs strace and valgrind
	$(BIN)/python benches/gate.py

lock: $(STAMP) ## renew the lock files
	cargo update
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-header --extra dev pyproject.toml -o requirements-dev.txt
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-header --extra dev --extra bench pyproject.toml -c requirements-dev.txt -o requirements-bench.txt
	$(BIN)/uv pip compile --quiet --upgrade --python-version 3.11 --python-platform x86_64-manylinux_2_28 --generate-hashes \
		--no-emit-index-url --no-header --override requirements-vllm-overrides.txt requirements-vllm.in -o requirements-vllm.txt

clean: ## remove everything that was built, the environments too
	rm -rf target dist build .venv .venv-pythons .venv-vllm .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks .import_linter_cache
	find python tests benches tools -name __pycache__ -prune -exec rm -rf {} +
	rm -f python/vplug_rs/*.so plugins/vplug_logits/python/vplug_logits/*.so
