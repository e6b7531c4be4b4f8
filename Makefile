# Two commands do all the set-up on a machine that has Python 3.11 to 3.13 and make:
#
#   make demo    run the five demo kernels and write kernellab-demo.html
#   make test    run the quick tests, the notebooks included (6 minutes on two cores)
#   make test-all  run every test
#   make docs    build the docs site into site/: open site/index.html
#
# PYTHON  the Python that makes .venv
# TORCH   the build of torch: cpu (0.2 GB), cuda (several GB), or the address of an index (make clean first when you change it)
PYTHON ?= python3
TORCH ?= cpu

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
# A worker for each core, at most four. A file's tests stay on one worker and share its fixtures; long files start first.
WORKERS := $(shell n=$$(nproc 2>/dev/null || echo 2); echo $$((n < 4 ? n : 4)))
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help install demo test test-all test-processors test-versions docs pictures wheel-check lint format js js-check corpus bench bench-revisions constraints-check clean

help:
	@sed -n 's/^#   \(make .*\)/  \1/p' Makefile
	@echo "  make test-processors  test floats and notebooks as on processors with AVX2 and without"
	@echo "  make test-versions  run make test with every supported pair of torch and Triton"
	@echo "  make pictures  take the pictures of docs/images, with Chromium"
	@echo "  make wheel-check  the wheel in an empty environment: demo, doctor, a notebook"
	@echo "  make lint    check format, style and types"
	@echo "  make format  format the code"
	@echo "  make js      build the views' bundle from js/ (needs node 20 or later)"
	@echo "  make corpus  compile every kernel of the corpus for every target"
	@echo "  make bench   measure against Triton's interpreter and compiler"
	@echo "  make bench-revisions BEFORE=REVISION  measure against an older revision of this repository"
	@echo "  make clean   remove .venv and what tools left behind"

install: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt tools/torch_index.py
	@$(PYTHON) -c 'import sys; (3, 11) <= sys.version_info < (3, 14) or sys.exit("KernelLab needs Python 3.11 to 3.13; $(PYTHON) is " + sys.version.split()[0] + ". Name another: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade -c constraints.txt pip
	$(BIN)/python -m pip install --quiet -c constraints.txt $$($(BIN)/python tools/torch_index.py "$(TORCH)") -e ".[dev]"
	$(BIN)/python -m compileall -q -j 0 kernellab  # else each worker of the first tests compiles every file
	@touch $@

demo: $(INSTALLED)
	$(BIN)/kernellab demo

test: $(INSTALLED)
	$(PYTEST) -m "not slow"

# REST=1 leaves out what make test runs. What fails runs a second time, alone: what passes then is listed by name.
test-all: $(INSTALLED)
	$(PYTEST) --limit-times $(if $(REST),-m slow) || $(BIN)/python -m pytest --last-failed --last-failed-no-failures none -rp

# The same numbers on every processor; make test has seen those of this one.
test-processors: $(INSTALLED)
	$(BIN)/python -m tools.capabilities avx2 none

# Each pair has its own environment in .versions/: 10 GB with CUDA's packages, 2 GB with TORCH=cpu.
test-versions: $(INSTALLED)
	TORCH="$(TORCH)" $(BIN)/python -m tools.torch_versions

docs: $(INSTALLED)
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going -c docs . site
	@echo "site/index.html"

pictures: $(INSTALLED)
	$(BIN)/python -m tools.pictures

# Every kernel of tests/corpus for every target that takes it, every pass of each through xDSL and back: a matter of an hour.
corpus: $(INSTALLED)
	KERNELLAB_CORPUS=all $(PYTEST) tests/corpus tests/ir/test_round_trip.py

# The sdist and the wheel, built and tried out in new environments without any extra; nothing of it stays. Some minutes.
wheel-check:
	$(PYTHON) tools/wheel_check.py --torch "$(TORCH)"

lint: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	@$(MAKE) --no-print-directory js-check

format: $(INSTALLED)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# The bundle is committed: only who changes js/ needs node.
js: js/node_modules/.package-lock.json
	$(BIN)/python tools/view_types.py
	cd js && npm run --silent check && npm run --silent build

js/node_modules/.package-lock.json: js/package.json js/package-lock.json
	cd js && npm ci --no-audit --no-fund
	@touch $@

js-check:
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory js/node_modules/.package-lock.json && sh tools/check_bundle.sh; \
	else echo "node is not installed: js/ is not checked, its tests do not run, and the bundle is not compared with it"; fi

bench: $(INSTALLED)
	$(BIN)/python -m benchmarks.interpreter_vs_triton
	$(BIN)/python -m benchmarks.launch_cost
	$(BIN)/python -m benchmarks.interpreter_memory
	$(BIN)/python -m benchmarks.large_launches
	$(BIN)/python -m benchmarks.compile_overhead
	$(BIN)/python -m benchmarks.recording
	$(BIN)/python -m benchmarks.reading_ir
	$(BIN)/python -m benchmarks.layouts
	$(BIN)/python -m benchmarks.tracing
	$(BIN)/python -m benchmarks.load_ext
	$(BIN)/python -m benchmarks.front_end
	$(BIN)/python -m benchmarks.levels

# Is anything slower than it was? make bench-revisions BEFORE=v0.1 compares this checkout with that revision, in turns.
BEFORE ?= HEAD
bench-revisions: $(INSTALLED)
	$(BIN)/python -m benchmarks.revisions $(BEFORE)

# Does one set of pins resolve on each Python? Nothing is installed.
constraints-check: $(INSTALLED)
	@for version in 3.11 3.12 3.13; do \
	  echo "Python $$version"; \
	  $(BIN)/python -m pip install --quiet --dry-run --target /tmp/kernellab-none --only-binary=:all: --python-version $$version \
	    -c constraints.txt $$($(BIN)/python -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; extras = p["optional-dependencies"]; names = p["dependencies"] + extras["gpu"] + extras["cluster"] + extras["mcp"] + extras["pytest"] + extras["test"] + extras["docs"] + extras["dev"]; print(*(n.split(">")[0] for n in names if not n.startswith("kernellab")))') \
	    || exit 1; \
	done

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis dist site kernellab-demo.html js/node_modules js/build
