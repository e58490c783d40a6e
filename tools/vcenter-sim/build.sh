#!/bin/bash
# build.sh: compile the vCenter simulator in tests/vcenter_sim, and print the path of the program.
#
# Nothing is downloaded: the compiler and the library are Debian's golang-go and
# golang-github-vmware-govmomi-dev. The program and the compiler's cache are kept in the user's cache
# folder, named by the content of the sources, so that nothing is compiled twice and a change is
# always seen. Exit status 3: compiler or library are missing; says which.
set -euo pipefail
export LC_ALL=C

library=/usr/share/gocode
sources=$(cd "$(dirname "$0")/../../tests/vcenter_sim" && pwd)

missing=()
command -v go >/dev/null || missing+=(golang-go)
[[ -d $library/src/github.com/vmware/govmomi/simulator ]] ||
  missing+=(golang-github-vmware-govmomi-dev)
if [[ ${#missing[@]} -gt 0 ]]; then
  echo "missing packages (Debian names): ${missing[*]}" >&2
  exit 3
fi

cache=${XDG_CACHE_HOME:-${HOME:?neither HOME nor XDG_CACHE_HOME is set}/.cache}/laneway/vcenter-sim
mkdir -p "$cache/bin"
key=$({ go version; cat "$sources"/*.go; } | sha256sum | cut -c 1-16)
program=$cache/bin/$key

if [[ ! -x $program ]]; then
  exec 9>"$cache/lock"
  flock 9
  if [[ ! -x $program ]]; then
    find "$cache/bin" -type f -mtime +7 -delete
    cd "$sources"
    GO111MODULE=off GOFLAGS='' GOPATH=$library GOCACHE=$cache/go-build CGO_ENABLED=0 \
      go build -o "$program.new" . >&2
    mv "$program.new" "$program"
  fi
fi
echo "$program"
