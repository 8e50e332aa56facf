# `make demo` and `make test` set up everything they need on a fresh Debian machine, and say so.
PYTHON ?= python3
# Every command and every test process would compile the package again.
unexport PYTHONDONTWRITEBYTECODE

VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
USABLE := $(VENV)/.usable
SOURCE := pyproject.toml setup.py gossamer/web/_head.pyx gossamer/web/_links.pyx gossamer/web/_links.pxd gossamer/web/_scan.pyx scripts/setup

MINUTES ?= 20
PAGES ?= 1000000
SEED ?= 1

.PHONY: help setup tools demo test test-all soak soak-sites fuzz docs packages lint bench bench-shapes bench-index bench-agents bench-extract bench-watch bench-lab bench-place lab clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

setup: $(READY)  ## virtual environment with Gossamer and its development tools

$(READY): $(SOURCE)
	PYTHON=$(PYTHON) VENV=$(VENV) sh scripts/setup dev,lab
	@touch $@

# Without development tools, unless they are there: a demonstration should not take minutes before it begins.
$(USABLE): $(SOURCE)
	PYTHON=$(PYTHON) VENV=$(VENV) sh scripts/setup federation
	@touch $@

demo: $(if $(wildcard $(READY))$(filter-out demo,$(MAKECMDGOALS)),setup,$(USABLE))  ## crawl a test web on loopback and ask the archive questions
	$(BIN)/python -m gossamer demo

# Files whose tests take long come first, so that none is left alone in the end.
PYTEST := $(BIN)/python -m pytest -q -n 5 --dist loadfile --no-loadscope-reorder \
	tests/reliability tests/integration tests/contract tests/unit

tools: setup
	@BIN=$(BIN) scripts/install

test: setup tools  ## the tests
	$(PYTEST) -m "not slow"

test-all: setup tools  ## the tests, slow ones included
	$(PYTEST)

soak: setup  ## kill crawls at random instants for MINUTES=20, and compare each with an undisturbed one
	PYTHONPATH=tests $(BIN)/python tests/reliability/soak.py --minutes $(MINUTES)

soak-sites: setup  ## let sites come, go and die at random for MINUTES=20, and compare each crawl with an undisturbed one
	PYTHONPATH=tests $(BIN)/python tests/reliability/federation_soak.py --minutes $(MINUTES)

fuzz: setup  ## compare the compiled links of PAGES=1000000 mutated pages from SEED=1 with those of the URL library
	$(BIN)/python tests/reliability/fuzz_links.py --pages $(PAGES) --seed $(SEED)

docs: setup  ## the documentation's site, into build/site
	$(BIN)/python scripts/build_docs.py

packages: setup  ## build sdist and wheel into dist/, and check them (INSTALL="python3.11 python3.12": install them there, too)
	BIN=$(BIN) scripts/check_packages $(if $(INSTALL),--install $(INSTALL))

lint: setup  ## format, lint, type, layer and budget checks
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/check_budgets.py

bench: setup  ## the same real pages with Gossamer, Scrapy, Crawlee and wget
	$(BIN)/python -m benchmarks.bench_crawl

bench-shapes: setup  ## what a page costs by the shape of the web, and as a crawl grows (VISITS=100000)
	$(BIN)/python -m benchmarks.bench_shapes $(if $(VISITS),--visits $(VISITS))

bench-index: setup  ## update and generate on 1 M, 10 M and 50 M known pages
	$(BIN)/python -m benchmarks.bench_index

bench-agents: setup  ## one agent on one core, two agents on two
	$(BIN)/python -m benchmarks.bench_agents --keep

bench-extract: setup  ## what functions cost, beside a crawl and over an archive, and Scrapy's parsel
	$(BIN)/python -m benchmarks.bench_extract

bench-watch: setup  ## what watching costs: the dashboard open, /metrics of 64 agents, 100 who listen
	$(BIN)/python -m benchmarks.bench_watch --keep

bench-lab: setup  ## simulate a crawl of a million pages
	$(BIN)/python -m benchmarks.bench_lab

bench-place: setup  ## place a million pages at 16 sites
	$(BIN)/python -m benchmarks.bench_place

lab: setup  ## every experiment of docs/lab.md, on graphs made here (GRAPHS=DIR: on the public ones, into docs/)
	$(BIN)/python -m experiments.pages $(if $(GRAPHS),--graphs $(GRAPHS))

clean:  ## remove what was built
	rm -rf $(VENV) build dist *.egg-info .cache demo-crawl demo-crawl-sites gossamer/web/*.c gossamer/web/*.so
