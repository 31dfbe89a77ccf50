# One command each.  A bare machine needs Python 3.11+, pip and a C compiler; everything else goes into .venv, once.
#
#   make demo                          the main job on real input, from trace to checked kernel
#   make test                          the tests to run after every change; make test-all runs all
#   make test FOR=rewrites/algebra.py  those of them that concern a file
#   make demo PYTHON=python3.12        another interpreter
#   make test JOBS=8 ARGS="-k repair"  more processes, arguments for pytest

PYTHON ?= python3
VENV   ?= .venv
JOBS   ?= 2
ARGS   ?=
FOR    ?=
PIP_ARGS ?=

# The Triton versions that generated kernels must work with (oldest supported, torch's own pin, newest), and the tests that say so.
TRITON_VERSIONS ?= 3.6.0 3.7.1 3.9.0
TRITON_TESTS ?= tests/codegen tests/runtime tests/tiles tests/e2e tests/testing/test_running_kernels.py

BIN   := $(VENV)/bin
READY := $(VENV)/.ready
PIP   := $(BIN)/python -m pip --disable-pip-version-check install --quiet $(PIP_ARGS)

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-rest test-combinations test-all fuzz costs lint types check bench bench-device bench-cpu trust tables golden docs test-triton wheel clean distclean

help: ## this text
	@echo "EqFuse: naive PyTorch in, verified fused Triton kernels out."
	@echo
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-12s %s\n", $$1, $$2 }'
	@echo
	@echo "Variables: PYTHON=$(PYTHON)  VENV=$(VENV)  JOBS=$(JOBS)  FOR=  ARGS=  PIP_ARGS=  TRITON_VERSIONS=\"$(TRITON_VERSIONS)\""

# ---- environment -------------------------------------------------------------------------------------------------------------
# Torch goes first and pinned, so that nothing later can pull a newer one.  Without build isolation the install needs no second
# copy of setuptools, and a repeated one needs no network.  `python -m venv` fails where the system splits ensurepip off; then
# the environment is made without pip and filled by the system's.
$(READY): constraints.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "EqFuse needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1).  Try: make PYTHON=python3.12 ..." >&2; exit 1; }
	@test -x $(BIN)/python && $(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV) >/dev/null 2>&1 || { \
	  rm -rf $(VENV); $(PYTHON) -m venv --without-pip $(VENV) && $(PYTHON) -m pip --python $(BIN)/python install -q pip; }
	@echo "setting up $(VENV) (once; torch is a large download)"
	@$(PIP) -c constraints.txt torch==2.13.0 setuptools
	@$(PIP) -c constraints.txt --no-build-isolation -e '.[dev]'
	@touch $@

setup: $(READY) ## make the environment in .venv (the other targets do it by themselves)

# ---- use ---------------------------------------------------------------------------------------------------------------------
demo: $(READY) ## naive attention at Llama-3-8B prefill shape: trace, saturation, plan, Triton source, static report, check; times on this machine
	@$(BIN)/python -m eqfuse demo $(ARGS)

bench: $(READY) ## the table of every program in the corpus, as modelled
	@$(BIN)/python benchmarks/run.py $(ARGS)

bench-device: $(READY) ## kernels on a GPU: ARGS="write FOLDER" here, "run FOLDER" there (torch and triton suffice), "keep FOLDER" and "fit FILE" here
	@$(BIN)/python -m benchmarks.device $(ARGS)

bench-cpu: $(READY) ## kernels in C against eager, torch's own operations and torch.compile on this machine; ten quiet minutes of two cores
	@$(BIN)/python -m benchmarks.cpu $(ARGS)

trust: $(READY) ## how much is checked, how fast, and that every seeded fault is caught; a minute of CPU time
	@$(BIN)/python benchmarks/trust.py $(ARGS)

tables: $(READY) ## the Markdown tables of benchmarks/README.md, from the saved results
	@$(BIN)/python benchmarks/tables.py --write

golden: $(READY) ## the kernels of the corpus in tests/golden, which tests compare; review what changed as a diff
	@$(BIN)/python tests/codegen/golden.py $(ARGS)

docs: $(READY) ## the generated parts of the documentation (the kernel in README.md, the pictures in design.md and layouts.md, the page of operators), and the tour
	@$(BIN)/python docs/readme_kernel.py --write
	@$(BIN)/python docs/pictures.py --write
	@$(BIN)/python docs/layout_pictures.py --write
	@$(BIN)/python docs/operators_page.py --write
	@$(BIN)/python docs/tour.py

# ---- checks ------------------------------------------------------------------------------------------------------------------
# Each worker takes its half from the front of what is left: neighbours share e-graphs and plans (tests/sharing.py).  What pytest makes of
# the test modules is kept, whatever the environment says: to make it again takes each worker six seconds.
export PYTHONDONTWRITEBYTECODE :=
PYTEST := $(BIN)/python -m pytest -n $(JOBS) --dist worksteal

test: export EQFUSE_TEST_FOR := $(FOR)
test: $(READY) ## the tests that say most for their time (tests/quick.py); FOR=rewrites/algebra.py: those that concern a file
	@$(PYTEST) -m "not exhaustive" $(ARGS)

test-rest: $(READY) ## most of the others: once more for other types, data and devices
	@$(PYTEST) -m "exhaustive and not combination" $(ARGS)

test-combinations: $(READY) ## what CI leaves out: combinations of what others look at one by one, and what takes longest
	@$(PYTEST) -m combination $(ARGS)

test-all: export EQFUSE_TEST_FOR := $(FOR)
test-all: $(READY) ## all of these, and what each takes (make costs)
	@rm -f $(VENV)/costs.jsonl
	@EQFUSE_TEST_COSTS="$(abspath $(VENV)/costs.jsonl)" $(PYTEST) $(ARGS)

fuzz: $(READY) ## random programs through the whole path, without an end: ARGS="0 2000 --interpret 10 --json log.jsonl" from seed 0 to 2000
	@$(BIN)/python -m eqfuse.testing.fuzz $(ARGS)

costs: $(READY) ## what each test took in the last make test-all, for the choice of make test (tests/costs.json)
	@$(BIN)/python tests/quick.py $(VENV)/costs.jsonl

lint: $(READY) ## ruff: rules, and the layout of the code (ruff format . writes it)
	@$(BIN)/python -m ruff check .
	@$(BIN)/python -m ruff format --check --quiet . || { echo 'lint: run $(BIN)/python -m ruff format .' >&2; exit 1; }

# The root is the package; a link gives mypy the name it is installed under, whatever the checkout is called.
types: $(READY) ## mypy
	@mkdir -p $(VENV)/src && ln -sfn "$(CURDIR)" $(VENV)/src/eqfuse
	@cd $(VENV)/src && $(abspath $(BIN))/python -P -m mypy --config-file "$(CURDIR)/pyproject.toml" -p eqfuse

check: lint types test test-rest ## lint, types and tests: what CI runs

# A thin environment per version: its own triton in front of everything else of .venv.
.venv-triton-%/.ready: $(READY)
	@$(PYTHON) -m venv --without-pip $(@D)
	@echo "import site; site.addsitedir('$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')')" \
	  > $$($(@D)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/base.pth
	@$(BIN)/python -m pip --disable-pip-version-check --python $(@D)/bin/python install --quiet $(PIP_ARGS) \
	  --no-deps --ignore-installed triton==$*
	@touch $@

test-triton: $(TRITON_VERSIONS:%=.venv-triton-%/.ready) ## the generated-kernel tests under each supported Triton version
	@set -e; for v in $(TRITON_VERSIONS); do \
	  echo "== triton $$v"; \
	  .venv-triton-$$v/bin/python -c "import triton, sys; sys.exit(triton.__version__ != '$$v' and f'found triton {triton.__version__}')"; \
	  .venv-triton-$$v/bin/python -m pytest -n $(JOBS) $(TRITON_TESTS) $(ARGS); \
	done

wheel: $(READY) ## build the wheel into dist/
	@$(BIN)/python -m pip --disable-pip-version-check wheel --quiet --no-deps --no-build-isolation -w dist .
	@ls dist

clean: ## remove build products and caches
	@rm -rf build dist eqfuse.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -not -path './.venv*' -prune -exec rm -rf {} +

distclean: clean ## remove the environments too
	@rm -rf .venv .venv-triton-*
