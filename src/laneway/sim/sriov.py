"""Virtual functions of a simulated host: they come and go as `sriov_numvfs` is written.

They come one by one in the order of their numbers, each announced before its links are there, and
one change of the PF tells that all have come. They go one by one, too; one that a VM has open
holds up the rest, and meanwhile the PF's lock and the lock for rescans stay taken, so that even
reading `sriov_numvfs` waits.
"""

from __future__ import annotations

import errno
import posixpath
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import msgspec

from laneway.core.pci import PciAddress
from laneway.sim.build import Part, function_block, vf_addresses
from laneway.sim.devices import Devices
from laneway.sim.dump import Block
from laneway.sim.load import GROUPS, free_group, iommu_group
from laneway.sim.locks import Locks
from laneway.sim.tree import Attribute, Directory, os_error

RESCAN = "rescan"
"""The lock that is held to add or remove functions."""

_OF_DRIVERS = ("nvidia", "mdev_supported_types")
"""Directories in which a VF's driver keeps its files."""

_NUMVFS = "sriov_numvfs"
_VIRTFN = re.compile(r"virtfn(0|[1-9][0-9]{0,4})")
_MAX_DIGITS = 5


class VfDriver(Protocol):
    """The driver of a PF, as far as its VFs are concerned."""

    def configure_vfs(self, path: str, count: int) -> None:
        """Asked before VFs come (count) or go (0). Raises OSError to refuse."""


class PciFunctions(Protocol):
    """All PCI functions of a host, as far as VFs come and go among them."""

    devices: Devices
    locks: Locks
    former_vfs: dict[str, Block]

    def driver(self, name: str) -> VfDriver | None:
        """A loaded driver."""

    def driver_of(self, path: str) -> str:
        """The name of the driver that has a function; empty for none."""

    def mark(self, block: Block) -> None:
        """Place the files of a function that can only be written to."""

    def probe(self, path: str) -> None:
        """Give a function to the first driver that takes it."""

    def remove(self, path: str) -> None:
        """Take a device away with all below it."""


def vfs_of(core: PciFunctions, path: str) -> list[str]:
    """The VFs of a PF in the order of their numbers; paths are below /sys."""
    links = core.devices[path].links
    numbers = sorted(int(match[1]) for name in links if (match := _VIRTFN.fullmatch(name)))
    found = (posixpath.normpath(f"{path}/{links[f'virtfn{number}']}") for number in numbers)
    return [home for home in found if home in core.devices]


def change_vfs(core: PciFunctions, path: str, count: int, *, ask_driver: bool) -> None:
    """Go from none to `count` VFs or back, with the errno of `sriov_numvfs` where it refuses."""
    if count > _number(core.devices[path], "sriov_totalvfs"):
        raise os_error(errno.ERANGE)
    with _locked(core, path):
        before = _number(core.devices[path], _NUMVFS)
        if count == before:
            return
        if ask_driver:
            driver = core.driver(core.driver_of(path))
            if driver is None:
                raise os_error(errno.ENOENT)
            if not count or not before:
                driver.configure_vfs(path, count)
        if count and before:
            raise os_error(errno.EBUSY)
        if count:
            _enable(core, path, count)
        else:
            _disable(core, path)


def disable_vfs(core: PciFunctions, path: str) -> None:
    """Remove the VFs of a PF, if it has any, for a driver that leaves it."""
    if vfs_of(core, path):
        with _locked(core, path):
            _disable(core, path)


@contextmanager
def _locked(core: PciFunctions, path: str) -> Iterator[None]:
    """Hold a PF's lock; who reads how many VFs it has waits for it."""

    def show() -> bytes:
        core.locks.wait_for_device(path)
        return core.devices[path].attributes[_NUMVFS]

    file = f"/sys{path}/{_NUMVFS}"
    with core.locks.device(path):
        core.devices.tree.put(file, Attribute(show))
        try:
            yield
        finally:
            core.devices.tree.put(file, core.devices[path].attributes[_NUMVFS])


def _enable(core: PciFunctions, path: str, count: int) -> None:
    pf = core.devices[path]
    addresses = vf_addresses(
        PciAddress.parse(posixpath.basename(path)),
        count,
        _number(pf, "sriov_offset"),
        _number(pf, "sriov_stride"),
    )
    with core.locks.device(RESCAN):
        for number, address in enumerate(addresses):
            _add_vf(core, path, number, str(address))
    core.devices.set_attribute(path, _NUMVFS, str(count))
    core.devices.announce("change", path)


def _add_vf(core: PciFunctions, path: str, number: int, address: str) -> None:
    devices = core.devices
    pf = devices[path]
    home = f"{path.rpartition('/')[0]}/{address}"
    former = core.former_vfs.get(home)
    block = _bare(former) if former else _derived(pf, home, number)
    devices.load([_grouped(core, pf, block)])
    for name in _OF_DRIVERS:
        devices.tree.discard(f"/sys{home}/{name}")
    core.mark(block)
    devices.announce("add", home)
    devices.set_link(path, f"virtfn{number}", f"../{address}")
    devices.set_link(home, "physfn", f"../{posixpath.basename(path)}")
    devices.announce("change", home)
    core.probe(home)


def _disable(core: PciFunctions, path: str) -> None:
    with core.locks.device(RESCAN):
        for number, home in enumerate(vfs_of(core, path)):
            core.former_vfs[home] = core.devices[home]
            core.devices.set_link(path, f"virtfn{number}", "")
            core.devices.set_link(home, "physfn", "")
            core.remove(home)
    core.devices.set_attribute(path, _NUMVFS, "0")


def _bare(former: Block) -> Block:
    """A VF as it comes from its card: no driver, and nothing that a driver reported of it."""
    attributes = {
        "driver_override": b"(null)\n",
        "enable": b"0\n",
        "nvidia/current_vgpu_type": b"0\n",
    }
    return msgspec.structs.replace(
        former,
        properties={k: v for k, v in former.properties.items() if k != "DRIVER"},
        attributes={k: attributes.get(k, v) for k, v in former.attributes.items() if k != "uevent"},
        links={k: v for k, v in former.links.items() if k not in ("driver", "physfn")},
    )


def _derived(pf: Block, home: str, number: int) -> Block:
    """A VF that never was there before, from what its PF says of it."""

    def text(name: str) -> str:
        return pf.attributes.get(name, b"").decode("utf-8", "replace").strip()

    part = Part(
        vendor=text("vendor").removeprefix("0x"),
        device=text("sriov_vf_device"),
        class_code=text("class").removeprefix("0x"),
        subsystem=(
            text("subsystem_vendor").removeprefix("0x"),
            text("subsystem_device").removeprefix("0x"),
        ),
        reset="flr",
    )
    return function_block(
        home,
        part,
        numa=int(text("numa_node")) if text("numa_node").isdigit() else -1,
        group=0,
        attributes={"resource": _resource(pf, number)},
        links={},
    )


def _number(block: Block, name: str) -> int:
    """A number that a PF shows; what a dump got wrong is a card that does not work."""
    text = block.attributes.get(name, b"").strip()
    if not text.isdigit() or len(text) > _MAX_DIGITS:
        raise os_error(errno.EIO)
    return int(text)


def _resource(pf: Block, number: int) -> str:
    """Two small BARs from a window of the card's own."""
    first = PciAddress.parse(posixpath.basename(pf.path))
    window = (first.bus << 8 | first.device << 3 | first.function) << 24 | number << 16
    lines = ["0x0000000000000000 0x0000000000000000 0x0000000000000000"] * 13
    for index, offset in ((0, 0), (3, 0x4000)):
        start = (0x3A << 40) + window + offset
        lines[index] = f"0x{start:016x} 0x{start + 0x3FFF:016x} 0x{0x14220C:016x}"
    return "\n".join(lines)


def _grouped(core: PciFunctions, pf: Block, block: Block) -> Block:
    """The VF in an IOMMU group of its own, or in its PF's where that cannot keep them apart."""
    links = {k: v for k, v in block.links.items() if k != "iommu_group"}
    shared = iommu_group(pf)
    if shared is not None:
        members = core.devices.tree.get(f"{GROUPS}/{shared}/devices")
        apart = isinstance(members, Directory) and len(members) == 1
        group = free_group(core.devices.tree) if apart else shared
        up = posixpath.relpath("/", block.path)
        links["iommu_group"] = f"{up}{GROUPS.removeprefix('/sys')}/{group}"
    return msgspec.structs.replace(block, links=links)
