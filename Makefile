# `make demo` and `make test` set everything up by themselves; `make help` lists the rest.
SHELL := bash
.SHELLFLAGS := -o pipefail -c
PYTHON ?= python3
VENV := .venv
LOCK := requirements.lock
READY := $(VENV)/.ready
# What an installation of LOCK takes, for the message.
NEEDED := 3.4 GB to download, most of it PyTorch with CUDA, and 7 GB of disk; 5 minutes at 100 Mbit/s
# Programs of the environment come first, so that rules and tests find the same Python.
RUN := OMP_WAIT_POLICY=passive GOMP_SPINCOUNT=2000 PATH="$(CURDIR)/$(VENV)/bin:$$PATH"
# No batch system takes part; where Slurm is installed and its controller silent, Snakemake would
# wait 10 s for it.
LOCAL := SLURM_CONF=/dev/null
# Bytecode is kept everywhere: without it every process compiles PyTorch's modules again.
unexport PYTHONDONTWRITEBYTECODE
CORES ?= all
# Folders of tests that `make endurance` keeps to; none: all.
FOLDERS ?=
# Markers of the tests that `make pytest` runs.
SELECTED ?= not endurance
# Overrides of the demo's presets, such as TRAIN.EPOCHS=1.
SET ?=
# A file's tests run on one core; the longest files begin first (tests/conftest.py).
PARALLEL := -n 2 --dist loadfile --no-loadscope-reorder
# Programs that write pages and pictures from the code, in seconds.
WRITERS := scripts/config_reference.py scripts/advice_reference.py scripts/datasets_page.py \
  docs/drawings/draw.py
# Benchmarks that took hours; their tables on pages are compared with their stored results.
TABLES := benchmarks/learning.py benchmarks/light_variants.py benchmarks/fine_tuning.py \
  benchmarks/robustness.py benchmarks/spikes_alone.py

.PHONY: help setup demo general quick lint types generated check pytest test core endurance compat on-lowest gpu docs site format lock clean

help:  ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 11

setup: $(READY)  ## make .venv from requirements.lock

$(READY): $(LOCK) pyproject.toml scripts/install.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "$(PYTHON) is older than Python 3.11; use: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "Installing Python packages into $(VENV), once: $(NEEDED)."
	@$(PYTHON) -m venv $(VENV)
	@$(VENV)/bin/python scripts/install.py $(LOCK)
	@touch $@

demo: $(READY)  ## generate data, train both models on it, end with a table and a page that compares them with general
	@$(LOCAL) VRTSPIKE_COMMAND="make $@" $(RUN) snakemake --cores $(CORES) demo \
	  $(if $(SET),--config SET="$(SET)")

general: $(READY)  ## train the bundled weights, two to three hours on two cores, and replace those in src/
	@$(LOCAL) VRTSPIKE_COMMAND="make $@" $(RUN) snakemake --cores $(CORES) general
	@$(RUN) python scripts/bundle_weights.py --run results/train/general

quick: $(READY)  ## a minute: lint, layers, pages, and the tests of what was changed since the last commit
	$(RUN) ruff format --check .
	$(RUN) ruff check .
	$(RUN) OMP_NUM_THREADS=1 pytest -q -n 2 --dist loadfile -m "not slow and not workflow and not endurance" \
	  tests/repository $$($(RUN) python -m tests.changed)

lint: $(READY)  ## format and lint of Python and rules
	$(RUN) ruff format --check .
	$(RUN) ruff check .
	$(RUN) snakefmt --check workflow rules
	$(RUN) snakemake --lint

types: $(READY)  ## mypy
	$(RUN) mypy

generated: $(READY)  ## generated pages, figures and tables are those of the code
	@for program in $(WRITERS) $(TABLES); do \
	  echo "$$program --check"; $(RUN) python $$program --check || exit 1; done
	$(RUN) python benchmarks/presets.py --page

check: types lint generated  ## lint, types and generated; side by side with --jobs=2

pytest: $(READY)  ## the tests, without those of make core and make endurance
	$(RUN) OMP_NUM_THREADS=1 pytest $(PARALLEL) -m "$(SELECTED)" --durations=25 $(FOLDERS)

test: check pytest  ## every check: format, lint, types, tests
	@echo "not run: make core; needed after changes in rules/, src/vrtspike/{workflow,staleness,launching,cluster}/"

core: $(READY)  ## a killed training, a full disk, a Slurm cluster, stale results: the core of make endurance
	$(RUN) OMP_NUM_THREADS=1 pytest $(PARALLEL) -m core $(FOLDERS)

endurance: $(READY)  ## what takes minutes: real faults, a real Slurm cluster, whole projects; make test leaves it out
	$(RUN) OMP_NUM_THREADS=1 pytest $(PARALLEL) -m endurance --durations=25 $(FOLDERS)

compat:  ## tests of models, training, data and plans with the oldest packages allowed, in .venv-compat
	@$(MAKE) --no-print-directory VENV=.venv-compat LOCK=requirements-lowest.lock on-lowest

on-lowest: $(READY)
	$(RUN) OMP_NUM_THREADS=1 pytest $(PARALLEL) tests/models tests/training \
	  tests/data tests/workflow/test_planning.py tests/workflow/test_snakemake_internals.py

gpu:  ## with a GPU: agreement with a CPU, speed and memory of the presets, in 8 minutes
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" PYTHONPATH=src $(PYTHON) benchmarks/gpu.py

docs:  ## build the site from docs/ into site/, in .venv-docs; a dead link is an error
	@$(MAKE) --no-print-directory VENV=.venv-docs LOCK=docs/site/requirements.lock NEEDED="60 MB to download" site

site: $(READY)
	$(RUN) NO_MKDOCS_2_WARNING=1 mkdocs build --config-file docs/site/mkdocs.yml

format: $(READY)  ## format Python and Snakemake files, write the generated reference
	$(RUN) ruff format .
	$(RUN) ruff check --fix .
	$(RUN) snakefmt workflow rules
	@for program in $(WRITERS); do echo "$$program"; $(RUN) python $$program || exit 1; done

RESOLVE := uv pip compile --universal --python-version 3.11 --no-header --no-annotate \
  --no-emit-index-url --no-emit-find-links --quiet
PROJECT := $(RESOLVE) pyproject.toml

lock:  ## resolve the three lock files from pyproject.toml (needs uv)
	$(PROJECT) $(patsubst %,--extra %,dev general generic grib hub onnx slurm tracking) --output-file requirements.lock
	$(PROJECT) --extra dev --extra general --extra grib --extra tracking --constraint requirements-lowest.in \
	  --output-file requirements-lowest.lock
	$(RESOLVE) --group pyproject.toml:docs --output-file docs/site/requirements.lock

clean:  ## remove what the demos made
	rm -rf data/demo results/demo results/*/{demo,light_demo,general_demo} \
	  runs/{demo,light_demo,general_demo} results/sst_demo \
	  results/*/sst_demo results/data/sst_Generated_globe_* runs/sst_demo
