# Everything a newcomer needs: `make demo` and `make test`. Both set up what they use.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.tidemill-setup

# The tests start many processes: none of them is to compile all modules again, whatever is usual on this machine.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: preflight setup demo test bench-test test-cluster check chromium lock bench crash search corpus soak pictures clean

preflight:
	@$(PYTHON) scripts/preflight.py

setup: preflight $(STAMP)

$(STAMP): requirements.lock pyproject.toml scripts/preflight.py
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing Tidemill and its locked dependencies into $(VENV) (a few minutes the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@$(BIN)/tidemill prepare
	@touch $(STAMP)

demo: setup  ## the main job on embedded defaults: SQLite, local disk, local Spark
	@$(BIN)/tidemill demo

test: setup check chromium  ## every check and every test
	@$(BIN)/python -m pytest -n 2 --dist loadgroup

check: setup  ## style, types, the import contract and the words
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python scripts/check_words.py

chromium:  ## for the browser tests of the page; where it cannot be installed they are left out
	@command -v chromium >/dev/null || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null \
	  && echo "Installing chromium for the browser tests" && apt-get update -qq \
	  && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null; } \
	  || echo "chromium is not there and cannot be installed here: the browser tests are LEFT OUT"

bench: setup  ## the figures of docs/benchmarks.md, measured here
	@$(BIN)/python -m benchmarks overhead
	@$(BIN)/python -m benchmarks merge
	@$(BIN)/python -m benchmarks incremental --pages 1000000
	@$(BIN)/python -m benchmarks join
	@$(BIN)/python -m benchmarks queries
	@$(BIN)/python -m benchmarks growth

crash: setup  ## the long crash campaign: killed at every step of commits, of one-shot workflows and of tasks with state
	@TIDEMILL_CRASH_ROUNDS=5 $(BIN)/python -m pytest -n 2 --dist loadgroup --timeout 3600 tests/acceptance/test_crash.py \
	  tests/acceptance/test_crash_oneshot.py tests/acceptance/test_keyed.py tests/acceptance/test_survival.py \
	  tests/acceptance/test_up_oneshot.py tests/contract/test_catalog_pin_races.py

bench-test: setup  ## the tests of the benchmarks and of the papers' experiments
	@$(BIN)/python -m pytest -n 2 --dist loadgroup benchmarks

test-cluster: setup  ## executors in processes of their own, with and without the project's directory, and Spark Connect
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[connect]"
	@TIDEMILL_CLUSTER=1 $(BIN)/python -m pytest -n0 tests/cluster

soak: setup  ## servers killed, frozen, cut off and told another time, for ten minutes
	@TIDEMILL_SOAK=600 $(BIN)/python -m pytest tests/acceptance/test_soak.py --timeout 1200

pictures: setup chromium  ## docs/images/page-*.png, taken anew
	@$(BIN)/python -m tests.ui.pictures

search: setup  ## the long property search: many more random histories than the suite tries
	@TIDEMILL_EXAMPLES=1600 $(BIN)/python -m pytest -n 2 --dist loadgroup --timeout 7200 tests/oracle tests/contract tests/intake tests/acceptance/test_tpch.py benchmarks/tests/test_queries.py
	@TIDEMILL_EXAMPLES=1600 TIDEMILL_LOCAL_WORK=off $(BIN)/python -m pytest -n 0 --timeout 7200 tests/oracle/test_queries.py -k stay_fresh

corpus: setup  ## every construct of Spark's SQL reference, held to Spark after each of four steps, at every scale
	@TIDEMILL_CORPUS=all $(BIN)/python -m pytest -n 0 -s --timeout 14400 tests/oracle/test_corpus.py

lock:  ## pin the newest versions that pyproject.toml admits
	@$(PYTHON) -m uv pip compile pyproject.toml --group dev --extra s3 --universal --python-version 3.11 \
	  --generate-hashes --no-header --no-emit-index-url --no-annotate --upgrade --quiet -o requirements.lock

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
