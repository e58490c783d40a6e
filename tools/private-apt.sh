# shellcheck shell=bash
# Sourced by what builds from Debian's packages without installing them. It needs a function `fail`.
#
# private_apt DIR TYPES SUITE...: makes apt in this shell read these suites (TYPES: "deb", or
# "deb deb-src") in folders of its own below DIR, so that the system's package lists and caches stay as
# they are. Signatures are checked as usual.
#
# DEBIAN_MIRROR overrides the mirror, which is otherwise read from the machine's own apt configuration. It
# may be a snapshot of the archive, whose lists are of their day.
private_apt() {
  local dir=$1 types=$2 mirror suite type keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  shift 2
  [ -r "$keyring" ] || fail "$keyring is missing (package: debian-archive-keyring)"
  # shellcheck disable=SC2016  # $(REPO_URI) is apt's own placeholder
  mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' |
    awk '$2 == "bookworm" && !seen++ {print $1}')}
  [ -n "$mirror" ] || fail "no bookworm in the apt configuration: run 'apt-get update', or set DEBIAN_MIRROR"
  mkdir -p "$dir"/{lists,cache/archives}/partial
  for suite in "$@"; do
    for type in $types; do echo "$type [signed-by=$keyring] $mirror $suite main"; done
  done > "$dir/sources.list"
  : > "$dir/status"
  cat > "$dir/apt.conf" <<CONF
Dir::State::lists "$dir/lists";
Dir::State::status "$dir/status";
Dir::Cache "$dir/cache";
Dir::Etc::sourcelist "$dir/sources.list";
Dir::Etc::sourceparts "-";
APT::Sandbox::User "root";
APT::Update::Error-Mode "any";
CONF
  [ -z "${DEBIAN_MIRROR:-}" ] || echo 'Acquire::Check-Valid-Until "false";' >> "$dir/apt.conf"
  export APT_CONFIG=$dir/apt.conf
  apt-get update -qq || fail "the package lists of $mirror ($*) cannot be read: is there a network?"
}
