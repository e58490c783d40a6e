"""The built-in models: servers with cards, as they stand in a rack before Laneway comes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from laneway.sim import parts
from laneway.sim.build import Machine
from laneway.sim.chassis import ROOT, Usb, chassis, disk, framebuffer, nic, sound_card, usb_device

_MDEV_DRIVER = "535.216.01"
_VENDOR_DRIVER = "550.127.06"
_BLACKWELL_DRIVER = "580.105.06"


def _a2(driver: str = _MDEV_DRIVER) -> Machine:
    """One A2 with its 16 VFs; the driver decides on the framework."""
    machine = chassis("HPE", "ProLiant DL360 Gen10", driver)
    port = machine.pci(ROOT, "0000:00:03.0", parts.ROOT_PORT)
    machine.pci(port, "0000:08:00.0", parts.A2.part, sriov=parts.A2.sriov)
    return machine


def _l40s() -> Machine:
    """Two L40S, one per socket, vGPUs on the VFs themselves."""
    machine = chassis("Supermicro", "SYS-221GE-TNHT", _VENDOR_DRIVER)
    _slots(machine, parts.L40S, ("16", "97"))
    return machine


def _a100() -> Machine:
    """Four A100 PCIe 40 GB, vGPUs as mediated devices."""
    machine = chassis("Dell Inc.", "PowerEdge R750xa", _MDEV_DRIVER)
    _slots(machine, parts.A100, ("16", "30", "b0", "c9"))
    return machine


def _hgx_h100() -> Machine:
    """Eight H100 SXM, each with a network card below the same PCIe switch, and four NVSwitches."""
    machine = chassis("Dell Inc.", "PowerEdge XE9680", _VENDOR_DRIVER)
    for number, bus in enumerate(("18", "40", "4f", "5e", "98", "bf", "cd", "db")):
        numa = number // 4
        first = int(bus, 16)
        root = f"/devices/pci0000:{bus}"
        port = machine.pci(root, f"0000:{bus}:01.0", parts.ROOT_PORT, numa=numa)
        up = machine.pci(port, f"0000:{first + 1:02x}:00.0", parts.SWITCH_PORT, numa=numa)
        to_nic, to_gpu = (
            machine.pci(up, f"0000:{first + 2:02x}:{slot:02x}.0", parts.SWITCH_PORT, numa=numa)
            for slot in (0, 1)
        )
        address = f"0000:{first + 3:02x}:00.0"
        interface = (f"ibp{first + 3}s0", number + 4)
        nic(machine, to_nic, address, parts.CONNECTX7, interface=interface, numa=numa)
        address = f"0000:{first + 4:02x}:00.0"
        machine.pci(to_gpu, address, parts.H100.part, numa=numa, sriov=parts.H100.sriov)
    port = machine.pci(ROOT, "0000:00:04.0", parts.ROOT_PORT)
    up = machine.pci(port, "0000:05:00.0", parts.SWITCH_PORT)
    for number in range(4):
        down = machine.pci(up, f"0000:06:{number:02x}.0", parts.SWITCH_PORT)
        machine.pci(down, f"0000:{number + 7:02x}:00.0", parts.NVSWITCH)
    return machine


def _rtx_pro_6000() -> Machine:
    """Two RTX PRO 6000 Blackwell, one per socket, whose GPU instances are time-sliced as well."""
    machine = chassis("Supermicro", "SYS-522GA-NRT", _BLACKWELL_DRIVER)
    _slots(machine, parts.RTX_PRO_6000, ("16", "97"))
    return machine


def _plain() -> Machine:
    """No GPU: two dual-port network cards with SR-IOV, a data disk, a keyboard."""
    machine = chassis("Lenovo", "ThinkSystem SR650 V2")
    for root, numa, kind, name, index in (
        ("16", 0, parts.E810, "ens1f", 4),
        ("97", 1, parts.X710, "ens4f", 6),
    ):
        bus = f"{int(root, 16) + 1:02x}"
        path = f"/devices/pci0000:{root}"
        port = machine.pci(path, f"0000:{root}:02.0", parts.ROOT_PORT, numa=numa)
        for function in (0, 1):
            address = f"0000:{bus}:00.{function}"
            interface = (f"{name}{function}", index + function)
            nic(machine, port, address, kind, interface=interface, numa=numa)
    port = machine.pci(ROOT, "0000:00:03.0", parts.ROOT_PORT)
    disk(machine, machine.pci(port, "0000:08:00.0", parts.NVME), 1)
    keyboard = Usb(ids=("046d", "c31c"), names=("Logitech", "USB Keyboard"), speed="1.5")
    usb_device(machine, f"{ROOT}/0000:00:14.0/usb1", "1-4", 5, keyboard)
    return machine


def _mi210() -> Machine:
    """Two GPUs of AMD, one per socket, on AMD's driver."""
    machine = chassis("Supermicro", "AS-4124GS-TNR")
    _slots(machine, parts.MI210, ("16", "97"))
    return machine


def _flex_170() -> Machine:
    """Two GPUs of Intel, one per socket, on Intel's driver."""
    machine = chassis("Dell Inc.", "PowerEdge R760")
    _slots(machine, parts.FLEX_170, ("16", "97"))
    return machine


def _workstation() -> Machine:
    """No service processor: the consoles are drawn on a GPU with an audio function.

    Also an NVMe disk with VFs, as QEMU has them.
    """
    machine = chassis("Dell Inc.", "Precision 7960 Tower", _MDEV_DRIVER, service_processor=False)
    port = machine.pci(ROOT, "0000:00:03.0", parts.ROOT_PORT)
    group = machine.new_group()
    machine.pci(port, "0000:08:00.0", parts.GTX1080, group=group)
    audio = machine.pci(port, "0000:08:00.1", parts.GTX1080_AUDIO, group=group)
    sound_card(machine, audio)
    framebuffer(machine)
    port = machine.pci(ROOT, "0000:00:05.0", parts.ROOT_PORT)
    nvme = machine.pci(port, "0000:0a:00.0", parts.QEMU_NVME, sriov=parts.QEMU_NVME_SRIOV)
    disk(machine, nvme, 1)
    return machine


def _slots(machine: Machine, gpu: parts.Gpu, roots: tuple[str, ...]) -> None:
    """One GPU below each of these root buses; the first half belong to socket 0."""
    for number, root in enumerate(roots):
        numa = int(number >= len(roots) / 2)
        path = f"/devices/pci0000:{root}"
        port = machine.pci(path, f"0000:{root}:02.0", parts.ROOT_PORT, numa=numa)
        address = f"0000:{int(root, 16) + 1:02x}:00.0"
        machine.pci(port, address, gpu.part, numa=numa, sriov=gpu.sriov)


MODELS: Mapping[str, Callable[[], Machine]] = {
    "a2": _a2,
    "a2-vfio": lambda: _a2(_VENDOR_DRIVER),
    "l40s": _l40s,
    "a100": _a100,
    "hgx-h100": _hgx_h100,
    "plain": _plain,
    "rtx-pro-6000": _rtx_pro_6000,
    "workstation": _workstation,
    "mi210": _mi210,
    "flex-170": _flex_170,
}

ABOUT: Mapping[str, str] = {
    "a2": "One NVIDIA A2, 16 virtual functions, mediated devices.",
    "a2-vfio": "The same server with a newer driver: vendor-specific VFIO.",
    "l40s": "Two NVIDIA L40S on two NUMA nodes, vendor-specific VFIO.",
    "a100": "Four NVIDIA A100, MIG, mediated devices.",
    "hgx-h100": "Eight NVIDIA H100 with NVSwitch, MIG, vendor-specific VFIO.",
    "plain": "No GPU. Two network cards with SR-IOV, a data disk.",
    "rtx-pro-6000": "Two NVIDIA RTX PRO 6000 Blackwell on two NUMA nodes, 48 virtual functions "
    "each, MIG with several vGPUs in a GPU instance, vendor-specific VFIO.",
    "workstation": "A GPU that shows the console and shares its IOMMU group with its audio "
    "function, and an NVMe controller with SR-IOV.",
    "mi210": "Two AMD Instinct MI210 on two NUMA nodes, for passthrough and containers.",
    "flex-170": "Two Intel Data Center GPU Flex 170 on two NUMA nodes, SR-IOV of the kernel.",
}
"""Each model in a sentence or two."""
