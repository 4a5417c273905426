# Start with `make demo` and `make test`; both install their dependencies into .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.tidemill-setup
CLASSES := $(VENV)/.tidemill-classes
PIP    := $(BIN)/python -m pip --quiet --disable-pip-version-check
UV     := $(BIN)/uv pip install --quiet --python $(BIN)/python  # twice as quick; pip replaces it where it cannot download

# PySpark comes as source: its wheel of 400 MB is unpacked as soon as it is built.
UNPACKED := --config-settings=--build-option=--compression=stored

# For campaigns of an hour, in which it pays off that Java optimizes what runs often.
CAMPAIGN := JDK_JAVA_OPTIONS="-XX:ReservedCodeCacheSize=400m -XX:+UseParallelGC"

# The tests start many processes. Bytecode caching stays on, so that no process compiles all modules again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: preflight packages setup demo test suite test-long test-spark-only test-memory bench-test test-cluster check chromium lock bench crash search corpus soak fuzz pictures clean

preflight:
	@$(PYTHON) scripts/preflight.py

packages: preflight $(STAMP)

setup: packages $(CLASSES)

$(STAMP): requirements.lock pyproject.toml scripts/preflight.py
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing Tidemill and its locked dependencies into $(VENV) (a few minutes the first time)"
	@sed -n '/^uv==/,/[^\\]$$/p' requirements.lock > $(VENV)/uv.lock
	@$(PIP) install --require-hashes -r $(VENV)/uv.lock
	@$(UV) --no-cache $(UNPACKED) --require-hashes -r requirements.lock || $(PIP) install --require-hashes -r requirements.lock
	@$(UV) --no-deps --editable . || $(PIP) install --no-deps --editable .
	@touch $(STAMP)

$(CLASSES): $(STAMP)
	@JDK_JAVA_OPTIONS=-XX:TieredStopAtLevel=1 $(BIN)/tidemill prepare
	@touch $(CLASSES)

demo: setup  ## run the demonstration on embedded defaults: SQLite, local disk, local Spark
	@$(BIN)/tidemill demo

test:  ## run all checks and all tests
	@$(MAKE) --no-print-directory --jobs 2 check suite

suite: setup chromium
	@$(BIN)/python -m pytest -n 2 --dist worksteal

check: packages  ## check style, types, import contracts and words
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python scripts/check_words.py

chromium:  ## install chromium for the browser tests; without it they are skipped
	@command -v chromium >/dev/null || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null \
	  && echo "Installing chromium for the browser tests" && apt-get update -qq \
	  && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null; } \
	  || echo "chromium is missing and cannot be installed: the browser tests are SKIPPED"

bench: setup  ## measure the main figures of docs/benchmarks.md on this machine
	@$(BIN)/python -m benchmarks overhead
	@$(BIN)/python -m benchmarks merge
	@$(BIN)/python -m benchmarks incremental --pages 1000000
	@$(BIN)/python -m benchmarks join
	@$(BIN)/python -m benchmarks queries
	@$(BIN)/python -m benchmarks growth

crash: setup  ## run the long crash tests: kill at every step of commits, one-shot workflows and stateful tasks
	@TIDEMILL_CRASH_ROUNDS=5 $(BIN)/python -m pytest -n 2 --dist worksteal -m "" --timeout 3600 tests/acceptance/test_crash.py \
	  tests/acceptance/test_crash_oneshot.py tests/acceptance/test_keyed.py tests/acceptance/test_killed_stateful.py \
	  tests/acceptance/test_up_oneshot.py tests/contract/test_catalog_pin_races.py

test-long: setup chromium  ## run the long tests that `make test` leaves out
	@$(BIN)/python -m pytest -n 2 --dist worksteal -m long

test-spark-only: setup chromium  ## run all tests with every step on Spark: engine.local = "off"
	@TIDEMILL_ENGINE_LOCAL=off $(BIN)/python -m pytest -n 2 --dist worksteal

bench-test: setup  ## run the tests of the benchmarks and of the papers' experiments
	@$(BIN)/python -m pytest -n 2 --dist worksteal benchmarks

test-cluster: setup  ## test with executors in separate processes, with and without the project's directory, and with Spark Connect
	@$(PIP) install --editable ".[connect]"
	@TIDEMILL_CLUSTER=1 $(BIN)/python -m pytest -n0 tests/cluster

test-memory: setup  ## refresh a join with ten million rows with 64 MB for the driver, and measure its memory
	@TIDEMILL_MEMORY=1 $(BIN)/python -m pytest -n 0 -s tests/acceptance/test_driver_memory.py

soak: setup  ## for ten minutes, kill and suspend servers, cut their connections and shift their clocks
	@TIDEMILL_SOAK=600 $(BIN)/python -m pytest -m "" tests/acceptance/test_soak.py --timeout 1200
	@TIDEMILL_SOAK=600 TIDEMILL_SOAK_SPARK=1 $(BIN)/python -m pytest -m "" tests/acceptance/test_soak.py --timeout 1800

fuzz: setup  ## for half an hour, send valid and invalid requests to the API as every role: no server error, no leak
	@TIDEMILL_FUZZ=1800 $(BIN)/python -m pytest -n 0 -s --timeout 3600 tests/server/test_fuzz.py

pictures: setup chromium  ## take the screenshots docs/images/page-*.png again
	@$(BIN)/python -m tests.ui.pictures

search: setup  ## run the property tests with many more random histories than the suite
	@TIDEMILL_API_EXAMPLES=200 $(BIN)/python -m pytest -n 2 --dist worksteal tests/server/test_document.py
	@$(CAMPAIGN) TIDEMILL_EXAMPLES=1600 $(BIN)/python -m pytest -n 2 --dist worksteal -m "" --timeout 7200 tests/oracle tests/contract tests/intake tests/local tests/runtime/test_oneshots.py tests/runtime/test_freshness_targets.py tests/runtime/freshness/test_catch_up.py tests/acceptance/test_tpch.py benchmarks/tests/test_queries.py
	@$(CAMPAIGN) TIDEMILL_EXAMPLES=1600 TIDEMILL_ENGINE_LOCAL=off $(BIN)/python -m pytest -n 0 --timeout 7200 tests/oracle/test_queries.py -k stay_fresh

corpus: setup  ## compare every construct of Spark's SQL reference with Spark after each of four steps, at every scale
	@$(CAMPAIGN) TIDEMILL_CORPUS=all $(BIN)/python -m pytest -n 0 -s --timeout 14400 tests/oracle/test_corpus.py

lock: setup  ## pin the newest versions that pyproject.toml allows
	@$(BIN)/uv pip compile pyproject.toml --group dev --extra s3 --universal --python-version 3.11 \
	  --generate-hashes --no-header --no-emit-index-url --no-annotate --upgrade --quiet -o requirements.lock

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
