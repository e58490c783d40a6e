#!/bin/bash
# pins.sh DIR: writes packages.txt anew: today's versions of the packages that the sources here need. DIR
# is build.sh's, and keeps what is downloaded: all that the libraries recommend to themselves, 340 MB.
set -euo pipefail
export LC_ALL=C

fail() { echo "pins.sh: $*" >&2; exit 1; }

[ $# = 1 ] || fail "usage: pins.sh DIR"
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
work=$(cd "$1" && pwd)/pins
rm -rf "$work"
mkdir -p "$work"/{debs,root,gopath/src}

# shellcheck source=tools/private-apt.sh
. "$here/../private-apt.sh"
private_apt "$work/apt" deb sid
libraries=(golang-k8s-apiextensions-apiserver-dev golang-k8s-kube-openapi-dev)
go=$(apt-cache depends golang-go | sed -n 's/^ *Depends: \(golang-1\.[0-9]*\)-go$/\1/p')
programs=("$go-go" "$go-src" etcd-server kubectl)
mapfile -t all < <(apt-get install -s --no-install-recommends "${libraries[@]}" |
  awk '/^Inst golang-.*-dev / {print $2}')
cd "$work/debs"
apt-get download -qq "${all[@]}" "${programs[@]}"
for deb in *.deb; do dpkg-deb -x "$deb" "$work/root"; done

# Which folders are imported, and which package each is from. The generated package needs nothing more.
cp -r "$here" "$work/gopath/src/laneway"
mkdir "$work/gopath/src/laneway/openapi"
printf '%s\n' 'package openapi' 'import "k8s.io/kube-openapi/pkg/common"' \
  'func GetOpenAPIDefinitions(common.ReferenceCallback) map[string]common.OpenAPIDefinition { return nil }' \
  > "$work/gopath/src/laneway/openapi/stub.go"
goroot=$work/root/usr/lib/${go/golang/go}
env HOME="$work" GOROOT="$goroot" GOPATH="$work/gopath:$work/root/usr/share/gocode" GOCACHE="$work/cache" \
  GO111MODULE=off GOFLAGS='' GOPROXY=off GOTOOLCHAIN=local CGO_ENABLED=0 \
  "$goroot/bin/go" list -deps -f '{{.Dir}}' laneway/server laneway/checker k8s.io/kube-openapi/cmd/openapi-gen |
  sed -n "s#^$work/root/#./#p" | grep gocode | sort -u > "$work/folders"

{
  echo "# package, version, SHA-256: written by pins.sh"
  for deb in *.deb; do
    read -r name version < <(dpkg-deb -W --showformat '${Package} ${Version}\n' "$deb")
    if [[ " ${programs[*]} " == *" $name "* ]] || dpkg-deb -c "$deb" | awk '$1 ~ /^-/ {print $6}' |
      sed 's#/[^/]*$##' | sort -u | comm -12 - "$work/folders" | grep . >/dev/null; then
      echo "$name $version $(sha256sum "$deb" | cut -d' ' -f1)"
    fi
  done
} > "$work/packages.txt"
mv "$work/packages.txt" "$here/packages.txt"
rm -rf "$work"
echo "pinned: $(grep -vc '^#' "$here/packages.txt") packages"
