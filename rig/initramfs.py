#!/usr/bin/env python3
"""Write a small initramfs that makes the host's root the guest's root, or the root on a disk.

    initramfs.py MODULE-TREE OUTPUT [MODULE...]
    initramfs.py --disk MODULE-TREE OUTPUT [MODULE...]

Contents: busybox, the modules that 9p and overlayfs (or a disk) need, the extra
modules named, and one of the start scripts below. The cpio archive is written
here, so the program cpio is not needed.
"""

import lzma
import shutil
import sys
from pathlib import Path

BASE_MODULES = ["virtio_pci", "9pnet_virtio", "9p", "overlay"]
DISK_MODULES = ["virtio_pci", "virtio_blk", "crc32c_generic", "ext4"]

# Shares: "root" = the host's root, read-only; "rig" = the job and its status;
# "out" = optional folder for results. All writes of the guest go to memory.
INIT = r"""#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for module in $(cat /modules.order); do
    insmod "/modules/$module" || echo "rig: cannot load $module"
done

fast=trans=virtio,version=9p2000.L,msize=262144
mount -t 9p -o "ro,cache=loose,$fast" root /lower || exec sh
mount -t tmpfs upper /upper
mkdir /upper/data /upper/work
mount -t overlay -o lowerdir=/lower,upperdir=/upper/data,workdir=/upper/work overlay /new || exec sh
mount --move /proc /new/proc
mount --move /sys /new/sys
mount --move /dev /new/dev
mkdir -p /new/dev/pts /new/dev/shm
mount -t devpts devpts /new/dev/pts
mount -t tmpfs shm /new/dev/shm
mount -t tmpfs run /new/run
mkdir -p /new/run/rig /new/run/out /new/run/lock /new/run/home
mount -t 9p -o "$fast" rig /new/run/rig || exec sh
mount -t 9p -o "$fast" out /new/run/out 2>/dev/null

# the kernel's own modules, from the private tree
modules=$(cat /new/run/rig/modules)
release=$(uname -r)
mkdir -p "/new/lib/modules/$release"
mount --bind "/new$modules" "/new/lib/modules/$release"

stty -opost </dev/console
read -r uptime _ </new/proc/uptime
[ -e /new/run/rig/quiet ] || echo "rig: guest up after $uptime s"
exec switch_root /new /bin/bash /run/rig/start
"""

# The root is where the kernel's command line says, as in a distribution's own initramfs.
DISK_INIT = r"""#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for module in $(cat /modules.order); do
    insmod "/modules/$module" || echo "rig: cannot load $module"
done

for word in $(cat /proc/cmdline); do
    case $word in root=*) root=${word#root=} ;; esac
done
case $root in UUID=*|LABEL=*) root=$(findfs "$root") ;; esac
mount -t ext4 "$root" /new || { echo "rig: no root"; poweroff -f; }
mount --move /proc /new/proc
mount --move /sys /new/sys
mount --move /dev /new/dev
exec switch_root /new /sbin/init
"""


def module_name(path: str) -> str:
    return Path(path).name.split(".ko")[0].replace("-", "_")


def load_order(tree: Path, wanted: list[str]) -> list[str]:
    """The files of the wanted modules, each after the ones it depends on."""
    needs = {}
    for line in (tree / "modules.dep").read_text().splitlines():
        path, _, rest = line.partition(":")
        needs[path] = rest.split()
    by_name = {module_name(path): path for path in needs}
    builtin = {module_name(line) for line in (tree / "modules.builtin").read_text().splitlines()}
    order: list[str] = []

    def add(path: str) -> None:
        for need in reversed(needs[path]):
            add(need)
        if path not in order:
            order.append(path)

    for name in (module_name(module) for module in wanted):
        if name in by_name:
            add(by_name[name])
        elif name not in builtin:
            raise SystemExit(f"initramfs: no module {name} in {tree}")
    return order


class Archive:
    """A cpio archive in the "newc" format."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.inode = 0

    def add(
        self,
        name: str,
        mode: int,
        content: bytes = b"",
        device: tuple[int, int] = (0, 0),
    ) -> None:
        self.inode += 1
        raw_name = name.encode() + b"\0"
        # inode, mode, uid, gid, links, mtime, size, major, minor, device, name size, check
        fields = [
            self.inode,
            mode,
            0,
            0,
            1,
            0,
            len(content),
            0,
            0,
            *device,
            len(raw_name),
            0,
        ]
        self.data += b"070701" + b"".join(b"%08X" % field for field in fields) + raw_name
        self.pad()
        self.data += content
        self.pad()

    def pad(self) -> None:
        self.data += bytes(-len(self.data) % 4)

    def finish(self) -> bytes:
        self.add("TRAILER!!!", 0)
        return bytes(self.data)


def main() -> None:
    arguments = sys.argv[1:]
    disk = arguments[:1] == ["--disk"]
    if disk:
        del arguments[0]
    if len(arguments) < 2:
        raise SystemExit(__doc__)
    tree, output = Path(arguments[0]), Path(arguments[1])
    busybox = shutil.which("busybox")
    if not busybox:
        raise SystemExit("initramfs: busybox is missing (it must be the static one)")

    archive = Archive()
    for folder in ("bin", "dev", "proc", "sys", "modules", "lower", "upper", "new"):
        archive.add(folder, 0o40755)
    archive.add("dev/console", 0o20600, device=(5, 1))
    archive.add("bin/busybox", 0o100755, Path(busybox).read_bytes())
    names = []
    for path in load_order(tree, (DISK_MODULES if disk else BASE_MODULES) + arguments[2:]):
        content = (tree / path).read_bytes()
        if path.endswith(".xz"):
            content = lzma.decompress(content)
        names.append(Path(path).name.removesuffix(".xz"))
        archive.add(f"modules/{names[-1]}", 0o100644, content)
    archive.add("modules.order", 0o100644, "".join(f"{name}\n" for name in names).encode())
    archive.add("init", 0o100755, (DISK_INIT if disk else INIT).encode())
    output.write_bytes(archive.finish())


if __name__ == "__main__":
    main()
