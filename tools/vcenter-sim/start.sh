#!/bin/bash
# start.sh [PORT]: a simulated vCenter with the GPUs of tests/vcenter_sim/sample.json on 127.0.0.1,
# until it is interrupted. Says how to log in: each time the same, so that examples can name it. It
# forgets everything else when it ends.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
program=$("$here/build.sh") || {
  [[ $? != 3 ]] || echo "install them as root: apt-get install --no-install-recommends" \
    "golang-go golang-github-vmware-govmomi-dev" >&2
  exit 1
}
exec "$program" -greet -seed laneway -l "127.0.0.1:${1:-8989}" \
  -inventory "$here/../../tests/vcenter_sim/sample.json"
