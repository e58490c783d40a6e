"""A dump of a host's devices that can be simulated elsewhere, and that gives nothing away.

Only what is on the lists below is read: what identifies devices, what they can do and how they
hang together. Nothing else can get into a dump, whatever a driver shows; `disguise` then
replaces what names this very machine. Configuration space is left alone: reading all of it upsets
some devices.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Container, Iterator

import msgspec

from laneway.host.attributes import clean
from laneway.host.disguise import disguise
from laneway.host.leaving import read_locked
from laneway.host.paths import as_address, functions_on, real_path
from laneway.host.pci import DEVICES
from laneway.host.port import Host
from laneway.sim.dump import Block


class _Kind(msgspec.Struct, frozen=True):
    """The devices of one subsystem and what is recorded of them."""

    subsystem: str
    directory: str
    attributes: re.Pattern[str]
    """Full match on the name, sub-directories included."""
    links: re.Pattern[str]
    directories: re.Pattern[str] = re.compile("")
    """Sub-directories that are entered."""


def _any(names: str) -> re.Pattern[str]:
    """A pattern for names, in which `*` stands for anything up to the next slash."""
    return re.compile("|".join(re.escape(name).replace(r"\*", "[^/]*") for name in names.split()))


_KINDS = (
    _Kind(
        "pci",
        "/sys/bus/pci/devices",
        _any(
            "class vendor device subsystem_vendor subsystem_device revision irq enable "
            "driver_override local_cpulist numa_node resource boot_vga reset_method "
            "current_link_speed current_link_width max_link_speed max_link_width "
            "sriov_totalvfs sriov_numvfs sriov_vf_device sriov_offset sriov_stride "
            "sriov_drivers_autoprobe nvidia/current_vgpu_type nvidia/creatable_vgpu_types "
            "nvidia/gpu_instance_id nvidia/placement_id mdev_supported_types/*/name "
            "mdev_supported_types/*/description mdev_supported_types/*/device_api "
            "mdev_supported_types/*/available_instances"
        ),
        _any("driver iommu_group physfn virtfn*"),
        _any("nvidia mdev_supported_types mdev_supported_types/*"),
    ),
    _Kind(
        "usb",
        "/sys/bus/usb/devices",
        _any(
            "idVendor idProduct bcdDevice bDevice* bInterface* bNum* bConfigurationValue bMaxPower "
            "bAlternateSetting bmAttributes busnum devnum devpath speed version maxchild removable "
            "manufacturer product serial"
        ),
        _any("driver"),
    ),
    _Kind("mdev", "/sys/bus/mdev/devices", _any(""), _any("driver iommu_group mdev_type")),
    _Kind(
        "net",
        "/sys/class/net",
        _any(
            "address addr_len type mtu ifindex iflink dev_port operstate speed flags bonding/mode"
        ),
        _any("device master lower_* upper_*"),
        _any("bonding"),
    ),
    _Kind(
        "block",
        "/sys/class/block",
        _any("dev size ro removable range partition start queue/rotational"),
        _any("device slaves/*"),
        _any("queue slaves"),
    ),
    _Kind("graphics", "/sys/class/graphics", _any("dev name"), _any("device")),
)

_PROPERTIES = _any(
    "DRIVER MODALIAS PCI_CLASS PCI_ID PCI_SUBSYS_ID PCI_SLOT_NAME DEVTYPE DEVNAME MAJOR MINOR "
    "BUSNUM DEVNUM PRODUCT TYPE INTERFACE IFINDEX PARTN"
)
_WAITING = frozenset({"driver_override", "sriov_numvfs"})
"""What waits, as `uevent` does, while the kernel takes a function away."""
_STACKED = re.compile("master|lower_|upper_|slaves/")
"""Links to devices that may have been left out."""
_UNSPEAKABLE = re.compile(r"[=\x00-\x1f\x7f]")
"""What the format cannot hold in a name or in where a link leads."""


def capture(host: Host) -> str:
    """The dump, in umockdev's format. What vanishes or cannot be read meanwhile is left out."""
    found = {path: kind for kind in _KINDS for path in _devices(host, kind)}
    kept = _worth_keeping(host, found)
    locked = _locked(host)
    blocks = [_block(host, path, kept[path], kept, locked=path in locked) for path in sorted(kept)]
    return disguise(blocks, _name(host))


def _locked(host: Host) -> set[str]:
    """Functions of which not everything can be read, because the kernel is taking them away."""
    addresses = filter(None, map(as_address, _names(host, DEVICES)))
    return {real_path(host, f"{DEVICES}/{address}") for address in read_locked(host, addresses)}


def _devices(host: Host, kind: _Kind) -> Iterator[str]:
    for name in _names(host, kind.directory):
        try:
            path = real_path(host, f"{kind.directory}/{name}")
        except OSError:
            continue
        if path.startswith("/sys/devices/") and not _UNSPEAKABLE.search(path):
            yield path


def _worth_keeping(host: Host, found: dict[str, _Kind]) -> dict[str, _Kind]:
    """Hardware, and what is stacked on it: not the virtual devices that a node has by hundreds."""
    kept = {path: kind for path, kind in found.items() if functions_on(path)}
    rest = {path: _supports(host, path) for path in found if path not in kept}
    while stacked := [path for path, below in rest.items() if below & kept.keys()]:
        for path in stacked:
            kept[path] = found[path]
            del rest[path]
    return kept


def _supports(host: Host, path: str) -> set[str]:
    """Device paths that a virtual interface or block device stands on."""
    links = [f"{path}/{name}" for name in _names(host, path) if name.startswith("lower_")]
    links += [f"{path}/slaves/{name}" for name in _names(host, f"{path}/slaves")]
    found = set()
    for link in links:
        try:
            found.add(real_path(host, link))
        except OSError:
            continue
    return found


def _block(
    host: Host, path: str, kind: _Kind, kept: Container[str], *, locked: bool = False
) -> Block:
    attributes: dict[str, bytes] = {}
    links: dict[str, str] = {}
    for name in _walk(host, path, kind, ""):
        try:
            if locked and name in _WAITING:
                continue
            if kind.attributes.fullmatch(name):
                attributes[name] = host.read(f"{path}/{name}")
            elif kind.links.fullmatch(name):
                target = host.readlink(f"{path}/{name}")
                links |= {} if _UNSPEAKABLE.search(target) else {name: target}
        except OSError:
            continue
    links = {
        name: target
        for name, target in links.items()
        if not _STACKED.match(name) or posixpath.normpath(f"{path}/{target}") in kept
    }
    properties = {} if locked else _properties(host, path)
    node = properties.get("DEVNAME", "").removeprefix("/dev/")
    properties["SUBSYSTEM"] = kind.subsystem
    return Block(
        path=path.removeprefix("/sys"),
        properties=properties,
        attributes=attributes,
        links=links,
        node=node,
    )


def _walk(host: Host, path: str, kind: _Kind, below: str) -> Iterator[str]:
    """Names of what may be recorded, relative to the device."""
    for name in _names(host, f"{path}/{below}" if below else path):
        inner = f"{below}/{name}" if below else name
        if _UNSPEAKABLE.search(inner):
            continue
        if kind.directories.fullmatch(inner):
            yield from _walk(host, path, kind, inner)
        else:
            yield inner


def _properties(host: Host, path: str) -> dict[str, str]:
    try:
        lines = clean(host.read(f"{path}/uevent")).splitlines()
    except OSError:
        return {}
    pairs = (line.partition("=") for line in lines)
    found = {key: value for key, _, value in pairs if _PROPERTIES.fullmatch(key) and value}
    if "DEVNAME" in found:
        found["DEVNAME"] = f"/dev/{found['DEVNAME'].removeprefix('/dev/')}"
    return found


def _name(host: Host) -> str:
    try:
        return clean(host.read("/proc/sys/kernel/hostname"))
    except OSError:
        return ""


def _names(host: Host, path: str) -> list[str]:
    try:
        return sorted(host.names(path))
    except OSError:
        return []
