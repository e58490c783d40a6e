#!/bin/bash
# Make a package of the shape of NVIDIA's vGPU host driver: a shell script that unpacks what follows
# it, and an installer in there with the options that the real one has. What it builds is simgpu.
#
#   driver-package.sh VERSION KIND FILE
#
# KIND  gpu         simgpu, as module nvidia, with the GPUs of RIG_TOPO; takes a minute in a guest
#       small       a module nvidia that has no GPUs
#       uncompiled  its source is in error
#       unloaded    the kernel refuses it
#
# The daemons only run, and so does the module nvidia-vgpu-vfio, which a gpu has. As NVIDIA's package, it
# prints its options for --advanced-options, ends at one that it does not know, refuses to install
# modules while others are loaded, and writes a log. Its parameters for the module go to
# /etc/modprobe.d.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
version=$1 kind=$2 file=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/kernel"

begin='#include <linux/module.h>
MODULE_LICENSE("GPL");'
parameters= others=
case $kind in
    gpu)
        cp "$here/simgpu/simgpu.c" "$work/kernel/nvidia.c"
        parameters="topo=$RIG_TOPO mode=$RIG_MODE"
        others=nvidia-vgpu-vfio.o
        echo "$begin" >"$work/kernel/nvidia-vgpu-vfio.c"
        ;;
    small) echo "$begin" >"$work/kernel/nvidia.c" ;;
    uncompiled)
        echo "$begin int broken(void) { return no_such_thing; }" >"$work/kernel/nvidia.c"
        ;;
    unloaded)
        cat >"$work/kernel/nvidia.c" <<C
$begin
static int __init start(void)
{
	pr_err("NVRM: no GPU that this driver knows\\n");
	return -ENODEV;
}
module_init(start);
C
        ;;
    *) echo "driver-package: no kind $kind" >&2; exit 2 ;;
esac
echo "MODULE_VERSION(\"$version\");" >>"$work/kernel/nvidia.c"
echo "obj-m := nvidia.o $others" >"$work/kernel/Makefile"
cp "$here/programs/nvidia-smi" "$here/programs/sriov-manage" "$work"
printf '%s\n' '#!/bin/bash' 'echo vgpud >>/run/vgpud' >"$work/nvidia-vgpud"
# it leaves its starter, under its own name, as some releases do
cat >"$work/nvidia-vgpu-mgr" <<'MANAGER'
#!/bin/bash
(trap 'kill $!; exit 0' TERM; while :; do busybox sleep 60 & wait $!; done) </dev/null >/dev/null 2>&1 &
MANAGER
echo "version=$version parameters='$parameters'" >"$work/about"

cat >"$work/nvidia-installer" <<'INSTALLER'
#!/bin/bash
# the installer in the package; $1 is its folder
set -u
cd "$1" || exit 1
shift
source ./about
options="--silent --no-questions --tmpdir --log-file-name --kernel-source-path --kernel-install-path
  --no-kernel-modules --skip-module-load --no-x-check --no-systemd --advanced-options"
log=/var/log/nvidia-installer.log source_path= install_path= modules=yes
for argument; do
    name=${argument%%=*} value=${argument#*=}
    grep -qw -- "$name" <<<"$options" || { echo "Invalid commandline, please run with --help: $name" >&2; exit 1; }
    case $name in
        --advanced-options) for one in $options; do echo "  $one"; done; exit 0 ;;
        --log-file-name) log=$value ;;
        --kernel-source-path) source_path=$value ;;
        --kernel-install-path) install_path=$value ;;
        --no-kernel-modules) modules=no ;;
    esac
done
exec 3>"$log"
echo "nvidia-installer log file '$log' for $version" >&3
fail() { echo "ERROR: $*" | tee /dev/fd/3 >&2; exit 1; }
if [[ $modules == yes ]]; then
    [[ ! -e /sys/module/nvidia ]] || fail "An NVIDIA kernel module 'nvidia' appears to already be loaded."
    [[ -e $source_path/Makefile ]] || fail "Unable to find the kernel source tree for the running kernel."
    make -C "$source_path" M="$PWD/kernel" CONFIG_DEBUG_INFO_BTF_MODULES= modules >&3 2>&3 ||
        fail "An error occurred while performing the step: \"Building kernel modules\"."
    mkdir -p "$install_path" && cp kernel/*.ko "$install_path" || fail "Unable to install the modules."
    mkdir -p /etc/modprobe.d
    echo "options nvidia $parameters" >/etc/modprobe.d/nvidia.conf
    echo built >>/run/builds
fi
mkdir -p /usr/lib/nvidia
install -m 755 nvidia-smi nvidia-vgpud nvidia-vgpu-mgr /usr/bin &&
    install -m 755 sriov-manage /usr/lib/nvidia || fail "Unable to install the programs."
INSTALLER
chmod 755 "$work/nvidia-installer"

cat >"$file" <<'STUB'
#!/bin/sh
# A self-extracting archive: what follows the line "exit" is a tar archive.
folder=/tmp
for argument; do
    case $argument in --tmpdir=*) folder=${argument#*=} ;; esac
done
unpacked=$(mktemp -d "$folder/selfgz.XXXXXX") || exit 1
tail -n +$((`grep -an '^exit$' "$0" | head -n 1 | cut -d : -f 1` + 1)) "$0" | tar x -C "$unpacked"
"$unpacked/nvidia-installer" "$unpacked" "$@"
status=$?
rm -rf "$unpacked"
[ $status = 0 ] || exit $status
exit
STUB
tar c -C "$work" . >>"$file"
