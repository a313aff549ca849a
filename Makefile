# Every target prepares what it needs; what is there already is not done again.
.DEFAULT_GOAL := help
.PHONY: help setup build demo test test-all fuzz fmt lint bench docs wheel wheels api lock clean

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## everything that the other targets need: packages, Java, the extension, real Hudi for the tests
	@scripts/setup python java native hudi

build: ## the Rust extension, beside the Python package
	@scripts/setup python native

demo: ## the main job on real data: a year of flights as a change feed, through PySpark
	@scripts/setup python java native
	@scripts/run python demo/flights.py

test: ## all tests but those that need a second Spark line, a cluster or minutes
	@scripts/setup python java native hudi
	@scripts/test

test-all: ## those too, which takes hours; STEPS=Spark for the steps with that in their names
	@scripts/setup python java native hudi spark4
	@scripts/test all '$(STEPS)'

fuzz: ## damaged log files and blocks, FUZZ_SECONDS=120 for each kind; needs a nightly Rust and cargo-fuzz
	@scripts/setup python
	@scripts/fuzz $(or $(FUZZ_SECONDS),120)

fmt: ## formats Rust and Python
	@scripts/setup python
	cargo fmt --all
	@scripts/run ruff format .
	@scripts/run ruff check --fix-only --quiet .

lint: ## formatting, clippy, ruff and mypy, changing nothing
	@scripts/setup python
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --release --locked -- -D warnings
	@scripts/run ruff check .
	@scripts/run ruff format --check .
	@scripts/run mypy

bench: ## the core's hot loops (criterion), then the same work by other systems side by side
	@scripts/setup bench java native hudi
	cargo bench --locked -p hoodoo -p hoodoo-hfile
	@scripts/run python -m benches.peers
	@scripts/run python -m benches.peers.timeline
	@scripts/run python -m benches.peers.growth --hudi
	@scripts/run python -m benches.peers.merge_on_read
	@scripts/run python -m benches.peers.clustering

docs: ## the documentation site, into site/
	@scripts/setup docs
	@VENV=.venv-docs scripts/run python scripts/benchmark_chart.py --check
	@VENV=.venv-docs NO_MKDOCS_2_WARNING=1 scripts/run mkdocs build --strict

wheel: ## an optimised wheel for this machine, into target/wheels
	@scripts/setup python
	@scripts/run maturin build --locked

wheels: ## the wheel that is published for this kind of machine, tried, and the sdist; into dist
	@scripts/setup release
	@rm -rf dist
	@VENV=.venv-release scripts/run scripts/wheels
	@VENV=.venv-release scripts/run scripts/try_wheel dist

api: ## the public Python API, compared with that of the last release
	@scripts/setup release
	@VENV=.venv-release scripts/run scripts/api

lock: ## pins the Python requirements again
	@scripts/lock

clean: ## removes what was built, the environments and the caches
	rm -rf .venv .venv-spark4 .venv-docs .venv-release .cache site target dist python/hoodoo/_native.abi3.so
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis
