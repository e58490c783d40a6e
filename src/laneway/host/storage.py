"""The block devices that a node runs on: mounted file systems and swap, down to the hardware.

File systems and swap name a block device; the kernel names what that stands on: the disk of a
partition, the `slaves` of device mapper, LVM and md, the members of a btrfs, the controllers of a
multipath NVMe namespace. What ends at no PCI or USB device (loop, zram, network) simply falls out
of the decision.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from contextlib import suppress

from laneway.host import procfs
from laneway.host.attributes import clean
from laneway.host.critical import Need, Use
from laneway.host.paths import real_path
from laneway.host.port import Host

_CLASS = "/sys/class/block"
_BTRFS = "/sys/fs/btrfs"
_NUMBER = re.compile(r"[0-9]{1,8}:[0-9]{1,8}")
_CONTROLLER = re.compile(r"nvme[0-9]+")


def needs(host: Host) -> list[Need]:
    """One need for each block device under a mounted file system or swap."""
    found: list[Need] = []
    for path, mount in _mounted(host).items():
        name = clean(posixpath.basename(path))
        what = "the root file system" if mount == "/" else "a mounted file system"
        found += _stack(host, path, f"holds {what} ({name} on {clean(mount)})", "mount")
    for path in _swaps(host):
        name = clean(posixpath.basename(path))
        found += _stack(host, path, f"holds swap space ({name})", "swap")
    return found


def _mounted(host: Host) -> dict[str, str]:
    """Device paths with the shortest place each is mounted on: pods add bind mounts by hundreds."""
    mounts: dict[str, str] = {}
    sources: dict[tuple[str, str], list[str]] = {}
    btrfs = None
    for line in procfs.lines(host, "mountinfo"):
        place, _, what = line.partition(" - ")
        match place.split(maxsplit=5), what.split(maxsplit=2):
            case [_, _, number, _, mount, *_], [kind, source, _]:
                pass
            case _:
                continue
        if (number, source) not in sources:
            devices = _devices(host, number, procfs.unescape(source))
            if kind == "btrfs" and devices:
                btrfs = _btrfs_volumes(host) if btrfs is None else btrfs
                devices = next((all_ for all_ in btrfs if devices[0] in all_), devices)
            sources[number, source] = devices
        if sources[number, source]:
            mount = procfs.unescape(mount)
        for path in sources[number, source]:
            if path not in mounts or len(mount) < len(mounts[path]):
                mounts[path] = mount
    return mounts


def _devices(host: Host, number: str, source: str) -> list[str]:
    """Paths of the block device with this number, or of the source where the number is made up."""
    if not _NUMBER.fullmatch(number):
        return []
    if not number.startswith("0:"):
        return _path(host, f"/sys/dev/block/{number}") or _by_name(host, source)
    return _by_name(host, source)


def _by_name(host: Host, source: str) -> list[str]:
    if not source.startswith("/dev/"):
        return []
    with suppress(OSError):
        source = host.resolve(source)  # /dev/mapper and /dev/disk hold links
    name = posixpath.basename(source)
    return _path(host, f"{_CLASS}/{name}") if name not in ("", ".", "..") else []


def _path(host: Host, link: str) -> list[str]:
    try:
        return [real_path(host, link)]
    except OSError:
        return []


def _swaps(host: Host) -> Iterator[str]:
    for line in procfs.lines(host, "swaps")[1:]:
        match line.split():
            case [source, "partition", *_]:  # a swap file lies on a mounted file system
                yield from _by_name(host, procfs.unescape(source))


def _btrfs_volumes(host: Host) -> list[list[str]]:
    return [
        [path for name in members for path in _path(host, f"{_CLASS}/{name}")]
        for volume in _names(host, _BTRFS)
        if (members := _names(host, f"{_BTRFS}/{volume}/devices"))
    ]


def _stack(host: Host, top: str, reason: str, use: Use) -> list[Need]:
    """The device and everything it stands on."""
    seen = {top}
    todo = [top]
    found = []
    while todo:
        path = todo.pop()
        found.append(Need(path, reason, use))
        for lower in _lower(host, path):
            if lower not in seen:
                seen.add(lower)
                todo.append(lower)
    return found


def _lower(host: Host, path: str) -> list[str]:
    names = _names(host, path)
    if "partition" in names:
        return [posixpath.dirname(path)]
    if "/nvme-subsystem/" in path:
        subsystem = posixpath.dirname(path)
        controllers = filter(_CONTROLLER.fullmatch, _names(host, subsystem))
        return [lower for name in controllers for lower in _path(host, f"{subsystem}/{name}")]
    if "slaves" not in names:
        return []
    slaves = _names(host, f"{path}/slaves")
    return [lower for name in slaves for lower in _path(host, f"{path}/slaves/{name}")]


def _names(host: Host, path: str) -> list[str]:
    try:
        return sorted(host.names(path))
    except OSError:
        return []
