#!/bin/bash
# build.sh DIR: an API server of Kubernetes 1.36's libraries, a checker of them, etcd 3.5 and kubectl into
# DIR/bin. A second run finds them there and returns at once; after a change of the sources here it
# compiles again, in seconds, without a network.
#
# Everything comes from packages of Debian's newest suites, unpacked below DIR and never installed:
# libraries and compiler as packages.txt pins them, each with its SHA-256. Where the mirror has moved on
# from a pinned version, its newer one is taken, by apt's signature, and said. DEBIAN_MIRROR may name a
# snapshot of the archive, which still has them all.
set -euo pipefail
export LC_ALL=C

fail() { echo "build.sh: $*" >&2; exit 1; }

[ $# = 1 ] || fail "usage: build.sh DIR"
for tool in apt-get dpkg-deb tar flock; do
  command -v "$tool" >/dev/null || fail "$tool is missing (packages: apt, dpkg, tar, util-linux)"
done
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
dir=$(cd "$1" && pwd)
case $dir in *[[:space:]:]*) fail "Go cannot build under a path with spaces or colons: $dir" ;; esac
exec 9>"$dir/lock"
flock 9

bin=$dir/bin
made_of=$(cat "$here"/{build.sh,packages.txt,*/*.go} | sha256sum | cut -c 1-64)
if [ "$(cat "$bin/made-of" 2>/dev/null)" = "$made_of" ]; then
  echo "already built: $bin"
  exit 0
fi

# The pinned packages, downloaded once, in a folder that is named by the pins.
root=$dir/root-$(sha256sum < "$here/packages.txt" | cut -c 1-12)
if [ ! -e "$root/complete" ]; then
  rm -rf "$dir"/root-* "$dir/apt" "$dir/debs"
  mkdir -p "$root" "$dir/debs"
  echo "== download"
  # shellcheck source=tools/private-apt.sh
  . "$here/../private-apt.sh"
  private_apt "$dir/apt" deb sid forky
  mapfile -t names < <(grep -v '^#' "$here/packages.txt" | cut -d' ' -f1)
  apt-cache madison "${names[@]}" | sed 's/ *| */ /g; s/^ *//' | cut -d' ' -f1,2 | sort -u > "$dir/apt/there"
  wanted=()
  while read -r name version _; do
    if grep -qxF "$name $version" "$dir/apt/there"; then
      wanted+=("$name=$version")
    else
      echo "$name $version is gone from the mirror; its newest version is taken, without a pin"
      wanted+=("$name")
    fi
  done < <(grep -v '^#' "$here/packages.txt")
  (cd "$dir/debs" && apt-get download -qq "${wanted[@]}") || fail "download failed, see above"
  echo "== unpack"
  for deb in "$dir"/debs/*.deb; do
    read -r name version < <(dpkg-deb -W --showformat '${Package} ${Version}\n' "$deb")
    sum=$(sha256sum "$deb" | cut -d' ' -f1)
    pinned=$(sed -n "s/^$name ${version//+/\\+} //p" "$here/packages.txt")
    [ -z "$pinned" ] || [ "$pinned" = "$sum" ] || fail "$name $version is not what packages.txt pins: $sum"
    echo "$name $version $sum"
    # Tests, documentation and prebuilt tools are half of it, and nothing is compiled from them.
    dpkg-deb --fsys-tarfile "$deb" | tar x -C "$root" --exclude='*_test.go' --exclude=testdata --exclude='./usr/share/doc*' \
      --exclude='./usr/share/go-1.*/test' --exclude='./usr/share/man'
  done > "$root/packages.txt"
  rm -rf "$dir/apt" "$dir/debs"
  touch "$root/complete"
fi

# Offline and without cgo, in the layout that Debian's Go packages have: GOPATH, no modules.
goroot=$(echo "$root"/usr/lib/go-1.*)
ours=$dir/gopath/src/laneway
rm -rf "$ours"
mkdir -p "$ours/openapi" "$dir/home"
cp -r "$here"/{server,checker,policies} "$ours/"
cd "$ours"
go() {
  env HOME="$dir/home" GOROOT="$goroot" GOPATH="$dir/gopath:$root/usr/share/gocode" GOCACHE="$dir/go-build" \
    PATH="$goroot/bin:$PATH" GO111MODULE=off GOFLAGS='' GOPROXY=off GOTOOLCHAIN=local CGO_ENABLED=0 "$@"
}
build() { go go build -trimpath -gcflags=all=-dwarf=false -ldflags "-s -w $flags" -o "$@"; }

version=1.$(sed -n 's/^golang-k8s-apiserver-dev 0\.\([0-9.]*\).*/\1/p' "$root/packages.txt")
flags=
for pair in "gitVersion=v$version" "gitCommit=debian" "gitTreeState=archive" "gitMajor=1" "gitMinor=$(cut -d. -f2 <<<"$version")"; do
  flags="$flags -X k8s.io/component-base/version.$pair"
done

# The schemas of built-in kinds are generated from their types: server-side apply merges by them.
echo "== compile (minutes, the first time)"
build "$dir/openapi-gen" k8s.io/kube-openapi/cmd/openapi-gen
types=()
for group in core apps batch coordination rbac resource admissionregistration authentication authorization \
  policy scheduling storage networking discovery flowcontrol certificates autoscaling; do
  types+=("k8s.io/api/$group/v1")
done
go "$dir/openapi-gen" --output-dir openapi --output-pkg laneway/openapi --output-file schemas.go \
  --go-header-file /dev/null --report-filename "$dir/openapi.report" "${types[@]}" \
  k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1 k8s.io/apimachinery/pkg/apis/meta/v1 \
  k8s.io/apimachinery/pkg/{runtime,version,api/resource,util/intstr}

work=$dir/bin.new
rm -rf "$work"
mkdir "$work"
build "$work/kube-apiserver" laneway/server
build "$work/checker" laneway/checker
cp -l "$root"/usr/bin/{etcd,kubectl} "$root/packages.txt" "$work/"
echo "$made_of" > "$work/made-of"
rm -rf "$bin"
mv "$work" "$bin"
"$bin/kube-apiserver" --version
echo "built: $bin"
