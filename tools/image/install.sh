#!/bin/sh
# install.sh SOURCE DIR: install Laneway from a checkout into DIR, an environment that holds the
# packages pinned in constraints/runtime.txt and otel.txt, and nothing else: neither kapilite, pip nor the
# build backend.
#
# Every download is verified against a hash, and only wheels are taken, so nothing is compiled and no
# package runs code of its own here. DIR cannot be moved afterwards: its programs name it.
set -eu
source=$1 target=$2
here=$(dirname "$0")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# settings of the caller that would send packages elsewhere
unset PIP_USER PIP_TARGET PIP_PREFIX PYTHONHOME PYTHONPATH
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PIP_NO_INPUT=1
export PIP_QUIET=1

python3 -m venv "$work/build"
pip=$work/build/bin/pip
"$pip" install --require-hashes --no-deps --only-binary :all: -r "$source/constraints/build.txt"
"$pip" wheel --no-deps --no-build-isolation --wheel-dir "$work/wheel" \
  "$source/packages/kubebasics" "$source"

python3 -m venv --without-pip "$target"
"$pip" --python "$target" install --no-compile --require-hashes --no-deps --only-binary :all: \
  -r "$source/constraints/runtime.txt" -r "$source/constraints/otel.txt"
# by its name and not by its path, which would be noted down in the environment
"$pip" --python "$target" install --no-compile --no-deps --no-index --find-links "$work/wheel" \
  kubebasics laneway
"$pip" --python "$target" check
"$here/compile.sh" "$target/bin/python"
