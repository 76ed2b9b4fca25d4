# Everything below works from a fresh clone: Python 3.11, pip and make are enough.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
# Tests at a time. Those of the screens wait half of their time, so three pay off on two cores.
JOBS ?= 3

# A folder of real Claude Code recordings, which are not part of this project.
RECORDINGS ?= ../shared/corpus/claude-code

export PIP_DISABLE_PIP_VERSION_CHECK = 1
export PIP_ROOT_USER_ACTION = ignore
# Twice quiet: errors are shown, advice is not.
PIP := $(BIN)/python -m pip install -qq --no-warn-script-location

.DEFAULT_GOAL := help
.PHONY: help setup demo test check pytest pythons slow colours live mutants attack bench growth snapshots samples screenshots readme recordings agreement instructions langchain regret lab agents build clean

help: ## list what there is to make
	@sed -n 's/^\([a-z]*\):.*## /\1	/p' $(MAKEFILE_LIST) | while IFS='	' read -r name about; do printf '%-12s %s\n' "$$name" "$$about"; done

setup: $(VENV)/.ready ## create the environment, with pinned versions

# Where the interpreter comes without ensurepip (some distributions split it off), its own pip fills the environment.
$(BIN)/python:
	@echo "creating $(VENV)"
	@$(PYTHON) -m venv $(VENV) >/dev/null || \
		{ $(PYTHON) -m venv --without-pip $(VENV) && $(PYTHON) -m pip --quiet --python $(BIN)/python install pip; }

$(VENV)/.ready: requirements-dev.txt pyproject.toml | $(BIN)/python
	@echo "installing the pinned requirements"
	@$(PIP) --requirement requirements-dev.txt
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.live: requirements-live.txt $(VENV)/.ready
	@echo "installing a small local model server"
	@$(PIP) --no-deps --requirement requirements-live.txt
	@touch $@

$(VENV)/.mutants: requirements-mutants.txt $(VENV)/.ready
	@echo "installing a mutation tool"
	@$(PIP) --no-deps --requirement requirements-mutants.txt
	@touch $@

demo: setup ## open the inspector on a sample session
	@$(BIN)/context-tui demo

test: check pytest ## lint, types, layers and the tests

pytest: setup ## the tests alone
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal $(TESTS)

# Newer Pythons of the system or of pyenv, each with an environment of its own.
PYTHONS ?= $(wildcard /usr/bin/python3.1[2-9] /usr/local/bin/python3.1[2-9] $(HOME)/.pyenv/versions/3.1[2-9]*/bin/python)

pythons: ## the tests with every newer Python that is at hand (TESTS names some)
	@test -n "$(strip $(PYTHONS))" || echo "no newer Python is at hand"
	@for python in $(PYTHONS); do \
		venv=.venv-$$($$python -c 'import sys; print("%d.%d" % sys.version_info[:2])') && \
		echo "== $$python" && $(MAKE) --no-print-directory PYTHON=$$python VENV=$$venv pytest || exit 1; \
	done

check: setup ## lint, types and layers only
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports

slow: setup ## the tests that take longer
	$(BIN)/python -m pytest -m slow -n $(JOBS)

colours: setup ## what a terminal gets, in many themes and with few or no colours
	$(BIN)/python -m pytest -m slow -n $(JOBS) tests/tui/test_colours.py

live: $(VENV)/.live ## the tests against a real local model server
	$(BIN)/python -m pytest -m live tests/live

# Mutants, and by which seed they are drawn; the seed is printed if it is not given.
MUTANTS ?= 300
mutants: $(VENV)/.mutants ## break sampled lines of the pure layers: the share that the tests notice (40 minutes)
	$(BIN)/python -m scripts.mutants --count $(MUTANTS) $(if $(SEED),--seed $(SEED))

# Mutated sessions, and the number of the first one.
CASES ?= 20000
attack: setup ## mutated sessions of every format through every stage (20 minutes)
	$(BIN)/python -m tests.fuzz $(CASES) $(SEED)

bench: setup ## measure every budget (takes minutes and 500 MB of disk)
	$(BIN)/python -m benchmarks.run

growth: setup ## measure what grows how, for sessions of awkward shapes (takes minutes)
	$(BIN)/python -m benchmarks.growth

snapshots: setup ## draw the snapshots anew; look at each picture before committing
	$(BIN)/python -m pytest --snapshot-update

samples: setup ## rebuild the sample sessions from what is stored in scripts/samples
	$(BIN)/python scripts/build_samples.py

screenshots: setup ## draw the pictures of the README; look at each before committing
	$(BIN)/python scripts/screenshots.py

readme: setup ## write the README's tables and outputs anew
	$(BIN)/python scripts/readme.py --write

recordings: setup ## our numbers beside those of real recordings, into docs/recordings.md
	$(BIN)/python scripts/recordings.py $(RECORDINGS) --write

agreement: setup ## what each format's reader makes of real recordings, into docs/agreement.md
	$(BIN)/python scripts/agreement.py $(dir $(RECORDINGS)) --write

instructions: setup ## instructions that rules find beside labels made by reading, into docs/instructions.md
	$(BIN)/python scripts/instructions.py $(dir $(RECORDINGS)) --write

langchain: setup ## LangChain's own middleware beside its presets, into docs/langchain.md; installs LangChain
	@$(PIP) --requirement requirements-langchain.txt
	$(BIN)/python scripts/langchain_agreement.py $(dir $(RECORDINGS)) --write

regret: setup ## later uses beside labels made by reading, into docs/regret.md
	$(BIN)/python scripts/regret.py $(dir $(RECORDINGS)) --write

lab: setup ## the tuning lab over real recordings, into docs/lab.md (takes a minute)
	$(BIN)/python scripts/lab.py $(dir $(RECORDINGS)) --write

agents: setup ## real agents as judges, into docs/agents.md (downloads 3 GB, takes minutes; needs node)
	$(BIN)/python -m scripts.agents all --write

build: setup ## build the wheel and the source archive into dist/
	$(BIN)/python -m build --no-isolation

clean: ## remove what can be made again
	rm -rf $(VENV) .venv-* dist .bench .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis snapshot_report.html
