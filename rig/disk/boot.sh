#!/bin/bash
# Start a guest from a disk of its own, by firmware and boot loader, as a server starts.
#
#   boot.sh CACHE LOADER FOLDER [QEMU-ARGUMENT...]
#
# CACHE is a folder made by setup.sh, LOADER is grub or systemd-boot. FOLDER keeps what the guest
# keeps: disk.qcow2, an overlay of LOADER's disk, and vars, the variables of the UEFI. The first start
# makes them; each further one goes on where the last one ended, or was killed. The console is standard
# output. The program becomes QEMU, so who kills it cuts the power. It ends when the guest is switched
# off or reboots; then start it again. (QEMU can reset itself, too, but emulates slowly from then on.)
#
# In the guest, the checkout and the cache are under their usual paths, read-only; FOLDER/share
# is /run/rig. With CONTROL, the guest takes commands from a socket as ../control.sh says.
#
# Environment:
#   CONTROL   path of a UNIX socket that a process listens on
#   PATHS     further files and folders of the host that the guest has, such as Python's, separated by
#             colons
#   GPUS MODE SIM_ARGS   as in ../boot.sh; GPUS is empty unless given
#   IOMMU     intel or none; the processor is an Intel one in either case  (intel)
#   MEM SMP   MiB of memory, number of CPUs                          (768, 1)
#   INSTALL   1 = start LOADER's disk from outside and install the loader; for setup.sh
#   QEMU      the program                             (qemu-system-x86_64)
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if [[ $# -lt 3 ]]; then
    sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"
    exit 2
fi
cache=$(cd "$1" && pwd)
loader=$2
mkdir -p "$3/share"
folder=$(cd "$3" && pwd)
shift 3
original=$cache/disk/$loader.qcow2
[[ -s $original ]] || { echo "boot: $original was not made by setup.sh" >&2; exit 2; }
kver=$(<"$cache/kver")

[[ -e $folder/disk.qcow2 ]] ||
    qemu-img create -q -f qcow2 -F qcow2 -b "$original" "$folder/disk.qcow2"
firmware=()
if [[ $loader == systemd-boot ]]; then
    code=/usr/share/OVMF/OVMF_CODE_4M.fd
    if [[ ! -e $folder/vars ]]; then
        [[ ! -e $cache/disk/$loader.vars ]] || cp "$cache/disk/$loader.vars" "$folder/vars"
        [[ -e $folder/vars ]] || cp /usr/share/OVMF/OVMF_VARS_4M.fd "$folder/vars"
    fi
    firmware=(-drive "if=pflash,format=raw,readonly=on,file=$code"
              -drive "if=pflash,format=raw,file=$folder/vars")
fi

# shellcheck source=../gpu-ports.sh
source "$here/../gpu-ports.sh"
GPU_TOPO="" GPU_PORT_ARGS=()
[[ -z ${GPUS:-} ]] || gpu_ports "$GPUS"
[[ ${IOMMU:=intel} == none ]] || firmware+=(-device "intel-iommu,intremap=on")
control=()
[[ -z ${CONTROL:-} ]] || control=(-chardev "socket,id=rig_control,path=${CONTROL//,/,,}" -serial chardev:rig_control)

root=$(cd "$here/../.." && pwd)
cat >"$folder/share/job" <<JOB
export RIG=$(printf %q "$root/rig") RIG_CACHE=${cache@Q} RIG_OUT=/run/rig
export RIG_PATHS=$(printf %q "$root:$cache:${PATHS:-}")
export RIG_TOPO=${GPU_TOPO@Q} RIG_MODE=${MODE:-mdev} RIG_SIM_ARGS=$(printf %q "${SIM_ARGS:-}")
export RIG_CONTROL=${CONTROL:+1} RIG_INSTALL=${INSTALL:+$loader}
export HOME=/root TERM=dumb
JOB
cp "$here/start.sh" "$folder/share/start"
[[ -z ${INSTALL:-} ]] || cp "$here/install.sh" "$folder/share/install"

start=() first=,bootindex=0
if [[ -n ${INSTALL:-} ]]; then
    [[ $loader == grub ]] && partition=1 || partition=2
    start=(-kernel "$cache/vmlinuz-off" -initrd "$cache/disk/initrd.img"
           -append "root=/dev/vda$partition console=ttyS0 quiet loglevel=3 panic=-1")
    first=
fi
exec "${QEMU:-qemu-system-x86_64}" -accel tcg,tb-size=256 -cpu max,vendor=GenuineIntel -M q35 -m "${MEM:-768}" -smp "${SMP:-1}" \
    -nodefaults -no-user-config -display none -no-reboot -serial stdio "${control[@]}" \
    -drive "if=none,id=rig_disk,file=$folder/disk.qcow2" \
    -device "virtio-blk-pci,drive=rig_disk,bus=pcie.0,addr=04.0$first" \
    -fsdev local,id=host,path=/,security_model=none,readonly=on,multidevs=remap \
    -device virtio-9p-pci,fsdev=host,mount_tag=host \
    -fsdev "local,id=rig,path=${folder//,/,,}/share,security_model=none" \
    -device virtio-9p-pci,fsdev=rig,mount_tag=rig \
    "${firmware[@]}" "${GPU_PORT_ARGS[@]}" "${start[@]}" "$@" </dev/null
