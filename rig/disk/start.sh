# shellcheck shell=bash
# Runs in a guest with a disk after every start, by rig.service: paths of the host, what udev would
# have made, simulated GPUs; then commands of the host, until the guest is switched off or rebooted.

source /run/rig/job

busybox ifconfig lo 127.0.0.1 up
# what programs of boot loaders look for and udev makes
mkdir -p /dev/block /dev/disk/by-uuid
for device in /sys/class/block/vda*; do
    name=${device##*/}
    ln -sf "../$name" "/dev/block/$(<"$device/dev")"
    uuid=$(blkid -o value -s UUID "/dev/$name") && ln -sf "../../$name" "/dev/disk/by-uuid/$uuid"
done
mount -a

if [[ -n $RIG_INSTALL ]]; then
    source /run/rig/install
    exec systemctl poweroff
fi

modprobe 9p
mkdir -p /run/host
mount -t 9p -o ro,cache=loose,trans=virtio,version=9p2000.L,msize=262144 host /run/host
IFS=: read -r -a paths <<<"$RIG_PATHS"
for path in "${paths[@]}"; do
    if [[ -d /run/host$path ]]; then
        mkdir -p "$path"
    else
        mkdir -p "$(dirname "$path")"
        touch "$path"
    fi
    mount --bind "/run/host$path" "$path"
done
if [[ -n $RIG_TOPO ]]; then
    modprobe -a mdev vfio_pci_core
    # shellcheck disable=SC2086  # RIG_SIM_ARGS is a list of words
    insmod "$RIG_CACHE/module/simgpu.ko" "topo=$RIG_TOPO" "mode=$RIG_MODE" $RIG_SIM_ARGS
fi
cd "${RIG%/rig}" || exit
[[ -z $RIG_CONTROL ]] || source "$RIG/control.sh"
