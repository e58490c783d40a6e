#!/bin/bash
# Disks of servers as an installer leaves them, in the cache folder of ../setup.sh.
#
#   setup.sh CACHE [KERNEL]       KERNEL: 6.12 (default) or 6.1, as for ../setup.sh
#
# CACHE/disk afterwards holds grub.qcow2 (GRUB on BIOS) and systemd-boot.qcow2 with
# systemd-boot.vars (systemd-boot on UEFI): Debian's own programs and boot loaders, systemd, the
# kernel of the rig, and no word about an IOMMU anywhere. boot.sh starts guests on overlays of them.
# Running it again is quick; only what changed is made again. Takes two minutes, once.
#
# Programs that are missing are installed when the caller is root, as in ../setup.sh.
set -euo pipefail
export LC_ALL=C DEBIAN_FRONTEND=noninteractive PATH=$PATH:/sbin:/usr/sbin

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if [[ $# -lt 1 ]]; then
    sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"
    exit 2
fi
"$here/../setup.sh" "$@"
cache=$(cd "$1" && pwd)
kver=$(<"$cache/kver")
disk=$cache/disk

say() { printf '%4ss  %s\n' "$SECONDS" "$*"; }
die() { echo "setup: $*" >&2; exit 1; }

# What a small server has, and the libraries of Python, which itself comes from the host.
base=(bash busybox-static coreutils dash findutils gawk grep kmod libexpat1 libsqlite3-0 libssl3 mount procps
    sed systemd util-linux)
declare -A loaders=([grub]="grub-pc" [systemd-boot]="systemd-boot dosfstools")

made_of=$(cat "$cache/kver" "$here"/{setup.sh,boot.sh,start.sh,install.sh,iommu_off.py} "$here"/units/* \
    "$here/../initramfs.py" | sha256sum)
[[ $(cat "$disk/sources" 2>/dev/null) != "$made_of" ]] || { say "disks ready"; exit 0; }
missing=()
for pair in qemu-img:qemu-utils sfdisk:fdisk mke2fs:e2fsprogs; do
    command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
done
[[ -e /usr/share/OVMF/OVMF_CODE_4M.fd ]] || missing+=(ovmf)
if [[ ${#missing[@]} -gt 0 ]]; then
    [[ $(id -u) == 0 && ${RIG_INSTALL:-1} != 0 ]] || die "missing packages: ${missing[*]}"
    say "installing ${missing[*]}"
    apt-get -o DPkg::Lock::Timeout=600 install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi
rm -rf "$disk"
mkdir -p "$disk"

# ---- the kernel -----------------------------------------------------------

kernel_of=$(cat "$cache/kver" "$here/iommu_off.py" | sha256sum)
if [[ $(cat "$cache/vmlinuz-off.sources" 2>/dev/null) != "$kernel_of" ]]; then
    say "kernel that uses an IOMMU only when told to"
    # Where the word is that says so, says the kernel.
    word=$(QUIET=1 GPUS="" "$here/../boot.sh" "$cache" "sed -n 's/ [bBdD] dmar_disabled$//p' /proc/kallsyms")
    python3 "$here/iommu_off.py" "$cache/root/boot/vmlinuz-$kver" "$cache/vmlinux" "$word" "$cache/vmlinuz-off"
    echo "$kernel_of" >"$cache/vmlinuz-off.sources"
fi
python3 "$here/../initramfs.py" --disk "$cache/root/lib/modules/$kver" "$disk/initrd.img"

# ---- a disk per boot loader -----------------------------------------------

# packages PACKAGE...: fetch them and all that they need, once.
packages() {
    mkdir -p "$disk/debs"
    # as on a machine where nothing is installed and nothing was downloaded
    apt-get -qq -o Debug::NoLocking=1 -o Dir::State::status=/dev/null -o Dir::Cache::archives="$disk/none" \
        --print-uris --no-install-recommends install "$@" | cut -d ' ' -f 2 >"$disk/list"
    [[ -s $disk/list ]] || die "no packages; are the package lists current (apt-get update)?"
    (cd "$disk/debs" && sed 's/_.*//' "$disk/list" | xargs apt-get download -qq 2>/dev/null) ||
        die "download failed; are the package lists current (apt-get update)?"
}

# tree LOADER: a file system as the packages have it, with what the installer adds.
tree() {
    local deb folder root=$disk/tree
    rm -rf "$root"
    mkdir -p "$root"/{usr/{bin,sbin,lib,lib64},boot,dev,proc,sys,run,tmp,mnt,root,home}
    for folder in bin sbin lib lib64; do
        ln -s "usr/$folder" "$root/$folder"
    done
    while read -r deb; do
        dpkg-deb --fsys-tarfile "$disk/debs/$deb" |
            tar x -C "$root" --keep-directory-symlink --no-same-owner \
                --exclude './usr/share/doc/*' --exclude './usr/share/man/*' \
                --exclude './usr/share/info/*' --exclude './usr/share/locale/*'
    done <"$disk/list"
    chmod 1777 "$root/tmp"
    # what the scripts of the packages would have made
    ln -sf gawk "$root/usr/bin/awk"
    ln -sf dash "$root/usr/bin/sh"
    ln -sf /lib/systemd/systemd "$root/sbin/init"
    cp "$root/usr/share/base-passwd/passwd.master" "$root/etc/passwd" 2>/dev/null ||
        echo 'root:x:0:0:root:/root:/bin/bash' >"$root/etc/passwd"
    cp "$root/usr/share/base-passwd/group.master" "$root/etc/group" 2>/dev/null ||
        echo 'root:x:0:' >"$root/etc/group"
    echo 0123456789abcdef0123456789abcdef >"$root/etc/machine-id"
    echo node >"$root/etc/hostname"
    printf '127.0.0.1 localhost node\n' >"$root/etc/hosts"
    ldconfig -r "$root"
    # the kernel
    cp "$cache/vmlinuz-off" "$root/boot/vmlinuz-$kver"
    cp "$disk/initrd.img" "$root/boot/initrd.img-$kver"
    mkdir -p "$root/lib/modules"
    cp -r "$cache/root/lib/modules/$kver" "$root/lib/modules/"
    cp "$cache/root/usr/src/linux-headers-$kver/.config" "$root/boot/config-$kver"
    # our own: what systemd starts
    cp "$here"/units/* "$root/etc/systemd/system/"
    ln -s rig.target "$root/etc/systemd/system/default.target"
}

# image LOADER TABLE START: a disk with this partition table, whose last partition is the tree.
image() {
    local raw=$disk/$1.raw
    rm -f "$raw"
    truncate -s 1G "$raw"
    sfdisk -q "$raw" <<<"$2"
    mke2fs -q -t ext4 -L root -d "$disk/tree" -E "offset=$(($3 << 20))" "$raw" "$((1022 - $3))M"
}

# install LOADER: start the guest once from outside, and have its own programs install the loader.
install() {
    local folder=$disk/install
    rm -rf "$folder"
    mkdir "$folder"
    qemu-img convert -O qcow2 "$disk/$1.raw" "$disk/$1.qcow2"
    rm "$disk/$1.raw"
    INSTALL=1 timeout 300 "$here/boot.sh" "$cache" "$1" "$folder" </dev/null >"$folder/console" 2>&1 || true
    [[ -e $folder/share/installed ]] || { tail -n 30 "$folder/console"; die "installing $1 failed"; }
    qemu-img convert -O qcow2 "$folder/disk.qcow2" "$disk/$1.new"
    mv "$disk/$1.new" "$disk/$1.qcow2"
    [[ ! -e $folder/vars ]] || mv "$folder/vars" "$disk/$1.vars"
    rm -r "$folder"
}

for loader in grub systemd-boot; do
    say "disk with $loader"
    # shellcheck disable=SC2086  # a list of words
    packages "${base[@]}" ${loaders[$loader]}
    tree
    if [[ $loader == grub ]]; then
        # The files of grub-pc's own installation, and where the BIOS finds them: the boot sector, and
        # the sectors behind it, of which the boot sector loads the first.
        cp "$disk/tree/usr/share/grub/default/grub" "$disk/tree/etc/default/grub"
        mkdir -p "$disk/tree/boot/grub/i386-pc"
        cp "$disk"/tree/usr/lib/grub/i386-pc/*.{mod,lst} "$disk/tree/boot/grub/i386-pc/"
        image grub "label: dos
start=2048, type=83, bootable" 1
        "$disk/tree/lib64/ld-linux-x86-64.so.2" --library-path "$disk/tree/lib/x86_64-linux-gnu" \
            "$disk/tree/usr/bin/grub-mkimage" -O i386-pc -d "$disk/tree/usr/lib/grub/i386-pc" \
            -p "(hd0,msdos1)/boot/grub" -o "$disk/core.img" biosdisk part_msdos ext2
        dd if="$disk/tree/usr/lib/grub/i386-pc/boot.img" of="$disk/grub.raw" bs=440 count=1 conv=notrunc status=none
        dd if="$disk/core.img" of="$disk/grub.raw" bs=512 seek=1 conv=notrunc status=none
    else
        echo "/dev/vda1 /boot/efi vfat umask=0077 0 1" >"$disk/tree/etc/fstab"
        mkdir -p "$disk/tree/boot/efi"
        image systemd-boot "label: gpt
start=2048, size=128M, type=U
type=L" 129
    fi
    install "$loader"
done
rm -rf "$disk"/{tree,debs,list,core.img,initrd.img}
echo "$made_of" >"$disk/sources"
say "disks ready, $(du -sh "$disk" | cut -f1)"
