# Two commands matter: `make run` and `make test`. Both need Python 3.11 or newer and make, nothing else.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
RUN    ?= .run
# Twice the number of cores: tests wait for processes and clocks as much as they compute. With `worksteal` a worker keeps
# to the tests of a file as long as it can, and opens a browser or a database of that file once.
WORKERS ?= $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN) * 2 )))

# `make run` beside another everwhen: any free port where the default one is taken.
FREE_PORT = $(shell $(PYTHON) -c 'import socket; print("--port 0" * (socket.socket().connect_ex(("127.0.0.1", 8750)) == 0))')

# Every layer once, without PostgreSQL's, the queues' and the crash tests' time: what to run after each small change.
QUICK  := tests/decide tests/model tests/story tests/scheduler tests/engine tests/leftovers tests/store tests/quickstart \
          tests/test_signals.py tests/test_package.py tests/docs/test_links.py tests/docs/test_snippets.py

# Tests of tests/scheduler that start servers, of other projects too, or wait for seconds of real time.
SLOW    := test_frameworks.py test_frameworks_guide.py test_mounted_api.py test_django.py test_flask.py \
           test_transactions.py test_listeners.py test_twenty_things.py

# Where a machine forbids bytecode, every process that a test starts would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run test suite quick check coverage fuzz chaos bench dist reference docs format clean

help: ## this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-9s %s\n", $$1, $$2}'

run: $(STAMP) ## fire the schedules of examples/quickstart, and serve their API, until Ctrl-C
	@mkdir -p $(RUN) && chmod 700 $(RUN)
	@test -s $(RUN)/token -a -s $(RUN)/everwhen.db || { umask 077; $(BIN)/everwhen token create make-run --role admin \
	  --config examples/quickstart/everwhen.yaml --database sqlite:///$(RUN)/everwhen.db > $(RUN)/token; }
	@echo "admin token: $$(cat $(RUN)/token)"
	@PATH="$(abspath $(BIN)):$$PATH" $(BIN)/everwhen up --config examples/quickstart/everwhen.yaml --database sqlite:///$(RUN)/everwhen.db \
	  $(if $(EVERWHEN_API_PORT),,$(FREE_PORT))

test: $(STAMP) check suite ## lint, types, import contracts, and every test

suite: $(STAMP) ## every test, and nothing else of `make test`
	@$(BIN)/python tools/system_packages.py
	$(BIN)/pytest -n $(WORKERS) --dist worksteal

quick: $(STAMP) ## a subset of the tests, in less than a minute
	$(BIN)/pytest -n $(WORKERS) $(addprefix --ignore tests/scheduler/,$(SLOW)) $(QUICK)

check: $(STAMP) ## the parts of `make test` that run no test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

# The tests that exercise the core directly, in one process.
COVERAGE := tests/decide tests/model tests/verify tests/timetable tests/stateful tests/operations tests/conformance \
            tests/story tests/test_timing.py src/everwhen/decide src/everwhen/timetable src/everwhen/verify

coverage: $(STAMP) ## which branches of decide, verify and timetable no test takes
	$(BIN)/coverage run -m pytest -q -p no:cacheprovider $(COVERAGE)
	$(BIN)/coverage report

fuzz: $(STAMP) ## the long form of the generated tests
	$(BIN)/python tools/system_packages.py
	EVERWHEN_FUZZ=long $(BIN)/pytest -n $(WORKERS) -m long --timeout 3600 $(foreach part,$(CHAOS),--ignore tests/$(part))

# What `make chaos` runs, and `make fuzz` leaves to it.
CHAOS := proof crash boundaries load browser/test_speed.py

chaos: $(STAMP) ## the proof (10 minutes of faults; EVERWHEN_CHAOS_SECONDS, _SEED, _REPORTS), long crash tests, every statement, one caller against all others, a page that takes 360,000 events
	@$(BIN)/python tools/system_packages.py
	$(BIN)/pytest -m long tests/proof
	$(BIN)/pytest -n $(WORKERS) -m long tests/crash --timeout 3600
	$(BIN)/pytest -n $(WORKERS) -m long tests/boundaries --timeout 3600
	$(BIN)/pytest -m long tests/load --timeout 3600
	$(BIN)/pytest -m long tests/browser/test_speed.py --timeout 3600

bench: $(STAMP) ## measure against peers; writes benchmarks/results/ and a chart of it
	$(BIN)/python -m benchmarks

dist: $(STAMP) ## build wheel, source archive and SBOM (CycloneDX) into dist/; RELEASING.md says what comes next
	rm -rf dist
	$(BIN)/python -m hatchling build
	$(BIN)/python tools/sbom.py > dist/everwhen.cdx.json

reference: $(STAMP) ## write docs/reference/ from the source
	$(BIN)/python -m tools.reference

docs: $(STAMP) ## build the documentation into site/; any warning is an error
	$(BIN)/zensical build --clean --strict
	@echo 'open site/index.html'

format: $(STAMP) ## let ruff arrange the code
	$(BIN)/ruff check --fix . && $(BIN)/ruff format .

clean: ## remove the environment and every cache
	rm -rf $(VENV) .venv-* $(RUN) .bench .cache dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis \
	  .import_linter_cache .coverage

# The environment is made anew when what it is made from has changed. uv installs it in seconds; where uv cannot be
# had, or cannot reach the packages, pip does the same work slowly. uv is told to trust what the machine trusts, as pip
# does: behind a company's proxy it would otherwise refuse every certificate.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo 'everwhen needs Python 3.11 or newer as $(PYTHON); install it, or name one: make PYTHON=python3.12' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || \
	  { echo '$(PYTHON) cannot make an environment: on Debian and Ubuntu install python3-venv' >&2; exit 1; }
	@echo 'making $(VENV) …' >&2
	@$(PYTHON) -m venv --clear $(VENV)
	@{ $(BIN)/python -m pip install -q --disable-pip-version-check uv 2>/dev/null && \
	  UV_SYSTEM_CERTS=true UV_COMPILE_BYTECODE=true $(BIN)/uv pip install -q --python $(BIN)/python -e '.[dev]' -c constraints.txt; } || \
	  $(BIN)/python -m pip install -q --disable-pip-version-check -e '.[dev]' -c constraints.txt
	@touch $@
