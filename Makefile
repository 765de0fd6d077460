# `make run` and `make test` set up everything they need: Python 3.11+ and make are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SEEDS ?= 100000
SIMULATIONS := chain log consumers members group
# The tests in another order: make test SHUFFLE=7
ORDER := $(if $(SHUFFLE),-p randomly --randomly-seed=$(SHUFFLE))
# A cluster is many processes: without bytecode each of them would compile everything again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help venv run quick test check lint types chaos simulate mutants bench lock clean

help:
	@echo "make run       set up, then play the demo: kill links, a broker and a coordinator, and prove that nothing was lost"
	@echo "make quick     lint, the cores and 50 histories of each kind, in a minute; ROOM=group for what has to do with groups"
	@echo "make test      set up, then run the tests (seven minutes on two cores; SHUFFLE=7 for another order)"
	@echo "make check     lint, types and tests: what CI runs"
	@echo "make chaos     the long form of the tests on real processes"
	@echo "make simulate  search SEEDS=$(SEEDS) simulated histories of each kind for a broken promise"
	@echo "make mutants   plant bugs one at a time and see that the tests notice (ROOM=log, ONLY=name for some of them)"
	@echo "make bench     throughput and latency beside a peer"
	@echo "make venv      set up only"
	@echo "make lock      pin the newest versions that pyproject.toml allows"

# The stamp names the lock file's content, so a changed lock sets up again. The lock names all there is to install, and
# what is used of it is compiled when it is used.
STAMP := $(VENV)/.ready-$(shell cat requirements.lock pyproject.toml | cksum | cut -d' ' -f1)

venv: $(STAMP)

$(STAMP):
	@echo "Setting up $(VENV) (once; a minute or two)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Octoloom needs Python 3.11 or newer: make PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "Python's venv module is missing: apt-get install python3-venv"; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-compile --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@rm -f $(VENV)/.ready-* && touch $@

run: venv
	@$(BIN)/octoloom demo

# What to run while writing. Lint looks at all files: ruff takes less than a second for them.
quick: lint
	@HYPOTHESIS_PROFILE=quick $(BIN)/python -m pytest -q -n 2 --dist worksteal -W ignore::DeprecationWarning -k "$(ROOM)" \
		tests/core tests/wire tests/test_tidy.py
	@for kind in $(or $(filter $(SIMULATIONS),$(ROOM)),$(SIMULATIONS)); do \
		$(BIN)/octoloom simulate $$kind --seeds 50 || exit 1; done

# Two runs side by side: while one waits for processes, the other computes. The tests on Spark share one Java, in one
# process; all others are spread over four, which mostly wait. What those on Spark say is shown when the others have spoken.
test: venv
	@said=$$(mktemp) && { $(BIN)/python -m pytest $(ORDER) -o cache_dir=.pytest_cache/spark -m "spark and not slow" \
		> "$$said" 2>&1 & } && spark=$$! && trap 'kill $$spark 2> /dev/null; rm -f "$$said"' EXIT && \
	trap 'exit 130' INT TERM; \
	$(BIN)/python -m pytest $(ORDER) -n 4 --dist worksteal -m "not slow and not spark"; others=$$?; \
	echo; echo "The tests on Spark, which ran beside them:"; \
	wait $$spark; on_spark=$$?; cat "$$said"; \
	[ $$others -eq 0 ] || echo "FAILED above: tests that need no Spark"; \
	[ $$on_spark -eq 0 ] || echo "FAILED: tests on Spark"; \
	[ $$others -eq 0 ] && [ $$on_spark -eq 0 ]

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: venv
	$(BIN)/mypy

check: lint types test

chaos: venv
	$(BIN)/python -m pytest -m slow

simulate: venv
	@for kind in $(SIMULATIONS); do $(BIN)/octoloom simulate $$kind --seeds $(SEEDS) || exit 1; done

mutants: venv
	@$(BIN)/python -m tests.mutants.run $(if $(ROOM),--room $(ROOM)) $(if $(ONLY),--only $(ONLY))

bench: venv
	$(BIN)/python benchmarks/chain.py
	$(BIN)/python benchmarks/log.py
	$(BIN)/python benchmarks/group.py
	$(BIN)/python benchmarks/causal.py
	$(BIN)/python benchmarks/spark.py

lock:
	$(PYTHON) -m venv $(VENV)-lock && $(VENV)-lock/bin/pip install --quiet uv
	$(VENV)-lock/bin/uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
		--no-annotate --extra dev --extra spark --output-file requirements.lock pyproject.toml
	rm -rf $(VENV)-lock

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache
