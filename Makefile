# Each target sets up all it needs (.venv, build), prints what it does, and is quick when nothing changed.
# Arguments: make demo ARGS="--seconds 20"   make test ARGS="tests/unit -x"   Another Python: make PYTHON=python3.12 test
PYTHON ?= python3
ARGS ?=

.PHONY: help build demo test check bench lint format spec stub wheel docs docs-serve clean
.NOTPARALLEL:

help:  ## this list
	@echo "make TARGET [ARGS=...]"
	@sed -n 's/^\([a-z-]*\):  ## \(.*\)/  \1\t\2/p' Makefile | expand -t 12

build:  ## set up .venv and build the native engine
	@$(PYTHON) tools/dev.py build

demo:  ## 4 hosts x 4 planes in your terminal, with faults; writes a report (about a minute after the build)
	@$(PYTHON) tools/dev.py demo $(ARGS)

test:  ## the tests for every change: C++, 2,000 simulated seeds, Python (about 4 minutes on two cores, after the build)
	@$(PYTHON) tools/dev.py test $(ARGS)

check:  ## the tests that `make test` leaves out: slow Python tests (about 9 minutes on two cores)
	@$(PYTHON) tools/dev.py check

bench:  ## all benchmarks, one table
	@$(PYTHON) tools/dev.py bench $(ARGS)

lint:  ## formatting, types, layers, requirements; changes nothing
	@$(PYTHON) tools/dev.py lint

format:  ## rewrite the sources in the project's format
	@$(PYTHON) tools/dev.py format

spec:  ## write the sources and reference pages that spec/*.toml describes, and the table of requirements
	@$(PYTHON) tools/dev.py spec

stub:  ## write src/openmrc/_native/*.pyi after a change to the bindings
	@$(PYTHON) tools/dev.py stub

wheel:  ## a wheel in dist, tried out where there is no compiler; for another Python: ARGS="--python python3.12"
	@$(PYTHON) tools/dev.py wheel $(ARGS)

docs:  ## the documentation as a site in build/docs/html
	@$(PYTHON) tools/dev.py docs

docs-serve:  ## build the site and serve it on this machine: ARGS="--port 8000"
	@$(PYTHON) tools/dev.py docs-serve $(ARGS)

clean:  ## remove .venv and build
	rm -rf .venv build
