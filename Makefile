# `make demo` and `make test` install all they need; `make help` lists the other targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PY := .venv/bin/python
TRAINER_PY := .venv-trainer/bin/python
# TENSORFLOW=2.20 has the trainer's tests run with another version than that of its image.
TENSORFLOW_VENV := .venv-trainer$(if $(TENSORFLOW),-$(TENSORFLOW))
UV := .tools/bin/uv
# Else uv may download another Python, which no lock file pins.
VENV := venv --quiet --clear --no-python-downloads --python python3
export PYTHONPATH := operator:.
export MYPYPATH := operator
# Where this is set, every process compiles again all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F':.*## ' '{printf "  make %-18s %s\n", $$1, $$2}'

# ---- set-up: virtual environments from the lock files ----------------------------------------
.tools/ready: requirements/uv.lock
	@echo "· installing uv"
	@python3 -c 'import sys; sys.exit(not (3, 11, 4) <= sys.version_info < (3, 14) and "Python 3.11.4 to 3.13 is required")'
	@rm -rf .tools && python3 -m venv .tools
	@.tools/bin/pip install --quiet --require-hashes -r requirements/uv.lock
	@touch $@

.venv/ready: requirements/dev.lock .tools/ready
	@echo "· installing Python packages into .venv"
	@$(UV) $(VENV) .venv
	@$(UV) pip sync --quiet --require-hashes --python $(PY) requirements/dev.lock
	@touch $@

define install_tensorflow
	@echo "· installing TensorFlow into $(@D) (300 MB; a minute the first time)"
	@$(UV) $(VENV) $(@D)
	@$(UV) pip sync --quiet --require-hashes --python $(@D)/bin/python $<
	@touch $@
endef

.venv-trainer/ready: requirements/trainer-test.lock .tools/ready
	$(install_tensorflow)

.venv-trainer-%/ready: requirements/trainer-test-%.lock .tools/ready
	$(install_tensorflow)

.PHONY: venv
venv: .venv/ready .venv-trainer/ready ## Create both virtual environments

.PHONY: lock
lock: .tools/ready ## Update the lock files
	@cd requirements && compile="../$(UV) pip compile --quiet --upgrade --generate-hashes --universal --python-version 3.11 --no-header --no-annotate"; \
	for name in uv operator dev; do $$compile $$name.in -o $$name.lock; done; \
	for name in trainer trainer-test; do $$compile --override trainer.overrides $$name.in -o $$name.lock; done; \
	$$compile --override trainer-test-2.20.overrides trainer-test-2.20.in -o trainer-test-2.20.lock; \
	$$compile trainer-gpu.in -o trainer-gpu.lock; \
	$$compile --no-deps schemas.in -o schemas.lock

# ---- the two commands -------------------------------------------------------------------------
.PHONY: demo
demo: .venv/ready ## Train the example job on a real cluster, show its progress, clean up
	@$(PY) -m e2e.demo

.PHONY: test
test: .venv/ready .venv-trainer/ready $(TENSORFLOW_VENV)/ready ## Run every test that this machine supports
	@$(PY) -m tools.suites

# ---- single suites ----------------------------------------------------------------------------
.PHONY: test-unit test-stateful test-protocol test-integration test-trainer test-e2e
test-unit: .venv/ready ## Run the unit tests (seconds)
	@$(PY) -m tools.suites unit

test-stateful: .venv/ready ## Run the operator against a fake API: killed at every write, events in any order
	@$(PY) -m tools.suites stateful

test-protocol: .venv/ready ## Run the API tests against the fake and a real kube-apiserver
	@$(PY) -m tools.suites protocol

test-integration: .venv/ready ## Run the operator's process against a real kube-apiserver and etcd; KUBERNETES=1.35 or 1.37 against those of another version
	@$(PY) -m tools.suites upgrade integration

test-trainer: $(TENSORFLOW_VENV)/ready .venv/ready ## Run the trainer's tests: real TensorFlow processes on loopback; TENSORFLOW=2.20 with that version
	@$(PY) -m tools.suites trainer

test-e2e: .venv-trainer/ready .venv/ready ## Run the scenarios: real pods on a real cluster
	@$(PY) -m tools.suites e2e

# ---- generated files and checks -----------------------------------------------------------------
.PHONY: manifests
manifests: .venv/ready ## Generate the CRD, the references (fields, tftj, client, metrics, exit codes), dashboards, the chart's README, install.yaml
	@$(PY) -m tftraining_operator.api.crd --write .
	@$(PY) -m tftraining.cli.reference
	@$(PY) -m tools.dashboards
	@$(PY) -m tools.chart_readme
	@$(PY) -m tools.install_manifest
	@$(PY) -m tools.operator_rights
	@$(PY) -m tests.integration.rights_page
	@$(PY) -m tools.fields_reference
	@$(PY) -m tools.client_reference
	@$(PY) -m tools.exit_codes_reference
	@$(PY) -m tools.metrics_reference
	@$(PY) -m tools.training_metrics

.PHONY: docs
docs: .venv/ready ## Build the documentation as a site in site/, and check its links
	@$(PY) -m tools.site

.PHONY: screenshots
screenshots: .venv/ready ## Make the pictures of the docs (web page, progress, TensorBoard, notebook) from jobs on a cluster, in headless Chromium (8 minutes)
	@$(PY) -m e2e.screenshots

.PHONY: lint
lint: .venv/ready .venv-trainer/ready ## Check style, types, layers, generated files, chart, workflow and documentation
	@$(PY) -m tools.lint

.PHONY: audit
audit: .venv/ready ## Ask the Python index for known vulnerabilities of what is locked; skipped without a network
	@$(PY) -m tools.audit

.PHONY: format
format: .venv/ready ## Format the Python code
	@.venv/bin/ruff check --fix --quiet . || true
	@.venv/bin/ruff format --quiet .

# ---- clusters and images --------------------------------------------------------------------
.PHONY: cluster-up cluster-down images gpu-image
cluster-up: .venv/ready ## Start a kind cluster and print its KUBECONFIG
	@$(PY) -m tools.cluster up

cluster-down: .venv/ready ## Delete the cluster and everything that came with it
	@$(PY) -m tools.cluster down

images: .venv/ready ## Build both images and load them into the cluster
	@$(PY) -m tools.cluster images

gpu-image: .venv/ready ## Build the trainer's image for GPUs (TensorFlow with CUDA; 3 GB to download)
	@$(PY) -m tools.cluster gpu-image

.PHONY: bench
bench: .venv/ready ## Measure how fast the operator creates a job's pods
	@$(PY) -m bench.creation

.PHONY: bench-start
bench-start: .venv/ready ## Measure how long each command of tftj takes to start, and write docs/guide/cli.md (1 minute)
	@$(PY) -m bench.start --page docs/guide/cli.md

.PHONY: bench-scale
bench-scale: .venv/ready ## Measure what many jobs at once cost, beside a bare client and training-operator (three hours)
	@$(PY) -m bench.scale --page docs/scale.md

.PHONY: bench-shards
bench-shards: .venv/ready ## Measure ten thousand jobs on three shards, beside fifty (45 minutes)
	@rm -f .test-logs/shards.json && mkdir -p .test-logs
	@$(PY) -m bench.scale --jobs 50 --rounds 3 --shards 3 --placed --only ours --results .test-logs/shards.json
	@$(PY) -m bench.scale --jobs 10000 --rounds 1 --shards 3 --placed --only shards --results .test-logs/shards.json \
	  --page docs/scale.md --section shards

.PHONY: bench-train
bench-train: .venv/ready .venv-trainer/ready ## Measure the speed-up of distributed training (45 minutes on an idle machine)
	@$(PY) -m bench.training

.PHONY: bench-recommender
bench-recommender: .venv/ready .venv-trainer/ready ## Measure a recommender with tables of two million rows beside stock Keras (15 minutes)
	@$(PY) -m bench.recommender

.PHONY: bench-data
bench-data: .venv/ready .venv-trainer/ready ## Count which examples each strategy and mode trains on (45 minutes)
	@$(PY) -m bench.data

.PHONY: classics
classics: .venv/ready .venv-trainer/ready ## Run the classic programs and update their plot and tables in docs/guide/classics
	@$(TRAINER_PY) -m bench.classics

.PHONY: broken-jobs
broken-jobs: .venv/ready ## Run jobs with one mistake each, and update what is said of them in the docs (10 minutes)
	@$(PY) -m e2e.scenarios.broken_jobs --page docs/guide/troubleshooting.md

.PHONY: tfjobs
tfjobs: .venv/ready ## Convert TFJobs of every shape, run what came out, and update the table in the docs (3 minutes)
	@$(PY) -m e2e.scenarios.tfjobs --page docs/guide/from-tfjob.md

.PHONY: preemption
preemption: .venv/ready ## Take the pods of a job that trains away in four ways, and update what that costs in the docs (9 minutes)
	@$(PY) -m e2e.scenarios.preemption --page docs/guide/preemption.md

.PHONY: gangs
gangs: .venv/ready ## Have two jobs compete for room that only one has, without gangs and with them, and show it in the docs (5 minutes)
	@$(PY) -m e2e.scenarios.gangs --page docs/guide/scheduling.md

.PHONY: bench-upgrade
bench-upgrade: .venv/ready ## Measure what an upgrade and a rollback cost jobs that train, and write docs/guide/upgrade.md (4 minutes)
	@$(PY) -m e2e.scenarios.upgrade

.PHONY: supply-chain
supply-chain: .venv/ready ## Push images and chart to a registry on loopback, list, sign and verify them (4 minutes; building the programs 20, once)
	@$(PY) -m tools.supply_chain --page docs/guide/releases.md

.PHONY: runbook
runbook: .venv/ready ## Let things go wrong on a real cluster, and write what Prometheus answers into docs/runbook.md
	@$(PY) -m e2e.runbook

.PHONY: chaos
MINUTES ?= 30
SEED ?= 1
chaos: .venv/ready ## Run the slow scenarios, then inject random faults for MINUTES, chosen by SEED
	@$(PY) -m pytest e2e/scenarios/slow --timeout=900 -o timeout_func_only=true
	@$(PY) -m e2e.chaos --minutes $(MINUTES) --seed $(SEED)

.PHONY: clean
clean: ## Delete what was installed in this folder (not the cache)
	rm -rf .venv .venv-trainer .venv-trainer-* .tools .demo .test-logs site
