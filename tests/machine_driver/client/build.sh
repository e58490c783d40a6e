#!/bin/bash
# build.sh OUTPUT: compile the client to a file. It needs nothing but Go's standard library.
set -euo pipefail

output=$(realpath -m "$1")
cd "$(dirname "$0")"
GO111MODULE=off GOFLAGS='' CGO_ENABLED=0 go build -o "$output" .
