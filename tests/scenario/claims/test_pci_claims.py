"""A claim takes its device's whole IOMMU group, says how far that is, and releases it."""

from __future__ import annotations

from typing import Any

from laneway.api import PCIDevice, PCIDeviceClaim
from laneway.core import keys

GPU, AUDIO, NIC = "0000:08:00.0", "0000:08:00.1", "0000:17:00.1"


async def test_a_claim_takes_a_device_and_its_end_releases_it(
    cluster: Any, claims: Any, simulated: Any, driver: Any
) -> None:
    host = simulated("plain", "node1")
    before = driver(host, NIC)
    await cluster.start_agent("node1", host)
    await claims.make(NIC)
    claim = await claims.bound(NIC)
    assert driver(host, NIC) == "vfio-pci"
    assert claim.status.kernel_driver_to_unbind == before != "vfio-pci"
    device = await cluster.get(PCIDevice, claims.name(NIC))
    assert (claim.status.vendor_id, claim.status.device_id) == (
        device.status.vendor_id,
        device.status.device_id,
    )
    assert claim.status.iommu_group == device.status.iommu_group
    assert list(claim.metadata.finalizers) == [keys.FINALIZER_PCI_CLAIM]
    await claims.delete(NIC)
    await claims.gone(NIC)
    assert driver(host, NIC) == before


async def test_the_whole_group_goes_and_comes_back_with_the_last_claim(
    cluster: Any, claims: Any, simulated: Any, driver: Any
) -> None:
    host = simulated("workstation", "node1")
    before = {one: driver(host, one) for one in (GPU, AUDIO)}
    await cluster.start_agent("node1", host)
    await claims.make(GPU)
    await claims.bound(GPU)
    assert driver(host, AUDIO) == "vfio-pci"
    await claims.make(AUDIO)
    claim = await claims.bound(AUDIO)
    assert claim.status.kernel_driver_to_unbind == before[AUDIO]
    await claims.delete(GPU)
    await claims.gone(GPU)
    assert driver(host, GPU) == driver(host, AUDIO) == "vfio-pci"
    await claims.delete(AUDIO)
    await claims.gone(AUDIO)
    assert {one: driver(host, one) for one in (GPU, AUDIO)} == before


async def test_claims_of_other_nodes_are_not_touched(
    cluster: Any, claims: Any, simulated: Any
) -> None:
    await cluster.start_agent("node1", simulated("plain", "node1"))
    other = await claims.make(NIC, name="node2-000017001", nodeName="node2")
    await claims.make(NIC)
    await claims.bound(NIC)
    again = await cluster.get(PCIDeviceClaim, other.metadata.name)
    assert again.metadata.resource_version == other.metadata.resource_version


async def test_no_write_of_ours_gets_in_the_way_of_another(
    cluster: Any, claims: Any, simulated: Any, caplog: Any
) -> None:
    await cluster.start_agent("node1", simulated("plain", "node1"))
    await claims.make(NIC)
    await claims.bound(NIC)
    await claims.delete(NIC)
    await claims.gone(NIC)
    assert not [one for one in caplog.messages if "409" in one]
