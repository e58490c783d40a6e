#!/bin/bash
# build.sh OUTPUT [VARIABLE=VALUE...]: compile the machine driver in machine-driver/ to a file.
#
# The compiler and the library are Debian's golang-go and golang-gopkg-yaml.v3-dev; nothing is
# downloaded. The program is static, and the same bytes wherever and whenever it is built with one
# version of these: sources are compiled under a path of their own, and nothing of the machine is
# recorded. Tests set variables of the program, such as machine.patience=2s. Exit status 3: compiler
# or library are missing; says which.
set -euo pipefail
export LC_ALL=C

output=$(realpath -m "$1")
library=/usr/share/gocode
here=$(cd "$(dirname "$0")" && pwd)
sources=$here/../../machine-driver
name=docker-machine-driver-laneway

missing=()
command -v go >/dev/null || missing+=(golang-go)
[[ -d $library/src/gopkg.in/yaml.v3 ]] || missing+=(golang-gopkg-yaml.v3-dev)
if [[ ${#missing[@]} -gt 0 ]]; then
  echo "missing packages (Debian names): ${missing[*]}" >&2
  exit 3
fi

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$here/../../pyproject.toml" | head -n 1)
flags="-s -w -buildid= -X main.version=$version"
for variable in "${@:2}"; do
  flags+=" -X $name/$variable"
done

# Import paths are those below GOPATH, so the sources need one around them.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch/src" "$(dirname "$output")"
cp -r "$sources" "$scratch/src/$name"
cache=${XDG_CACHE_HOME:-${HOME:-$scratch}/.cache}/laneway/machine-driver
cd "$scratch/src/$name"
GO111MODULE=off GOFLAGS='' GOPATH=$scratch:$library GOCACHE=$cache CGO_ENABLED=0 \
  GOOS=linux GOARCH="${GOARCH:-amd64}" GOAMD64=v1 \
  go build -trimpath -buildvcs=false -ldflags "$flags" -o "$output.new" .
mv "$output.new" "$output"
