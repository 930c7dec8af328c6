# The one task runner. Every target works on a fresh clone with nothing but python3 (3.11 or later) and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEV := $(STAMP)-dev

# The folder of the paper's data files, if there is one, and the parts of the reproduction to run (default: all).
DATA ?= $(wildcard ../shared/datasets/paper)
PARTS ?=
REPRODUCE = OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.reproduce $(PARTS) $(if $(DATA),--data $(DATA))

.PHONY: help install peers demo test test-slow docs dist wheel-test floors newest fuzz faults reproduce reproduce-full bench boards boards-quick pages pictures lint format clean
.DEFAULT_GOAL := help

help:
	@echo "make demo       train on 1 % of a 30,000-row spiral, label all of it, save a model and a picture"
	@echo "make test       the test suite, without the slow reproductions"
	@echo "make test-slow  the reproductions of the paper"
	@echo "make docs       the site, with its gallery, in docs/_build/html"
	@echo "make dist       wheel and sdist in dist/, checked; make wheel-test installs the wheel in empty environments and uses it"
	@echo "make floors     tests with the oldest versions of the requirements [TORCH=2.13.0 for another torch]"
	@echo "make newest     the same tests with the newest versions of everything except torch"
	@echo "make fuzz       20,000 hostile files, rows, parameters, calls and command lines [CASES=N] [SEED=S]; make test has a short form"
	@echo "make faults     2,000 kills and interrupts, full disks, little memory, lost workers; rewrites docs/reliability.md [KILLS=N]"
	@echo "make reproduce  the paper's tables and figures, quick form: one seed, small data sets, a few minutes"
	@echo "make reproduce-full [DATA=folder] [PARTS=\"full oos\"]  the long form, which writes docs/reproduction.md"
	@echo "make peers      install the packages of the other algorithms, for the reproduction"
	@echo "make bench      speed and memory of knet and its peers; rewrites docs/performance.md"
	@echo "make pictures   the pictures of the guide, in docs/images"
	@echo "make boards     knet and its peers, board by board; writes docs/benchmarks.md [BATTERY=folder] [VECTORS=folder] [ONLY=suite,unknown]"
	@echo "make boards-quick  every board on small generated data, in a minute or two; writes build/benchmarks.md"
	@echo "make pages      mark the pages of figures that are older than the code"
	@echo "make lint       format check, lint, types"
	@echo "make format     format the sources"
	@echo "make clean      remove everything that was generated, including the environment"

install: $(DEV)

# knet with one of its extras; installed again only if the requirements or the version change. Modules are compiled when they are imported.
$(STAMP)-%: pyproject.toml constraints.txt src/knet/__init__.py
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e '.[$*]'
	@touch $@

demo: $(STAMP)-plots
	$(BIN)/knet demo

# One thread per worker: two workers then use two cores.
test: $(DEV)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m "not slow"

test-slow: $(DEV)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m slow

# A warning is an error. Needs no network; the links between the pages are checked.
docs: $(STAMP)-docs
	OMP_NUM_THREADS=1 $(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html

dist: $(STAMP)-release
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/twine check --strict dist/*

wheel-test: dist
	$(BIN)/python packaging/try_wheel.py

# The oldest versions that pyproject.toml accepts, in an environment of their own. Where the index offers an old torch only with
# gigabytes of GPU libraries, TORCH names a version to use instead. Old versions warn about each other: that is no error. Two tests
# are left out: before pandas 3, rows have another order in memory, so that sums differ in the last digit, and text has no dtype.
FLOORS := .venv-floors
LIBRARIES ?= dask,excel,plots,report,tables
TORCH ?=
FLOOR_TESTS := dask estimator model_file plots sklearn_contract tables $(if $(findstring onnx,$(LIBRARIES)),export)
floors:
	rm -rf $(FLOORS)
	$(PYTHON) -m venv $(FLOORS)
	$(PYTHON) packaging/floors.py $(LIBRARIES) $(if $(TORCH),| sed 's/^torch==.*/torch==$(TORCH)/') > $(FLOORS)/floors.txt
	$(FLOORS)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile -c $(FLOORS)/floors.txt \
		-e '.[$(LIBRARIES)]' hypothesis pytest pytest-timeout pytest-xdist
	OMP_NUM_THREADS=1 $(FLOORS)/bin/python -m pytest -n 2 -m "not slow" -o filterwarnings=default \
		--deselect tests/test_dask.py::test_fit_on_all_rows_equals_the_fit_in_memory \
		--deselect tests/test_dask.py::test_wrong_columns_are_refused_at_once $(FLOOR_TESTS:%=tests/test_%.py)

# The newest versions that the index has; only torch stays, since a new one may come with gigabytes of GPU libraries. The list of
# versions that differ from constraints.txt is printed first: if a test fails, the cause is among them.
NEWEST := .venv-newest
newest:
	rm -rf $(NEWEST)
	$(PYTHON) -m venv $(NEWEST)
	$(NEWEST)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile "$(shell grep '^torch==' constraints.txt)" \
		-e '.[$(LIBRARIES)]' hypothesis pytest pytest-timeout pytest-xdist
	@echo "newer than in constraints.txt:"
	@$(NEWEST)/bin/python -m pip freeze --exclude-editable --disable-pip-version-check | grep -vxFf constraints.txt || true
	OMP_NUM_THREADS=1 $(NEWEST)/bin/python -m pytest -n 2 -m "not slow" $(FLOOR_TESTS:%=tests/test_%.py)

# Attacks with inputs and faults from seeds; a failure is printed with the command that repeats it. Few faults (KILLS=50) take
# minutes, the default an hour.
CASES ?= 20000
KILLS ?= 1000
SEED ?= 0
fuzz: $(DEV)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.fuzz --cases $(CASES) --seed $(SEED)

faults: $(DEV)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.fuzz --cases $(CASES) --seed $(SEED) --write
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.faults --kills $(KILLS) --seed $(SEED) --write

# The packages of the other algorithms; the tables name those that are not installed.
peers: $(DEV) $(STAMP)-peers

reproduce: $(DEV)
	$(REPRODUCE) --quick

reproduce-full: $(DEV)
	$(REPRODUCE)

# PEERS names an interpreter that has spectralnet and clustpy; without one their cases are skipped. LIMIT is the number of
# seconds after which the paper's recipe is stopped.
PEERS ?= $(BIN)/python
LIMIT ?= 900
bench: $(DEV)
	$(BIN)/python -m benchmarks.speed $(DATA) -o build/speed.jsonl --peers-python $(PEERS) --limit $(LIMIT)
	$(BIN)/python -m benchmarks.ratios -o build/ratios.txt
	$(BIN)/python -m benchmarks.speed_page build/speed.jsonl docs build/ratios.txt

pictures: $(DEV)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.pictures

# Each board of ONLY takes minutes; the page is written from all boards that were measured. PEERS as above, with the peers' packages.
BATTERY ?= $(wildcard ../shared/datasets/battery)
VECTORS ?= $(wildcard ../shared/datasets/vectors)
ONLY ?=
boards: $(DEV)
	PYTHONPATH=src OMP_NUM_THREADS=1 $(PEERS) -m benchmarks.boards $(if $(BATTERY),--battery $(BATTERY)) \
		$(if $(VECTORS),--vectors $(VECTORS)) $(if $(ONLY),--only $(ONLY))

boards-quick: $(DEV)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.boards --quick --store build/boards-quick -o build

pages: $(DEV)
	$(BIN)/python -m benchmarks.pages --mark

lint: $(DEV)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --strict src

format: $(DEV)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) $(FLOORS) $(NEWEST) build dist knet-demo benchmarks/results docs/_build docs/auto_examples docs/generated .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
