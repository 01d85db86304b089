# `make run` and `make test` set up everything they need; `make help` lists the rest.
# The system's Python where it will do: distributions compile it with profiles, which is a fifth of the time of a
# request. One that was compiled by hand often lacks them.
PYTHON ?= $(shell for each in /usr/bin/python3 python3; do \
    $$each -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$each && exit; \
    done; echo python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SEED ?= 1
N ?= 1000

.DEFAULT_GOAL := help
.PHONY: help run test servers libvirt quick lint bench versus replay fuzz conformance sequences soak interop docs lock clean

help:  ## this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 14

run: $(READY)  ## a cloud of 200 fake hosts in one process, with a demonstration, until Ctrl-C (ONCE=1: ends after it)
	@$(BIN)/roost dev $(if $(ONCE),--once)

test: lint docs servers $(READY)  ## everything CI runs: lint, types, import rules, docs, all tests
	@$(BIN)/pytest -n auto

# Tests start private servers; the packages are asked for only where they are missing.
servers:  ## PostgreSQL, MariaDB and RabbitMQ for the tests, from Debian's packages, where they are missing
	@missing=; \
	ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null || missing=postgresql; \
	PATH="$$PATH:/usr/sbin" command -v mariadbd >/dev/null || missing="$$missing mariadb-server"; \
	test -x /usr/lib/rabbitmq/bin/rabbitmq-server || missing="$$missing rabbitmq-server"; \
	if [ -n "$$missing" ]; then \
	    echo "installing for the tests: $$missing"; \
	    apt-get -o DPkg::Lock::Timeout=600 update -qq && DEBIAN_FRONTEND=noninteractive apt-get \
	        -o DPkg::Lock::Timeout=600 install -y -qq --no-install-recommends $$missing >/dev/null; \
	fi

# The module is compiled against libvirt's headers, so it is not among the locked packages of $(READY).
libvirt: $(READY)  ## libvirt and QEMU for real virtual machines in make interop, where they are missing
	@missing=; \
	for each in libvirtd:libvirt-daemon libvirtd:libvirt-daemon-driver-qemu virsh:libvirt-clients \
	        qemu-system-x86_64:qemu-system-x86 gcc:gcc pkg-config:pkg-config; do \
	    PATH="$$PATH:/usr/sbin" command -v $${each%%:*} >/dev/null || missing="$$missing $${each#*:}"; \
	done; \
	pkg-config --exists libvirt 2>/dev/null || missing="$$missing libvirt-dev"; \
	test -f "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" || \
	    missing="$$missing python3-dev"; \
	if [ -n "$$missing" ]; then \
	    echo "installing for real virtual machines:$$missing"; \
	    apt-get -o DPkg::Lock::Timeout=600 update -qq && DEBIAN_FRONTEND=noninteractive apt-get \
	        -o DPkg::Lock::Timeout=600 install -y -qq --no-install-recommends $$missing >/dev/null; \
	fi
	@$(BIN)/python -c 'import libvirt' 2>/dev/null || { echo "compiling libvirt-python ..."; \
	    $(BIN)/pip install -q --disable-pip-version-check --require-hashes -r requirements-libvirt.lock; }

quick: $(READY)  ## the inner loop: unit tests only, under a minute
	@$(BIN)/pytest -n auto tests/unit

lint: $(READY)  ## style, types, import rules
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: $(if $(BESIDE),,servers) $(READY)  ## speed, as ratios to the plain loops; BESIDE=COMMIT: as ratios to a commit
	@$(BIN)/python benchmarks/$(if $(BESIDE),beside.py $(BESIDE),run.py)

versus: $(READY)  ## speed beside the real nova, up to 100,000 hosts; writes docs/explanation/versus*, fifteen minutes
	@$(BIN)/python benchmarks/versus_nova.py --save docs/explanation

replay: $(READY)  ## hosts that packing policies need for a public trace, about ten minutes
	@$(BIN)/python benchmarks/replay.py

conformance: $(READY)  ## fresh random cases, Roost beside the real nova: SEED=1 N=1000
	@$(BIN)/python -m conformance.run --seed $(SEED) -n $(N)

fuzz: $(READY)  ## 100,000 random inputs, and ten minutes of requests to the API, that must not break anything (N=, SECONDS=, SEED=)
	@$(BIN)/python fuzz/run.py
	@$(BIN)/python -W ignore fuzz/api.py

sequences: N = 2000
sequences: $(READY)  ## random sequences of all that happens, against the plain loops (N=, SEED=)
	@$(BIN)/python -m tests.parity.sequences --seed $(SEED) -n $(N) --steps 100

soak: N = 1
soak: servers $(READY)  ## races, kills, moves and refreshes on real databases, about twenty minutes (N= rounds, SEED=)
	@$(BIN)/python -m tests.soak --seed $(SEED) -n $(N)

interop: servers libvirt $(READY)  ## Roost in a real nova cloud, beside nova-scheduler, about forty minutes (PART= scenario, speed, ...)
	@$(BIN)/python -W ignore -m tests.interop $(PART)

docs: $(READY)  ## the documentation, in build/docs
	@$(BIN)/sphinx-build -q -W -b html docs build/docs && echo "docs: build/docs/index.html"

lock: $(READY)  ## renew requirements.lock from pyproject.toml
	@$(BIN)/pip install -q uv
	@$(BIN)/uv export -q --no-emit-project --all-groups --extra cloud --extra nova --no-header --python $(BIN)/python -o requirements.lock
	@rm -f uv.lock

clean:  ## remove everything that was made here
	@rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

# uv installs in seconds; where it cannot be had, pip does the same from the same pins.
$(READY): pyproject.toml requirements.lock
	@echo "setting up $(VENV) ..."
	@$(PYTHON) -m venv $(VENV) >/dev/null 2>&1 || { \
	    echo "python3 has no venv: installing Debian's python3-venv"; \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 \
	        install -y -qq --no-install-recommends python3-venv >/dev/null && $(PYTHON) -m venv --clear $(VENV); }
	@if $(BIN)/pip install -q --disable-pip-version-check uv 2>/dev/null; then \
	    $(BIN)/uv pip install -q --python $(BIN)/python --require-hashes -r requirements.lock && \
	    $(BIN)/uv pip install -q --python $(BIN)/python --no-deps -e .; \
	else \
	    $(BIN)/pip install -q --disable-pip-version-check --require-hashes -r requirements.lock && \
	    $(BIN)/pip install -q --disable-pip-version-check --no-deps -e .; \
	fi
	@touch $@
