"""Putting a server together, device by device, in the words of a dump.

A built-in model and a dump of a real machine are the same thing from here on: blocks. Only what
umockdev has no form for, files of /proc and of modules, is kept next to them.
"""

from __future__ import annotations

import posixpath

import msgspec

from laneway.core.pci import PciAddress
from laneway.sim.dump import Block
from laneway.sim.modules import Availability

MEMORY = 0x40200
MEMORY_64 = 0x140204
PREFETCHABLE_64 = 0x14220C
IO = 0x40101
"""Flags of a BAR, as the kernel prints them in `resource`."""

_UNITS = {"K": 10, "M": 20, "G": 30}


class Region(msgspec.Struct, frozen=True):
    """One BAR: its index, its size (`16M`) and its flags."""

    index: int
    size: str
    flags: int = PREFETCHABLE_64


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """What a PCI function is, wherever it sits. Ids are hex without prefix."""

    vendor: str
    device: str
    class_code: str
    subsystem: tuple[str, str] = ("0000", "0000")
    driver: str = ""
    regions: tuple[Region, ...] = ()
    speed: str = ""
    width: int = 0
    reset: str = ""
    attributes: dict[str, str] = {}


class Sriov(msgspec.Struct, frozen=True, kw_only=True):
    """The SR-IOV capability of a function; its VFs are made with it."""

    total: int
    enabled: int
    vf: Part
    offset: int
    stride: int = 1


class Machine:
    """The devices and files of one server, as they are added."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.files: dict[str, bytes] = {}
        self.vfio: Availability = "ready"
        self._groups = 0
        self._addresses = 0x380000000000

    def add(
        self,
        path: str,
        subsystem: str,
        *,
        properties: dict[str, str] | None = None,
        attributes: dict[str, str] | None = None,
        links: dict[str, str] | None = None,
        node: str = "",
        number: tuple[int, int] | None = None,
    ) -> str:
        """Add a device; attributes are lines of text. Returns its path."""
        values = {name: f"{value}\n".encode() for name, value in (attributes or {}).items()}
        facts = {"SUBSYSTEM": subsystem, **(properties or {})}
        if number is not None:
            facts |= {"MAJOR": str(number[0]), "MINOR": str(number[1])}
            values["dev"] = f"{number[0]}:{number[1]}\n".encode()
        if node:
            facts["DEVNAME"] = f"/dev/{node}"
        self.blocks.append(
            Block(path=path, properties=facts, attributes=values, links=links or {}, node=node)
        )
        return path

    def new_group(self) -> int:
        self._groups += 1
        return self._groups - 1

    def pci(
        self,
        parent: str,
        address: str,
        part: Part,
        *,
        numa: int = 0,
        group: int | None = None,
        sriov: Sriov | None = None,
    ) -> str:
        """Add a PCI function with its VFs, in an IOMMU group of its own unless one is given."""
        attributes = dict(part.attributes)
        links: dict[str, str] = {}
        functions: list[PciAddress] = []
        if sriov is not None:
            functions = vf_addresses(
                PciAddress.parse(address), sriov.enabled, sriov.offset, sriov.stride
            )
            attributes |= {
                "sriov_drivers_autoprobe": "1",
                "sriov_numvfs": str(sriov.enabled),
                "sriov_offset": str(sriov.offset),
                "sriov_stride": str(sriov.stride),
                "sriov_totalvfs": str(sriov.total),
                "sriov_vf_device": sriov.vf.device,
                "sriov_vf_total_msix": "0",
            }
            links = {f"virtfn{n}": f"../{vf}" for n, vf in enumerate(functions)}
        path = self._function(
            f"{parent}/{address}",
            part,
            numa=numa,
            group=self.new_group() if group is None else group,
            attributes=attributes,
            links=links,
        )
        for function in functions:
            assert sriov is not None  # noqa: S101 - there are no VFs without it
            self._function(
                f"{parent}/{function}",
                sriov.vf,
                numa=numa,
                group=self.new_group(),
                attributes=sriov.vf.attributes,
                links={"physfn": f"../{address}"},
            )
        return path

    def _function(
        self,
        path: str,
        part: Part,
        *,
        numa: int,
        group: int,
        attributes: dict[str, str],
        links: dict[str, str],
    ) -> str:
        facts = {"resource": self._resource(part), **attributes}
        self.blocks.append(
            function_block(path, part, numa=numa, group=group, attributes=facts, links=links)
        )
        return path

    def _resource(self, part: Part) -> str:
        rows = 17 if part.class_code.startswith("0604") else 13
        lines = ["0x0000000000000000 0x0000000000000000 0x0000000000000000"] * rows
        for region in part.regions:
            size = int(region.size[:-1]) << _UNITS[region.size[-1]]
            start = -(-self._addresses // size) * size
            self._addresses = start + size
            lines[region.index] = f"0x{start:016x} 0x{start + size - 1:016x} 0x{region.flags:016x}"
        return "\n".join(lines)


def function_block(
    path: str,
    part: Part,
    *,
    numa: int,
    group: int,
    attributes: dict[str, str],
    links: dict[str, str],
) -> Block:
    """A PCI function, in an IOMMU group."""
    modalias = (
        f"pci:v{part.vendor.upper():0>8}d{part.device.upper():0>8}"
        f"sv{part.subsystem[0].upper():0>8}sd{part.subsystem[1].upper():0>8}"
        f"bc{part.class_code[:2].upper()}sc{part.class_code[2:4].upper()}"
        f"i{part.class_code[4:].upper()}"
    )
    properties = {
        "SUBSYSTEM": "pci",
        "PCI_CLASS": f"{int(part.class_code, 16):X}",
        "PCI_ID": f"{part.vendor}:{part.device}".upper(),
        "PCI_SUBSYS_ID": ":".join(part.subsystem).upper(),
        "PCI_SLOT_NAME": posixpath.basename(path),
        "MODALIAS": modalias,
    }
    if part.driver:
        properties = {"DRIVER": part.driver, **properties}
    facts = {
        "vendor": f"0x{part.vendor}",
        "device": f"0x{part.device}",
        "subsystem_vendor": f"0x{part.subsystem[0]}",
        "subsystem_device": f"0x{part.subsystem[1]}",
        "class": f"0x{part.class_code}",
        "revision": "0x01",
        "numa_node": str(numa),
        "enable": "1" if part.driver else "0",
        "driver_override": "(null)",
        "modalias": modalias,
        "power_state": "D0",
    }
    if part.width:
        facts |= {
            "current_link_speed": part.speed,
            "current_link_width": str(part.width),
            "max_link_speed": part.speed,
            "max_link_width": str(part.width),
        }
    if part.reset:
        facts["reset_method"] = part.reset
    return Block(
        path=path,
        properties=properties,
        attributes={name: f"{value}\n".encode() for name, value in (facts | attributes).items()},
        links={
            **links,
            "iommu_group": f"{posixpath.relpath('/', path)}/kernel/iommu_groups/{group}",
        },
    )


def vf_addresses(pf: PciAddress, count: int, offset: int, stride: int) -> list[PciAddress]:
    """Where VFs appear: `offset` after their PF, `stride` apart."""
    first = pf.bus << 8 | pf.device << 3 | pf.function
    numbers = (first + offset + n * stride for n in range(count))
    return [PciAddress(pf.domain, n >> 8, n >> 3 & 31, n & 7) for n in numbers]
