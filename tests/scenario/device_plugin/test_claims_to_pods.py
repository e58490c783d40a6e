"""Given a claimed device, a kubelet counts it while its hardware is ready, and at no other time."""

from __future__ import annotations

from typing import Any

import pytest

from laneway.api import PCIDevice, PCIDeviceClaim, find_condition
from laneway.core.pci import PciAddress
from laneway.host.scan import scan
from laneway.kube.resource import served

NIC, OTHER = "0000:17:00.1", "0000:17:00.0"
NAMES = {NIC: "node1-000017001", OTHER: "node1-000017000"}


def driver(host: Any, address: str) -> str:
    function = scan(host).function(PciAddress.parse(address))
    assert function is not None
    return function.driver


async def claim(cluster: Any, address: str) -> None:
    body = {
        "apiVersion": "devices.harvesterhci.io/v1beta1",
        "kind": "PCIDeviceClaim",
        "metadata": {"name": NAMES[address]},
        "spec": {"address": address, "nodeName": "node1", "userName": "kim"},
    }
    await cluster.client.create(served(PCIDeviceClaim), body)


async def release(cluster: Any, address: str) -> None:
    await cluster.client.delete(served(PCIDeviceClaim), NAMES[address])
    await cluster.until(PCIDeviceClaim, NAMES[address], lambda one: one is None)


async def resource(cluster: Any, address: str) -> str:
    return str((await cluster.get(PCIDevice, NAMES[address])).status.resource_name)


@pytest.fixture
async def host(node: Any, simulated: Any) -> Any:
    host = simulated("plain", "node1")
    await node.agent(host)
    return host


async def test_hardware_comes_before_the_kubelet_and_goes_after_it(
    cluster: Any, node: Any, host: Any
) -> None:
    name = await resource(cluster, NIC)
    seen = set()
    node.kubelet.subscribe(
        lambda: seen.add((node.kubelet.allocatable.get(name, 0), driver(host, NIC)))
    )
    # The second time as the first: what was released once can be had again.
    for _ in range(2):
        await claim(cluster, NIC)
        await node.allocatable(name, 1)
        await release(cluster, NIC)
        await node.allocatable(name, 0)
    assert seen == {(1, "vfio-pci"), (0, "vfio-pci")}
    assert driver(host, NIC) != "vfio-pci"


async def test_a_claim_is_enabled_once_the_kubelet_knows_the_device(
    cluster: Any, node: Any, host: Any
) -> None:
    node.kubelet.faults.register = "refuse"
    await claim(cluster, NIC)

    def refused(one: Any) -> bool:
        found = find_condition(one.status.conditions, "Advertised")
        return found is not None and "takes no requests now" in found.message

    reported = await cluster.until(PCIDeviceClaim, NAMES[NIC], refused)
    assert find_condition(reported.status.conditions, "Bound").status == "True"
    assert find_condition(reported.status.conditions, "Ready").status == "False"
    assert not reported.status.passthrough_enabled
    node.kubelet.faults.register = "answer"
    await cluster.until(PCIDeviceClaim, NAMES[NIC], lambda one: one.status.passthrough_enabled)


async def test_nothing_waits_for_a_device_with_another_holder(
    cluster: Any, node: Any, host: Any
) -> None:
    name = await resource(cluster, NIC)
    await claim(cluster, NIC)
    await node.allocatable(name, 1)
    uid, _ = await node.pod("launcher", vm="vm1", **{name: 1})
    await cluster.client.delete(served(PCIDeviceClaim), NAMES[NIC])
    await node.said(NAMES[NIC], "Ready", "DeviceAllocated", PCIDeviceClaim)
    await claim(cluster, OTHER)
    await node.allocatable(await resource(cluster, OTHER), 1)
    await release(cluster, OTHER)
    assert driver(host, NIC) == "vfio-pci"
    await node.end("launcher", uid)
    await cluster.until(PCIDeviceClaim, NAMES[NIC], lambda one: one is None)


@pytest.mark.slow
async def test_a_claim_that_waits_for_a_pod_says_that_it_goes(
    cluster: Any, node: Any, host: Any, kubevirt: Any
) -> None:
    function = scan(host).function(PciAddress.parse(NIC))
    assert function is not None
    name = await resource(cluster, NIC)
    entry = {
        "pciVendorSelector": f"{function.vendor}:{function.device}".upper(),
        "resourceName": name,
        "externalResourceProvider": True,
    }
    await kubevirt.permit(pciHostDevices=[entry])
    await claim(cluster, NIC)
    await node.allocatable(name, 1)
    uid, _ = await node.pod("launcher", vm="vm1", **{name: 1})
    await cluster.client.delete(served(PCIDeviceClaim), NAMES[NIC])
    await kubevirt.permit()
    reported = await node.said(NAMES[NIC], "Permitted", "Withdrawn", PCIDeviceClaim)
    assert find_condition(reported.status.conditions, "Advertised").reason == "Withdrawn"
    await node.end("launcher", uid)
    await cluster.until(PCIDeviceClaim, NAMES[NIC], lambda one: one is None)


async def test_a_device_without_its_object_is_released_by_its_claim(
    cluster: Any, node: Any, simulated: Any
) -> None:
    host = simulated("plain", "node1")
    before = driver(host, NIC)
    agent = await node.agent(host)
    name = await resource(cluster, NIC)
    await claim(cluster, NIC)
    await node.allocatable(name, 1)
    await cluster.stop_agent(agent)
    await cluster.client.delete(served(PCIDeviceClaim), NAMES[NIC])
    await cluster.client.delete(served(PCIDevice), NAMES[NIC])
    await node.agent(host)
    await cluster.until(PCIDeviceClaim, NAMES[NIC], lambda one: one is None)
    assert driver(host, NIC) == before
    await node.allocatable(name, 0)
