# Every target sets up what it needs with scripts/setup.sh. Repeating a target costs nothing.
.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-long test-pythons test-arm test-cuda test-ray test-pages costs conformance mutation simulate fuzz lint typecheck bench bench-full docs wheel sources release clean

export PYTHON WHEEL
# Hundreds of tests start a Python, and each would compile the package again where the environment forbids to keep that.
export PYTHONDONTWRITEBYTECODE :=
ARGS ?=
SEED ?= 0
MINUTES ?= 60
BUILDER ?= html
bin := .venv/bin
setup := @scripts/setup.sh
# Tests wait about as long as they work, so there are more processes than cores. One that has run out of tests takes half
# of another's: files differ a lot in length.
processes := 4
parallel := --numprocesses $(processes) --dist worksteal
seed = $(if $(filter random,$(SEED)),$(shell od -An -N3 -tu4 /dev/urandom | tr -d ' '),$(SEED))

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## Load 512 files of real photos, show where the time goes, compare with other loaders (report in build/demo)
	$(setup) demo
	@$(bin)/spdl demo --report build/demo $(ARGS)

test: ## Run the tests that a change needs, in minutes (ARGS="tests/io -k jpeg" to choose; SEED=random: draw other examples)
	$(setup) test
	@$(bin)/python -m pytest --hypothesis-seed $(seed) $(or $(ARGS),--ring quick $(parallel) $(if $(SINCE),--since=$(SINCE)) $(if $(SKIPS),--check-skips))

test-all: ## Run all tests but those of test-long
	$(setup) test
	@$(bin)/python -m pytest --hypothesis-seed $(seed) --ring all $(parallel) $(ARGS)

test-long: ## Run what gains from hours: random programs, kills, fuzzing, planted bugs (MINUTES=60 SEED=random, ARGS="simulation")
	$(setup) test
	@$(bin)/python -m tests.long_ring --minutes $(MINUTES) --seed $(SEED) $(ARGS)

test-pythons: ## Build the wheel for each Python found and run the tests on it (for releases; it takes a long time)
	@scripts/setup.sh release
	@scripts/test_pythons.sh $(or $(ARGS),--ring all $(parallel))

test-arm: ## Build the wheels for 64-bit ARM and run a part of the tests on them, emulated (as root; needs qemu and debootstrap)
	@scripts/setup.sh bundle
	@scripts/test_arm.sh $(ARGS)

test-cuda: ## Run the tests that need an NVIDIA GPU (WHEEL=dist/NAME.whl: on that wheel, with nothing built here)
	@scripts/test_cuda.sh $(ARGS)

test-ray: ## Run the tests that need Ray, each file with a cluster of its own on this machine
	$(setup) ray
	@$(bin)/python -m pytest -m ray $(ARGS)

test-pages: ## Run the programs of the pages that need PyTorch and what is built on it, such as torchvision and Lightning
	$(setup) pages
	@$(bin)/python -m pytest -m pages tests/repository/test_docs.py tests/dataloader/media/test_torchvision_order.py tests/dataloader/media/test_targets_like_torchvision.py tests/dataloader/media/test_library_transforms.py $(ARGS)

costs: ## Record what each case costs, which decides what `make test` runs (ARGS="tests/io" for these alone)
	$(setup) test
	@$(if $(ARGS),,echo '{}' >tests/costs.json)
	@$(bin)/python -m pytest --costs=build/costs.json $(or $(ARGS),--ring all $(parallel))
	@$(bin)/python -m tests.costs build/costs.json

conformance: ## Compare what we make of thousands of files of other projects with Pillow, numpy and others (ARGS="tiff")
	@scripts/conformance.sh $(ARGS)

mutation: ## Plant bugs in the engine and show that each turns a test red (ARGS="merge" to choose)
	$(setup) test
	@$(bin)/python -m tests.mutation $(ARGS)

simulate: ## Run random programs on the engine under random schedules (ARGS="--runs 100000 --seed 1 --jobs 2")
	$(setup) test
	@$(bin)/python -m tests.simulation $(or $(ARGS),--runs 1000)

fuzz: ## Fuzz the readers of untrusted bytes under AddressSanitizer (ARGS="arrays --seconds 60")
	$(setup) test
	@scripts/fuzz.sh $(or $(ARGS),arrays --seconds 60)

lint: ## Check style and formatting of Python and C++
	$(setup) lint
	@$(bin)/ruff check
	@$(bin)/ruff format --check
	@find native fuzz tests/native -name '*.cpp' -o -name '*.h' -o -name '*.cu' | xargs --no-run-if-empty $(bin)/clang-format --dry-run --Werror

typecheck: ## Check the types of src and tests
	$(setup) typecheck
	@$(bin)/mypy

bench: ## Compare with other loaders in less than ten minutes (ARGS="loaders engine" to choose); results: build/bench
	$(setup) bench
	@scripts/bench.sh quick $(ARGS)

bench-full: ## Measure more numbers of workers for longer, and run every other benchmark; this takes two hours
	$(setup) test
	$(setup) ray
	$(setup) bench
	@scripts/bench.sh full $(ARGS)

docs: ## Build the pages and the API reference into docs/_build/html (BUILDER=dummy: only check them, in a quarter of the time)
	$(setup) docs
	@$(bin)/sphinx-build --quiet --fresh-env --fail-on-warning --keep-going --builder $(BUILDER) docs docs/_build/$(BUILDER)
	@echo "docs: docs/_build/$(BUILDER)"

wheel: ## Build the wheel with all libraries inside into dist (PYTHON=python3.12 ARCH=aarch64 to choose)
	@scripts/setup.sh bundle
	@ARCH=$(ARCH) scripts/bundle/wheel.sh $(or $(PYTHON),python3)

sources: ## Put the sources of all libraries in the wheel, and our own, into dist for a release
	@scripts/setup.sh bundle
	@scripts/bundle/release_sources.sh

release: ## Put a release into dist: wheels, source distribution, sources of the libraries, SBOM, notes, checksums
	@scripts/setup.sh bundle
	@scripts/release.sh

clean: ## Remove everything that make made, .venv included
	@rm -rf .venv build dist docs/_build docs/api .mypy_cache .pytest_cache .ruff_cache .hypothesis compile_commands.json
	@find . -path ./.git -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
