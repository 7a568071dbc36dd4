# `make demo` and `make test` do all their own set-up; `make help` lists the rest.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PY := .venv/bin/python
TRAINER_PY := .venv-trainer/bin/python
UV := .tools/bin/uv
export PYTHONPATH := operator:.
export MYPYPATH := operator

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F':.*## ' '{printf "  make %-18s %s\n", $$1, $$2}'

# ---- set-up: virtual environments out of the lock files --------------------------------------
.tools/ready: requirements/uv.lock
	@echo "· installing uv"
	@python3 -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed")'
	@rm -rf .tools && python3 -m venv .tools
	@.tools/bin/pip install --quiet --require-hashes -r requirements/uv.lock
	@touch $@

.venv/ready: requirements/dev.lock .tools/ready
	@echo "· installing Python packages into .venv"
	@$(UV) venv --quiet --clear .venv
	@$(UV) pip sync --quiet --require-hashes --python $(PY) requirements/dev.lock
	@touch $@

.venv-trainer/ready: requirements/trainer-test.lock .tools/ready
	@echo "· installing TensorFlow into .venv-trainer (300 MB; a minute the first time)"
	@$(UV) venv --quiet --clear .venv-trainer
	@$(UV) pip sync --quiet --require-hashes --python $(TRAINER_PY) requirements/trainer-test.lock
	@touch $@

.PHONY: venv
venv: .venv/ready .venv-trainer/ready ## Make both virtual environments

.PHONY: lock
lock: .tools/ready ## Compile the lock files anew
	@cd requirements && compile="../$(UV) pip compile --quiet --upgrade --generate-hashes --universal --python-version 3.11 --no-header --no-annotate"; \
	for name in uv operator dev; do $$compile $$name.in -o $$name.lock; done; \
	for name in trainer trainer-test; do $$compile --override trainer.overrides $$name.in -o $$name.lock; done

# ---- the two commands -------------------------------------------------------------------------
.PHONY: demo
demo: .venv/ready ## Train the main job on a real cluster, show it, clean up
	@$(PY) -m e2e.demo

.PHONY: test
test: .venv/ready .venv-trainer/ready ## Run every test that this machine can run
	@$(PY) -m tools.suites

# ---- single suites ----------------------------------------------------------------------------
.PHONY: test-unit test-stateful test-protocol test-integration test-trainer test-e2e
test-unit: .venv/ready ## Pure tests, in seconds
	@$(PY) -m tools.suites unit

test-stateful: .venv/ready ## The operator killed at every write, and any order of events, on a fake API
	@$(PY) -m tools.suites stateful

test-protocol: .venv/ready ## The same questions to the fake API and to a real kube-apiserver
	@$(PY) -m tools.suites protocol

test-integration: .venv/ready ## The operator's process against a real kube-apiserver and etcd
	@$(PY) -m tools.suites integration

test-trainer: .venv-trainer/ready .venv/ready ## Real TensorFlow processes on loopback
	@$(PY) -m tools.suites trainer

test-e2e: .venv/ready ## Stories with real pods on a real cluster
	@$(PY) -m tools.suites e2e

# ---- what is generated, and whether it is right -------------------------------------------------
.PHONY: manifests
manifests: .venv/ready ## Generate the CRD from the models
	@$(PY) -m tftraining_operator.api.crd --write .

.PHONY: lint
lint: .venv/ready .venv-trainer/ready ## Check style, types, layers, generated files, chart and workflow
	@$(PY) -m tools.lint

.PHONY: format
format: .venv/ready ## Format the Python code
	@.venv/bin/ruff check --fix --quiet . || true
	@.venv/bin/ruff format --quiet .

# ---- clusters and images --------------------------------------------------------------------
.PHONY: cluster-up cluster-down images
cluster-up: .venv/ready ## Bring up a kind cluster and print its KUBECONFIG
	@$(PY) -m tools.cluster up

cluster-down: .venv/ready ## Take it down again
	@$(PY) -m tools.cluster down

images: .venv/ready ## Build both images and load them into the cluster
	@$(PY) -m tools.cluster images

.PHONY: bench
bench: .venv/ready ## Measure how fast the operator creates a job's pods
	@$(PY) -m bench.creation

.PHONY: bench-train
bench-train: .venv/ready .venv-trainer/ready ## Measure whether distribution makes training faster: 15 minutes on a quiet machine
	@$(PY) -m bench.training

.PHONY: classics
classics: .venv/ready .venv-trainer/ready ## Run the classic programs; put their plot and tables into docs/guide/classics
	@$(TRAINER_PY) -m bench.classics

.PHONY: chaos
MINUTES ?= 30
SEED ?= 1
chaos: .venv/ready ## Hit training jobs with random faults for MINUTES, chosen by SEED; tell the long stories
	@$(PY) -m pytest e2e/scenarios/slow --timeout=900 -o timeout_func_only=true
	@$(PY) -m e2e.chaos --minutes $(MINUTES) --seed $(SEED)

.PHONY: clean
clean: ## Delete what was installed in this folder (the cache stays)
	rm -rf .venv .venv-trainer .tools .demo .test-logs
