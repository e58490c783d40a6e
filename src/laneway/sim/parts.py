"""The PCI functions that the built-in models are made of, with the ids of the real hardware."""

from __future__ import annotations

from typing import Any

import msgspec

from laneway.sim.build import IO, MEMORY, MEMORY_64, Part, Region, Sriov

_INTEL = "8086"
_NVIDIA = "10de"
_AMD = "1002"
_GEN3, _GEN4, _GEN5 = "8.0 GT/s PCIe", "16.0 GT/s PCIe", "32.0 GT/s PCIe"


def _vf(part: Part, **differs: Any) -> Part:
    """A virtual function of a part: it has no link of its own, and is reset by itself."""
    return msgspec.structs.replace(part, speed="", width=0, reset="flr", **differs)


HOST_BRIDGE = Part(
    vendor=_INTEL, device="2020", class_code="060000", subsystem=("15d9", "095d"), reset=""
)
ROOT_PORT = Part(
    vendor=_INTEL,
    device="347a",
    class_code="060400",
    subsystem=("15d9", "1a1c"),
    driver="pcieport",
    speed=_GEN4,
    width=16,
    reset="pm",
    regions=(Region(0, "128K", MEMORY_64),),
)
SWITCH_PORT = Part(
    vendor="1000",
    device="c030",
    class_code="060400",
    subsystem=("1000", "100b"),
    driver="pcieport",
    speed=_GEN5,
    width=16,
    reset="bus",
)
CHIPSET_PORT = Part(
    vendor=_INTEL, device="a190", class_code="060400", driver="pcieport", speed=_GEN3, width=1
)
XHCI = Part(
    vendor=_INTEL,
    device="a1af",
    class_code="0c0330",
    subsystem=("15d9", "095d"),
    driver="xhci_hcd",
    reset="pm",
    regions=(Region(0, "64K", MEMORY_64),),
)
THERMAL = Part(vendor=_INTEL, device="a1b1", class_code="118000", subsystem=("15d9", "095d"))
ISA_BRIDGE = Part(vendor=_INTEL, device="a1c3", class_code="060100", subsystem=("15d9", "095d"))
SMBUS = Part(
    vendor=_INTEL,
    device="a1a3",
    class_code="0c0500",
    subsystem=("15d9", "095d"),
    driver="i801_smbus",
    regions=(Region(4, "32K", IO),),
)
BMC_BRIDGE = Part(vendor="1a03", device="1150", class_code="060400", driver="")
BMC_VGA = Part(
    vendor="1a03",
    device="2000",
    class_code="030000",
    subsystem=("15d9", "095d"),
    driver="ast",
    regions=(Region(0, "16M", MEMORY), Region(1, "128K", MEMORY)),
    attributes={"boot_vga": "1"},
)
NVME = Part(
    vendor="144d",
    device="a80a",
    class_code="010802",
    subsystem=("144d", "a801"),
    driver="nvme",
    speed=_GEN4,
    width=4,
    reset="flr bus",
    regions=(Region(0, "16K", MEMORY_64),),
)
QEMU_NVME = Part(
    vendor="1b36",
    device="0010",
    class_code="010802",
    subsystem=("1af4", "1100"),
    driver="nvme",
    speed=_GEN3,
    width=4,
    reset="flr bus",
    regions=(Region(0, "16K", MEMORY_64),),
)
QEMU_NVME_SRIOV = Sriov(total=4, enabled=0, vf=_vf(QEMU_NVME), offset=1)
GTX1080 = Part(
    vendor=_NVIDIA,
    device="1b80",
    class_code="030000",
    subsystem=("1458", "3702"),
    driver="nvidia",
    speed=_GEN3,
    width=16,
    reset="bus",
    regions=(Region(0, "16M", MEMORY), Region(1, "256M"), Region(3, "32M"), Region(5, "128K", IO)),
    attributes={"boot_vga": "1"},
)
GTX1080_AUDIO = Part(
    vendor=_NVIDIA,
    device="10f0",
    class_code="040300",
    subsystem=("1458", "3702"),
    driver="snd_hda_intel",
    speed=_GEN3,
    width=16,
    reset="bus",
    regions=(Region(0, "16K", MEMORY),),
)
NVSWITCH = Part(
    vendor=_NVIDIA,
    device="22a3",
    class_code="068000",
    subsystem=(_NVIDIA, "1796"),
    driver="nvidia-nvswitch",
    speed=_GEN4,
    width=2,
    reset="flr bus",
    regions=(Region(0, "32M", MEMORY_64),),
)

_VF_REGIONS = (Region(0, "16K"), Region(3, "16K"))


class Nic(msgspec.Struct, frozen=True):
    """One port of a network card."""

    part: Part
    sriov: Sriov
    mbit: int


def _nic(part: Part, *, mbit: int, total: int, offset: int, vf_device: str, vf_driver: str) -> Nic:
    vf = _vf(part, device=vf_device, driver=vf_driver, regions=_VF_REGIONS)
    return Nic(part, Sriov(total=total, enabled=0, vf=vf, offset=offset), mbit)


I350 = _nic(
    Part(
        vendor=_INTEL,
        device="1521",
        class_code="020000",
        subsystem=("15d9", "1521"),
        driver="igb",
        speed="5.0 GT/s PCIe",
        width=4,
        reset="flr bus",
        regions=(Region(0, "1M", MEMORY), Region(3, "16K", MEMORY)),
    ),
    mbit=1_000,
    total=7,
    offset=128,
    vf_device="1520",
    vf_driver="igbvf",
)
E810 = _nic(
    Part(
        vendor=_INTEL,
        device="159b",
        class_code="020000",
        subsystem=(_INTEL, "0003"),
        driver="ice",
        speed=_GEN4,
        width=8,
        reset="flr bus",
        regions=(Region(0, "32M"), Region(3, "64K")),
    ),
    mbit=25_000,
    total=128,
    offset=8,
    vf_device="1889",
    vf_driver="iavf",
)
X710 = _nic(
    Part(
        vendor=_INTEL,
        device="1572",
        class_code="020000",
        subsystem=(_INTEL, "0007"),
        driver="i40e",
        speed=_GEN3,
        width=8,
        reset="flr bus",
        regions=(Region(0, "8M"), Region(3, "32K")),
    ),
    mbit=10_000,
    total=64,
    offset=16,
    vf_device="154c",
    vf_driver="iavf",
)
CONNECTX7 = _nic(
    Part(
        vendor="15b3",
        device="1021",
        class_code="020700",
        subsystem=("15b3", "0041"),
        driver="mlx5_core",
        speed=_GEN5,
        width=16,
        reset="bus",
        regions=(Region(0, "32M"),),
    ),
    mbit=400_000,
    total=16,
    offset=1,
    vf_device="101e",
    vf_driver="mlx5_core",
)


class Gpu(msgspec.Struct, frozen=True):
    """A GPU board with its VFs for vGPUs."""

    part: Part
    sriov: Sriov


def _gpu(
    ids: tuple[str, str],
    link: tuple[str, int],
    memory: tuple[str, str],
    *,
    vfs: int,
    vf_files: dict[str, str] | None = None,
) -> Gpu:
    """A board: device and subsystem id, link speed and width, memory BAR of the PF and of a VF."""
    device, subsystem = ids
    part = Part(
        vendor=_NVIDIA,
        device=device,
        class_code="030200",
        subsystem=(_NVIDIA, subsystem),
        driver="nvidia",
        speed=link[0],
        width=link[1],
        reset="flr bus",
        regions=(Region(0, "16M", MEMORY), Region(1, memory[0]), Region(3, "32M")),
    )
    vf = _vf(
        part,
        subsystem=(_NVIDIA, "0000"),
        regions=(Region(0, "256K", MEMORY), Region(1, memory[1]), Region(3, "32M")),
        attributes=vf_files or {},
    )
    return Gpu(part, Sriov(total=vfs, enabled=vfs, vf=vf, offset=4))


def _vendor_files(*types: tuple[int, str]) -> dict[str, str]:
    rows = "".join(f"\n{number:<6}: {name}" for number, name in types)
    return {
        "nvidia/current_vgpu_type": "0",
        "nvidia/creatable_vgpu_types": f"ID    : vGPU Name{rows}",
    }


_H100_TYPES = (
    (1137, "NVIDIA H100XM-4C"),
    (1138, "NVIDIA H100XM-5C"),
    (1139, "NVIDIA H100XM-8C"),
    (1140, "NVIDIA H100XM-10C"),
    (1141, "NVIDIA H100XM-16C"),
    (1142, "NVIDIA H100XM-20C"),
    (1143, "NVIDIA H100XM-40C"),
    (1144, "NVIDIA H100XM-80C"),
)
"""No public table has these ids; the numbering of the MIG-backed types before them goes on."""

_RTX_PRO_6000_SERIES = {
    2: "B",
    3: "QA",
    4: "QA",
    6: "QA",
    8: "QAC",
    12: "QAC",
    16: "QAC",
    24: "QAC",
    32: "QAC",
    48: "QAC",
    96: "QAC",
}
_RTX_PRO_6000_TYPES = tuple(
    (number, f"NVIDIA RTX Pro 6000 Blackwell DC-{name}")
    for number, name in enumerate(
        (f"{size}{letter}" for size, series in _RTX_PRO_6000_SERIES.items() for letter in series),
        start=1518,
    )
)
"""In the order that agrees with every id that is known: 2B, 3Q, 4Q, 48Q and the first MIG-backed
one, which follows the last of these."""

A2 = _gpu(("25b6", "157e"), (_GEN4, 8), ("16G", "1G"), vfs=16)
L40S = _gpu(("26b9", "1851"), (_GEN4, 16), ("64G", "2G"), vfs=32, vf_files=_vendor_files())
A100 = _gpu(("20f1", "145f"), (_GEN4, 16), ("64G", "4G"), vfs=16)
H100 = _gpu(
    ("2330", "16c1"), (_GEN5, 16), ("128G", "4G"), vfs=20, vf_files=_vendor_files(*_H100_TYPES)
)
RTX_PRO_6000 = _gpu(
    ("2bb5", "204e"),
    (_GEN5, 16),
    ("128G", "2G"),
    vfs=48,
    vf_files=_vendor_files(*_RTX_PRO_6000_TYPES),
)


def _other_gpu(part: Part, *, vfs: int, vf_device: str) -> Gpu:
    """A board of another vendor, whose virtual functions the kernel's interface makes."""
    vf = _vf(part, device=vf_device, regions=(Region(0, "1G"),))
    return Gpu(part, Sriov(total=vfs, enabled=0, vf=vf, offset=1))


MI210 = _other_gpu(
    Part(
        vendor=_AMD,
        device="740f",
        class_code="038000",
        subsystem=(_AMD, "0c34"),
        driver="amdgpu",
        speed=_GEN4,
        width=16,
        reset="bus",
        regions=(Region(0, "64G"), Region(2, "2M"), Region(5, "512K", MEMORY)),
    ),
    vfs=16,
    vf_device="7410",
)
FLEX_170 = _other_gpu(
    Part(
        vendor=_INTEL,
        device="56c0",
        class_code="038000",
        subsystem=(_INTEL, "4905"),
        driver="i915",
        speed=_GEN4,
        width=16,
        reset="flr bus",
        regions=(Region(0, "16M"), Region(2, "16G")),
    ),
    vfs=31,
    vf_device="56c0",
)
