"""From the devices of a dump to the files that a kernel shows for them.

A dump describes devices one by one, below /sys/devices. Everything else that a kernel shows is made
of links between them, so it is derived here: buses, drivers, classes, device numbers, IOMMU groups
and device nodes. Installing and removing a device are exact opposites, which is what hot-plug and
the creation of a vGPU are made of.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from laneway.sim.dump import Block, DumpError
from laneway.sim.tree import Directory, Tree

GROUPS = "/sys/kernel/iommu_groups"

_BUSES = frozenset(
    """
    acpi auxiliary ccw clockevents clocksource container cpu dax edac event_source gpio hid i2c
    isa machinecheck mdev mdio_bus memory memory_tiering nd node nvmem parport pci pci_express
    platform pnp rpmsg scsi sdio serial serio soundwire spi thunderbolt usb usb-serial virtio
    vmbus wmi workqueue xen
    """.split()  # noqa: SIM905 - one word after another reads better
)
"""Subsystems below /sys/bus; every other one is a class."""

_UDEV = re.compile(
    r"SUBSYSTEM|DEVLINKS|TAGS|CURRENT_TAGS|USEC_INITIALIZED|(?:ID|SYSTEMD|UDISKS|MEMORY|DM|\.)_?.*"
)
"""Properties that udev adds or that only events carry: the kernel's `uevent` file has none."""

_NAME = re.compile(r"(?!\.\.?$)[^/\x00-\x1f\x7f]{1,255}")
_NUMBER = re.compile(r"[0-9]{1,9}")
_GROUP = re.compile(rf"(?:\.\./)*{GROUPS[5:]}/([0-9]{{1,9}})")


def install(tree: Tree, block: Block) -> None:
    """Make all the files of a device. Raises DumpError where they contradict what is there."""
    home = "/sys" + block.path
    try:
        tree.put_all(home, block.attributes)
        tree.put_all(home, block.links)
        if "uevent" not in block.attributes:
            tree.put(f"{home}/uevent", _uevent_file(block))
        if block.node:
            tree.put(f"/dev/{block.node}", block.node_content)
        for path, target in _links(block):
            tree.link(path, target)
        group = iommu_group(block)
        if group is not None:
            tree.put(f"{GROUPS}/{group}/type", b"DMA\n")
    except OSError as error:
        raise DumpError(
            f"{block.path}: {error.filename} cannot be both a directory and something else; "
            "record the dump again"
        ) from None


def uninstall(tree: Tree, block: Block) -> None:
    """Take a device away with everything that points to it."""
    tree.discard("/sys" + block.path)
    above = "/sys" + block.path.rpartition("/")[0]
    if not tree.get(above) and not block.path.startswith("/devices/virtual/"):
        tree.discard(above)  # the directory of a class, `net`, goes with its last device
    for path, _ in _links(block):
        tree.discard(path)
    if block.node:
        tree.discard(f"/dev/{block.node}")
    group = iommu_group(block)
    if group is not None and not tree.get(f"{GROUPS}/{group}/devices"):
        tree.discard(f"{GROUPS}/{group}")


def change(tree: Tree, before: Block, after: Block) -> None:
    """Make the files of a device follow what changed about it: driver, attributes and links."""
    home = "/sys" + before.path
    for name in (before.attributes.keys() | before.links.keys()) - (
        after.attributes.keys() | after.links.keys()
    ):
        tree.discard(f"{home}/{name}")
    for name, value in after.attributes.items():
        if before.attributes.get(name) != value:
            tree.put(f"{home}/{name}", value)
    for name, target in after.links.items():
        if before.links.get(name) != target:
            tree.put(f"{home}/{name}", target)
    old, new = dict(_links(before)), dict(_links(after))
    for path in old.keys() - new.keys():
        tree.discard(path)
    for path in new.keys() - old.keys():
        tree.link(path, new[path])
    if "uevent" not in after.attributes:
        tree.put(f"{home}/uevent", _uevent_file(after))


def free_group(tree: Tree) -> int:
    """The number that the kernel gives to the next IOMMU group: the lowest free one."""
    groups = tree.get(GROUPS)
    taken = groups if isinstance(groups, Directory) else ()
    return next(number for number in range(len(taken) + 1) if str(number) not in taken)


def iommu_group(block: Block) -> int | None:
    target = block.links.get("iommu_group")
    if target is None:
        return None
    match = _GROUP.fullmatch(target)
    if match is None:
        raise DumpError(f"{block.path}: iommu_group leads to {target!r}; record the dump again")
    return int(match[1])


def kernel_properties(block: Block) -> dict[str, str]:
    """The properties that come from the kernel and not from udev."""
    found = {k: v for k, v in block.properties.items() if not _UDEV.fullmatch(k)}
    if "DEVNAME" in found:
        found["DEVNAME"] = found["DEVNAME"].removeprefix("/dev/")
    return found


def _uevent_file(block: Block) -> bytes:
    text = "".join(f"{key}={value}\n" for key, value in kernel_properties(block).items())
    return text.encode("utf-8", "surrogateescape")


def _links(block: Block) -> Iterator[tuple[str, str]]:
    """Links that follow from what the device says about itself: where they are, where they go."""
    home = "/sys" + block.path
    name = home.rpartition("/")[2]
    subsystem = _property(block, "SUBSYSTEM", _NAME)
    if subsystem in _BUSES:
        yield f"{home}/subsystem", f"/sys/bus/{subsystem}"
        yield f"/sys/bus/{subsystem}/devices/{name}", home
        driver = _property(block, "DRIVER", _NAME)
        if driver:
            yield f"{home}/driver", f"/sys/bus/{subsystem}/drivers/{driver}"
            yield f"/sys/bus/{subsystem}/drivers/{driver}/{name}", home
    elif subsystem:
        yield f"{home}/subsystem", f"/sys/class/{subsystem}"
        yield f"/sys/class/{subsystem}/{name}", home
    major, minor = _property(block, "MAJOR", _NUMBER), _property(block, "MINOR", _NUMBER)
    if major and minor:
        yield f"/sys/dev/{'block' if subsystem == 'block' else 'char'}/{major}:{minor}", home
    if subsystem == "block" and block.properties.get("DEVTYPE") == "disk":
        yield f"/sys/block/{name}", home
    group = iommu_group(block)
    if group is not None:
        yield f"{GROUPS}/{group}/devices/{name}", home
    if block.node:
        for link in block.node_links:
            yield f"/dev/{link}", f"/dev/{block.node}"


def _property(block: Block, key: str, form: re.Pattern[str]) -> str:
    value = block.properties.get(key, "")
    if value and not form.fullmatch(value):
        raise DumpError(f"{block.path}: {key}={value[:80]!r} is damaged; record the dump again")
    return value
