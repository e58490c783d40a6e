"""A device in another PCI domain than 0000, as behind Intel's VMD or a second root complex."""

from __future__ import annotations

from typing import Any

from laneway.api import PCIDevice, SRIOVGPUDevice, VGPUDevice
from laneway.core.pci import PciAddress, pci_address
from laneway.sim.seats import Seat
from laneway.sim.spec import Spec, build

ADDRESS = "10000:01:00.0"
GPU, VGPU = "node1-1000001000", "node1-1000001004"


async def test_a_gpu_in_another_domain_is_shared_and_given_whole(
    cluster: Any, claims: Any, driver: Any
) -> None:
    seats = {PciAddress.parse(ADDRESS): Seat(PciAddress.parse("0000:08:00.0"))}
    host = build(Spec("a2"), "node1", seats=seats)
    await cluster.start_agent("node1", host)
    # As people and as nvidia-smi write it.
    assert {str(pci_address(one)) for one in (ADDRESS, "00010000:01:00.0")} == {ADDRESS}
    assert (await cluster.get(PCIDevice, GPU)).status.address == ADDRESS

    await cluster.patch(SRIOVGPUDevice, GPU, {"spec": {"enabled": True}})
    gpu = await cluster.answer(GPU, "Enabled", SRIOVGPUDevice)
    assert gpu.status.vf_addresses[0] == "10000:01:00.4"
    await cluster.until(VGPUDevice, VGPU, bool)
    await cluster.ask(VGPU, "NVIDIA A2-4Q")
    await cluster.answer(VGPU, "Configured")
    assert cluster.carried(host) == {"10000:01:00.4": "NVIDIA A2-4Q"}
    await cluster.disable(VGPU)
    await cluster.answer(VGPU, "NotConfigured")
    await cluster.patch(SRIOVGPUDevice, GPU, {"spec": {"enabled": False}})
    await cluster.answer(GPU, "Disabled", SRIOVGPUDevice)

    await claims.make(ADDRESS)
    await claims.bound(ADDRESS)
    assert driver(host, ADDRESS) == "vfio-pci"
