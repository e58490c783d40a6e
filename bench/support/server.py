"""A simulated server with as many PCI functions as requested, nearly all of them VFs of GPUs."""

from __future__ import annotations

from laneway.sim import parts
from laneway.sim.chassis import ROOT, chassis
from laneway.sim.host import SimulatedHost
from laneway.sim.modules import kernel_files

DISK = "/sys/bus/pci/devices/0000:f0:00.0"
"""A disk that nothing needs: it can go and come back."""


def large_server(functions: int) -> SimulatedHost:
    """A chassis, a spare disk, L40S with 32 VFs each while they fit, and disks for the rest."""
    machine = chassis("Bench", "Large", "550.127.06")
    spare = machine.pci(ROOT, "0000:00:10.0", parts.ROOT_PORT)
    machine.pci(spare, DISK.rpartition("/")[2], parts.NVME)
    count = sum(block.properties["SUBSYSTEM"] == "pci" for block in machine.blocks)
    bus = 0x10
    while count + 34 <= functions:
        port = machine.pci(f"/devices/pci0000:{bus:02x}", f"0000:{bus:02x}:01.0", parts.ROOT_PORT)
        address = f"0000:{bus + 1:02x}:00.0"
        machine.pci(port, address, parts.L40S.part, sriov=parts.L40S.sriov)
        count += 34
        bus += 2
    for number in range(functions - count):
        machine.pci("/devices/pci0000:f8", f"0000:f8:{number:02x}.0", parts.NVME)
    return SimulatedHost("bench", machine.blocks, machine.files)


def passthrough_server(gpus: int) -> SimulatedHost:
    """A chassis, and L40S without virtual functions, each in a group of its own."""
    machine = chassis("Bench", "Passthrough", "550.127.06")
    for number in range(gpus):
        bus = 0x10 + 2 * number
        port = machine.pci(f"/devices/pci0000:{bus:02x}", f"0000:{bus:02x}:01.0", parts.ROOT_PORT)
        machine.pci(port, f"0000:{bus + 1:02x}:00.0", parts.L40S.part)
    return SimulatedHost("bench", machine.blocks, machine.files | kernel_files("ready"))
