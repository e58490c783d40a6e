"""A claim takes its device's whole IOMMU group, says how far that is, and releases it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from laneway.api import ObjectMeta, PCIDevice, PCIDeviceClaim
from laneway.core import keys
from laneway.kube.resource import Resource


class Definition(msgspec.Struct):
    """A CustomResourceDefinition."""

    metadata: ObjectMeta
    spec: dict[str, Any]


DEFINITIONS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", False, Definition)
DEFINITION = "pcideviceclaims.devices.harvesterhci.io"
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


@pytest.mark.realapi
async def test_an_agent_is_sent_no_claims_of_other_nodes_where_the_server_can_choose(
    cluster: Any, claims: Any, simulated: Any
) -> None:
    definition = await cluster.client.get(DEFINITIONS, DEFINITION)
    chooses = any("selectableFields" in one for one in definition.spec["versions"])
    await claims.make(NIC, name="node2-000017001", nodeName="node2")
    agent = await cluster.start_agent("node1", simulated("plain", "node1"))
    await claims.make(NIC)
    await cluster.until(  # KubeVirt's list may lack it: the server is shared, and no manager runs
        PCIDeviceClaim,
        claims.name(NIC),
        lambda one: one is not None and claims.said(one, "Bound")[0] == "True",
    )
    sent = {one.metadata.name for one in agent.caches.claims.store}
    assert sent == {claims.name(NIC)} if chooses else {claims.name(NIC), "node2-000017001"} <= sent


async def test_claims_are_carried_out_where_the_definition_is_of_an_earlier_version(
    cluster: Any, claims: Any, simulated: Any, driver: Any
) -> None:
    definition = await cluster.client.get(DEFINITIONS, DEFINITION)
    versions = [
        {key: value for key, value in one.items() if key != "selectableFields"}
        for one in definition.spec["versions"]
    ]
    await cluster.client.patch(
        DEFINITIONS, definition.metadata.name, {"spec": {"versions": versions}}
    )
    host = simulated("plain", "node1")
    before = driver(host, NIC)
    other = await claims.make(NIC, name="node2-000017001", nodeName="node2")
    agent = await cluster.start_agent("node1", host)
    await claims.make(NIC)
    await claims.bound(NIC)
    assert agent.caches.claims.store.get(other.metadata.name) is not None
    await claims.delete(NIC)
    await claims.gone(NIC)
    assert driver(host, NIC) == before
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
