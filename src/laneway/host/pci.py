"""PCI functions from sysfs.

Ids come from what the kernel remembers, never from configuration space, where a VF shows FFFF. It
prints them all in `modalias`, which one read instead of five; where that is missing or odd, each
comes from a file of its own. Only address, ids and class must be there; whatever else is missing or
odd leaves its field empty.

While the kernel waits for a virtual machine to close a function that is being taken away, it
keeps the locks of the function and of its PF, and a process that reads an attribute that needs one
waits too, unkillable: `sriov_numvfs`, and on some kernels `uevent` and `driver_override`. So VFs
are counted by their links, and `uevent` is read only for what has no ids, which are recorded
devices.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from laneway.core.inventory import DeviceError
from laneway.core.pci import NVIDIA, Bar, Link, PciAddress, PciFunction
from laneway.host.attributes import Attributes, clean, decimal_id, describe, hex_id, shorten
from laneway.host.paths import as_address, functions_on, real_path
from laneway.host.port import Host

DEVICES = "/sys/bus/pci/devices"
_BARS = 6
"""Lines of `resource` that are base address registers; ROM, VF BARs and windows follow."""
_ABSENT = " ".join(["0x0000000000000000"] * 3)
_FLAG_IO, _FLAG_PREFETCH, _FLAG_64 = 0x100, 0x2000, 0x100000
_NO_OVERRIDE = "(null)"
_VIRTFN = re.compile(r"virtfn([0-9]{1,6})")
_MODALIAS = re.compile(
    r"pci:v0000([0-9A-F]{4})d0000([0-9A-F]{4})sv0000([0-9A-F]{4})sd0000([0-9A-F]{4})"
    r"bc([0-9A-F]{2})sc([0-9A-F]{2})i([0-9A-F]{2})"
)


class PciDevice(NamedTuple):
    """A function and its directory, so that what else it carries is read without listing again."""

    function: PciFunction
    attributes: Attributes


class _Ids(NamedTuple):
    """What a function is, in lower-case hex; empty where it cannot be told."""

    vendor: str
    device: str
    subsystem_vendor: str
    subsystem_device: str
    class_code: str


def read_functions(host: Host, errors: list[DeviceError]) -> list[PciDevice]:
    """Every PCI function, sorted by address. Raises OSError when there is no list of devices.

    What was odd about a function that could be read stays with its attributes.
    """
    addresses = list_functions(host, errors)
    devices = (read_function(host, address, errors) for address in addresses)
    return [device for device in devices if device is not None]


def list_functions(host: Host, errors: list[DeviceError]) -> list[PciAddress]:
    """The addresses of all PCI functions, sorted. Raises OSError when there is no list."""
    addresses = []
    for name in sorted(host.names(DEVICES)):
        address = as_address(name)
        if address is None:
            errors.append(DeviceError(clean(name), "not a PCI address"))
        else:
            addresses.append(address)
    return sorted(addresses)


def read_function(host: Host, address: PciAddress, errors: list[DeviceError]) -> PciDevice | None:
    """One function; None when it has gone or says too little, which is then among the errors."""
    name = str(address)
    link = f"{DEVICES}/{name}"
    try:
        attributes = Attributes(host, real_path(host, link), name)
    except OSError as error:
        if host.exists(link):
            errors.append(DeviceError(name, f"cannot be read: {describe(error)}"))
        return None
    function = _function(attributes, address)
    if attributes.vanished():
        return None
    if function is None:
        errors += attributes.errors
        return None
    return PciDevice(function, attributes)


def _function(attributes: Attributes, address: PciAddress) -> PciFunction | None:
    uevent: dict[str, str] = {}
    ids = _printed_together(attributes.spare("modalias"))
    if ids is None:
        ids, uevent = _printed_apart(attributes)
    if not (ids.vendor and ids.device and ids.class_code):
        attributes.fail("left out: vendor, device or class cannot be read")
        return None
    numa_node = attributes.number("numa_node")
    physfn = attributes.function("physfn")
    is_pf = physfn is None and "sriov_totalvfs" in attributes.names
    vfs = _vfs(attributes) if is_pf else ()
    return PciFunction(
        address=address,
        vendor=ids.vendor,
        device=ids.device,
        subsystem_vendor=ids.subsystem_vendor,
        subsystem_device=ids.subsystem_device,
        class_code=ids.class_code,
        driver=attributes.link("driver") or uevent.get("DRIVER", ""),
        iommu_group=_group(attributes),
        numa_node=numa_node if numa_node is not None and numa_node >= 0 else None,
        # A VF has no link of its own; the kernel prints "Unknown" and 0 for it.
        link=Link() if physfn else _link(attributes),
        bars=_bars(attributes),
        reset_methods=tuple(attributes.text("reset_method").split()),
        boot_vga=attributes.number("boot_vga") == 1,
        physfn=physfn,
        vfs=vfs,
        total_vfs=attributes.count("sriov_totalvfs") if is_pf else None,
        num_vfs=len(vfs),
        sriov_gpu=is_pf and ids.vendor == NVIDIA and _offers_vgpu(attributes, ids.class_code),
        upstream=_last_function_on(attributes.path.rpartition("/")[0]),
    )


@lru_cache(maxsize=1024)
def _printed_together(modalias: str) -> _Ids | None:
    """The ids in the kernel's own print of them; None for anything else.

    Remembered, because VFs show the same few by the hundred.
    """
    match = _MODALIAS.fullmatch(modalias)
    if match is None:
        return None
    vendor, device, of_vendor, of_device, *class_code = map(str.lower, match.groups())
    return _Ids(vendor, device, of_vendor, of_device, "".join(class_code))


def _printed_apart(attributes: Attributes) -> tuple[_Ids, dict[str, str]]:
    """The ids from a file each, and the properties of the device where those do not tell all."""
    vendor, device = attributes.hex("vendor", 4), attributes.hex("device", 4)
    class_code = attributes.hex("class", 6)
    uevent: dict[str, str] = {}
    if not (vendor and device and class_code):
        uevent = attributes.properties()
        reported = _id_pair(uevent.get("PCI_ID", ""))
        vendor, device = vendor or reported[0], device or reported[1]
        class_code = class_code or hex_id(uevent.get("PCI_CLASS", ""), 6)
    subsystem = _id_pair(uevent.get("PCI_SUBSYS_ID", ""))
    ids = _Ids(
        vendor,
        device,
        attributes.hex("subsystem_vendor", 4) or subsystem[0],
        attributes.hex("subsystem_device", 4) or subsystem[1],
        class_code,
    )
    return ids, uevent


@lru_cache(maxsize=1024)
def _last_function_on(path: str) -> PciAddress | None:
    """The last PCI function on a device path; the VFs of a card share theirs."""
    found = functions_on(path)
    return found[-1] if found else None


def read_override(host: Host, address: PciAddress) -> str:
    """The only driver that may have a function; empty when any may, or when none can be named."""
    try:
        override = clean(host.read(f"{DEVICES}/{address}/driver_override"))
    except OSError:
        return ""
    return "" if override == _NO_OVERRIDE else override


def read_autoprobe(host: Host, address: PciAddress) -> bool | None:
    """Whether new VFs of a PF find drivers by themselves; None for what is no PF."""
    try:
        return clean(host.read(f"{DEVICES}/{address}/sriov_drivers_autoprobe")) != "0"
    except OSError:
        return None


def _id_pair(text: str) -> tuple[str, str]:
    """Both ids of a `10DE:25B6`, or two empty texts."""
    first, _, second = text.partition(":")
    pair = hex_id(first, 4), hex_id(second, 4)
    return pair if all(pair) else ("", "")


def _group(attributes: Attributes) -> int | None:
    name = attributes.link("iommu_group")
    group = decimal_id(name)
    if name and group is None:
        attributes.fail(f"iommu_group: not a number: {shorten(name)}")
    return group


def _link(attributes: Attributes) -> Link:
    if "max_link_speed" not in attributes.names:
        return Link()
    return Link(
        speed=attributes.text("current_link_speed"),
        width=attributes.count("current_link_width") or 0,
        max_speed=attributes.text("max_link_speed"),
        max_width=attributes.count("max_link_width") or 0,
    )


def _bars(attributes: Attributes) -> tuple[Bar, ...]:
    lines = attributes.text("resource").split("\n", _BARS)[:_BARS]
    bars, odd = _parsed_bars("\n".join(lines))
    for what in odd:
        attributes.fail(what)
    return bars


@lru_cache(maxsize=2048)
def _parsed_bars(text: str) -> tuple[tuple[Bar, ...], tuple[str, ...]]:
    """The registers, and what is odd. Remembered, because each scan of a server reads the same."""
    bars, odd = [], []
    for index, line in enumerate(text.split("\n")):
        if line in ("", _ABSENT):
            continue
        try:
            start, end, flags = (int(part, 16) for part in line.split())
        except ValueError:
            start, end, flags = 1, 0, 0
        size = end - start + 1
        if not 0 < size < 1 << 63:
            odd.append(f"resource: line {index} cannot be parsed: {shorten(line)}")
        elif end:
            bars.append(
                Bar(
                    index=index,
                    size=size,
                    io=bool(flags & _FLAG_IO),
                    prefetchable=bool(flags & _FLAG_PREFETCH),
                    wide=bool(flags & _FLAG_64),
                )
            )
    return tuple(bars), tuple(odd)


def _vfs(attributes: Attributes) -> tuple[PciAddress, ...]:
    """VFs by number: as text, `virtfn10` would come before `virtfn2`."""
    numbered = [(int(m[1]), name) for name in attributes.names if (m := _VIRTFN.fullmatch(name))]
    addresses = (attributes.function(name) for _, name in sorted(numbered))
    return tuple(address for address in addresses if address is not None)


def _offers_vgpu(attributes: Attributes, class_code: str) -> bool:
    if class_code[:4] not in ("0300", "0302"):
        return False
    return attributes.text("sriov_vf_device") not in ("", "0")
