#!/bin/bash
# tiers.sh TIER...: run the test tiers that need more than Python (kernel, realapi, vcenter, image,
# chart, docs) or more time (laws, wishes, durability, fuzz).
# tiers.sh --all: run every one, and say what had to be left out. In CI (CI=true) that is a failure.
#
# A tier is first prepared, then run. Only a preparation that is impossible here, for want of packages,
# rights or a network, leaves a tier out; whatever goes wrong afterwards is a failure. Missing Debian
# packages are installed when the caller is root. What is expensive to make (kernels, a compiled API
# server, a compiled vCenter simulator) is kept in the user's cache folder, never in the checkout.
#
#   KUBEBUILDER_ASSETS    folder with etcd and kube-apiserver, for realapi
#   LANEWAY_KUBECONFIG    a cluster for realapi; its Laneway objects will be deleted, and CRDs of
#                         the group contract.laneway.example stay on it
#                         (`make test-realapi KUBECONFIG=FILE` sets it)
#   RIG_KERNELS           kernels for the kernel tier (6.1 6.12)
#   LANEWAY_WISHES        how many wishes wishes makes (200)
#   LANEWAY_KILLS         how often durability kills the server (200)
#   LANEWAY_SEED          and with what luck both do (one that no run had before; in CI always the
#                         same, so that a change is judged by itself and not by its luck)
#   LANEWAY_FUZZ          how many requests fuzz makes (1200)
set -uo pipefail
export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
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

lists_updated=0

# update_lists: once a run, so that what is installed is what the mirror still has.
update_lists() {
  [[ $lists_updated == 0 && $(id -u) == 0 ]] || return 0
  apt-get update -qq && lists_updated=1
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
    apt-get -o DPkg::Lock::Timeout=120 install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
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

# ---- kernel: each framework has all tests on the kernel that it is met on, mdev on the oldest and
# ---- the vendor's on the newest, so every test meets each kernel and each framework. Crosswise runs
# ---- what a kernel and a framework have to do with each other: making, holding and removing vGPUs.
# ---- Laneway's plans and their recovery, which take the longest, are made of just that. Then guests
# ---- without ACS, and at last the two kernels at once, each a node with an agent, on one API server.

kernels=${RIG_KERNELS:-6.1 6.12}

prepare_kernel() {
  local kernel
  have apt-get:apt python3:python3 && update_lists || return
  mkdir -p "$cache/rig"
  for kernel in $kernels; do
    kept "rig-$kernel" rig/setup.sh "$cache/rig/$kernel" "$kernel" || return
  done
}

crosswise=(tests/contract/host/test_{vgpu,kernel_lessons}_contract.py
  tests/kernel/test_{vgpu_kernel,held_by_vm}.py)

# guest NAME KERNEL MODE TEST...: one guest in the background, as soon as there are fewer than two;
# its output, status and results in files of that name
guest() {
  local name=$1 kernel=$2 mode=$3
  shift 3
  while (($(jobs -rp | wc -l) >= 2)); do
    wait -n
  done
  guests+=("$name")
  # PYTHONDONTWRITEBYTECODE: what the guest writes is kept in its memory
  {
    GPUS=a2,gtx1080,a100 NVME=on USB=on NIC=on MODE=$mode MEM=768 TIMEOUT=1800 QUIET=1 OUT=$scratch/$name \
      rig/boot.sh "$cache/rig/$kernel" \
      "PYTHONDONTWRITEBYTECODE=1 LANEWAY_RIG=$mode LANEWAY_RIG_ACS=${GPU_ACS:-on} $python -m pytest -q \
        -p no:cacheprovider -p no:hypothesispytest -p no:schemathesis -p no:xdist --timeout 240 \
        --junitxml=\$RIG_OUT/junit.xml $*" >"$scratch/$name.log" 2>&1
    echo $? >"$scratch/$name.status"
  } &
}

run_kernel() {
  local kernel mode name oldest=${kernels%% *} newest=${kernels##* } failed=0 guests=() reports=()
  # Compiled here, where it takes a second, and not in each guest.
  env -u PYTHONDONTWRITEBYTECODE "$python" -m pytest -q --collect-only tests/contract/host \
    tests/kernel >/dev/null || return
  guest "$oldest-mdev" "$oldest" mdev tests/contract/host tests/kernel
  guest "$newest-vendor" "$newest" vendor tests/contract/host tests/kernel
  for kernel in $kernels; do
    for mode in mdev vendor; do
      [[ " ${guests[*]} " == *" $kernel-$mode "* ]] ||
        guest "$kernel-$mode" "$kernel" "$mode" "${crosswise[@]}"
    done
    GPU_ACS=off guest "$kernel-no-acs" "$kernel" mdev tests/kernel/test_groups_kernel.py
  done
  wait
  for name in "${guests[@]}"; do
    reports+=("$scratch/$name/junit.xml")
    echo "-- guest $name"
    cat "$scratch/$name.log"
    [[ $(<"$scratch/$name.status") == 0 ]] ||
      { echo "-- failed, status $(<"$scratch/$name.status")"; failed=1; }
  done
  "$python" tools/never_run.py "${reports[@]}" || failed=1
  # shellcheck disable=SC2086  # a list of words
  LANEWAY_RIG_KERNELS=$(printf "$cache/rig/%s\n" $kernels | paste -sd:) \
    "$python" -m pytest -q --durations=6 tests/kernel_nodes || failed=1
  return $failed
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
  local status=0 kubeconfig=${LANEWAY_KUBECONFIG:-}
  if [[ -z $kubeconfig ]]; then
    tools/real-apiserver/start.sh "$assets" "$scratch/server" || return
    kubeconfig=$scratch/server/kubeconfig
  fi
  local server=(env KUBECONFIG="$kubeconfig" LANEWAY_REALAPI=1)
  # These keep to namespaces and names of their own; the others want all Laneway objects to themselves.
  "${server[@]}" "$python" -m pytest -q -n 2 --dist loadfile \
    packages/kapilite/tests/contract/{api,admission} tests/contract/client || status=$?
  "${server[@]}" "$python" -m pytest -q tests/realapi || status=$?
  "${server[@]}" "$python" -m pytest -q -m realapi --durations=6 tests/scenario || status=$?
  # These want all objects of Cluster API to themselves, so no cluster that somebody names is for them.
  if [[ -n ${LANEWAY_KUBECONFIG:-} ]]; then
    echo "tiers: no machines on vSphere on a cluster of somebody's"
  elif prepare_vcenter; then
    "${server[@]}" XDG_CACHE_HOME="${cache%/*}" LANEWAY_VCENTER=1 \
      "$python" -m pytest -q -m realapi --durations=6 tests/vcenter/stories || status=$?
  else
    echo "tiers: no machines on vSphere on this server: $reason"  # which leaves out tier vcenter, too
  fi
  if [[ $status != 0 && -d $scratch/server ]]; then
    tail -n 20 "$scratch/server/kube-apiserver.log"
  fi
  return $status
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

# luck: what the made-up stories of a run begin with.
luck() {
  if [[ ${CI:-} == true ]]; then
    echo "${LANEWAY_SEED:-5}"
  else
    echo "${LANEWAY_SEED:-$RANDOM}"
  fi
}

# ---- laws: what `make test` leaves out as slow, and all examples of what it tries on a tenth --------

prepare_laws() {
  :
}

run_laws() {
  LANEWAY_THOROUGH=1 "$python" -m pytest -q -n auto --maxprocesses 8 --dist loadfile \
    --no-loadscope-reorder -m "slow or hypothesis" --durations=6
}

# ---- wishes: users, machines and others change whatever they like on three nodes

prepare_wishes() {
  :
}

run_wishes() {
  local wishes=${LANEWAY_WISHES:-200} seed
  seed=$(luck)
  echo "-- LANEWAY_WISHES=$wishes LANEWAY_SEED=$seed"
  LANEWAY_WISHES=$wishes LANEWAY_SEED=$seed \
    "$python" -m pytest -q -n 2 --dist loadfile -p no:cacheprovider \
      tests/scenario/test_random_changes.py tests/scenario/vms/test_random_vms.py
}

# ---- durability: whoever carries out a plan is killed at every moment of it, and the API server
# ---- again and again under load ------------------------------------------------

prepare_durability() {
  :
}

run_durability() {
  local kills=${LANEWAY_KILLS:-200} seed
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
  LANEWAY_FUZZ=${LANEWAY_FUZZ:-1200} "$python" -m pytest -q -n 2 --timeout 600 packages/kapilite/tests/contract/fuzz
}

# ---- docs: the site, whose links must lead somewhere -------------------------

prepare_docs() {
  make --no-print-directory .venv-docs/installed
}

run_docs() {
  make --no-print-directory docs
}

# ---- the tiers asked for -----------------------------------------------------

tiers=("$@") optional=0
if [[ $* == --all ]]; then
  tiers=(kernel realapi vcenter image chart laws wishes durability fuzz docs)
  [[ ${CI:-} == true ]] || optional=1
fi
[[ ${#tiers[@]} -gt 0 ]] || { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; exit 2; }

failed=0 left_out=()
for tier in "${tiers[@]}"; do
  began=$SECONDS reason="its preparation failed"
  declare -F "run_$tier" >/dev/null || { echo "tiers: no tier $tier" >&2; exit 2; }
  echo "== $tier: preparing"
  if ! "prepare_$tier"; then
    echo "== $tier: LEFT OUT: $reason"
    left_out+=("$tier")
    continue
  fi
  echo "== $tier: prepared in $((SECONDS - began)) s"
  status=0
  "run_$tier" || status=$?
  if [[ $status != 0 ]]; then
    failed=1
    echo "== $tier: FAILED after $((SECONDS - began)) s"
  else
    echo "== $tier: passed in $((SECONDS - began)) s"
  fi
done
if [[ ${#left_out[@]} -gt 0 ]]; then
  echo "!! LEFT OUT, NOT TESTED: ${left_out[*]}"
  [[ $optional == 1 ]] || failed=1
fi
exit $failed
