# Each target sets up its prerequisites (.venv, build), prints its steps, and is quick when nothing changed.
# Arguments: make demo ARGS="--seconds 20"   make test ARGS="tests/unit -x"   Another Python: make PYTHON=python3.12 test
PYTHON ?= python3
ARGS ?=

.PHONY: help build demo test check bench lint format spec stub wheel docs docs-serve clean
.NOTPARALLEL:

help:  ## list the targets
	@echo "make TARGET [ARGS=...]"
	@sed -n 's/^\([a-z-]*\):  ## \(.*\)/  \1\t\2/p' Makefile | expand -t 12

build:  ## set up .venv and build the native engine
	@$(PYTHON) tools/dev.py build

demo:  ## show 4 hosts x 4 planes with faults in the terminal, write a report (about a minute after the build)
	@$(PYTHON) tools/dev.py demo $(ARGS)

test:  ## run the tests for every change: C++, 2,000 simulated seeds, Python (about 6 minutes on two cores, after the build)
	@$(PYTHON) tools/dev.py test $(ARGS)

check:  ## run the slow Python tests that `make test` leaves out (about 9 minutes on two cores)
	@$(PYTHON) tools/dev.py check

bench:  ## run all benchmarks, print one table
	@$(PYTHON) tools/dev.py bench $(ARGS)

lint:  ## check formatting, types, layers and requirements; change nothing
	@$(PYTHON) tools/dev.py lint

format:  ## format the sources
	@$(PYTHON) tools/dev.py format

spec:  ## generate sources and reference pages from spec/*.toml, and the table of requirements
	@$(PYTHON) tools/dev.py spec

stub:  ## generate src/openmrc/_native/*.pyi after a change to the bindings
	@$(PYTHON) tools/dev.py stub

wheel:  ## build a wheel in dist and test it in an environment without a compiler; another Python: ARGS="--python python3.12"
	@$(PYTHON) tools/dev.py wheel $(ARGS)

docs:  ## build the documentation as a site in build/docs/html
	@$(PYTHON) tools/dev.py docs

docs-serve:  ## build the site and serve it on this machine: ARGS="--port 8000"
	@$(PYTHON) tools/dev.py docs-serve $(ARGS)

clean:  ## remove .venv and build
	rm -rf .venv build
