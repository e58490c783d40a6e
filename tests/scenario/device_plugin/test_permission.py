"""KubeVirt's lists decide whether the kubelet gets a device; the object says what lacks."""

from __future__ import annotations

from typing import Any

from laneway.api import PCIDevice, PCIDeviceClaim, VGPUDevice, find_condition
from laneway.kube.resource import served

Q4 = "NVIDIA A2-4Q"
RESOURCE = "nvidia.com/NVIDIA_A2-4Q"
VGPU = "node1-000008004"
NIC = "node1-000003000"
MEDIATED = {"mdevNameSelector": Q4, "resourceName": RESOURCE, "externalResourceProvider": True}


async def disk(cluster: Any) -> Any:
    """The PCIDevice of a disk that can be claimed."""
    return next(
        one
        for one in await cluster.all(PCIDevice)
        if one.status.claimable and one.status.class_id.startswith("0108")
    )


async def make_claim(cluster: Any, name: str, address: str, node: str = "node1") -> None:
    await cluster.client.create(
        served(PCIDeviceClaim),
        {
            "apiVersion": "devices.harvesterhci.io/v1beta1",
            "kind": "PCIDeviceClaim",
            "metadata": {"name": name},
            "spec": {"address": address, "nodeName": node, "userName": "kim"},
        },
    )


async def test_a_vgpu_is_offered_as_long_as_kubevirt_permits_it(
    cluster: Any, node: Any, kubevirt: Any, simulated: Any
) -> None:
    await node.agent(simulated("a2", "node1"))
    await cluster.ask(VGPU, Q4)
    missing = await node.said(VGPU, "Permitted", "NotPermitted")
    words = find_condition(missing.status.conditions, "Permitted").message
    assert f"mediatedDevices does not have {RESOURCE} for {Q4}" in words
    assert "manager" in words
    assert find_condition(missing.status.conditions, "Advertised").reason == "NotPermitted"
    assert node.kubelet.allocatable.get(RESOURCE, 0) == 0

    await kubevirt.permit(mediatedDevices=[MEDIATED])
    await node.allocatable(RESOURCE, 1)
    await node.said(VGPU, "Permitted", "Permitted")
    await node.said(VGPU, "Advertised", "Advertised")

    await kubevirt.permit()
    await node.said(VGPU, "Permitted", "NotPermitted")
    await node.allocatable(RESOURCE, 0)


async def test_an_entry_by_which_kubevirt_offers_devices_itself_is_none(
    cluster: Any, node: Any, kubevirt: Any, simulated: Any
) -> None:
    await node.agent(simulated("a2", "node1"))
    await kubevirt.permit(mediatedDevices=[MEDIATED | {"externalResourceProvider": False}])
    await cluster.ask(VGPU, Q4)
    refused = await node.said(VGPU, "Permitted", "NotPermitted")
    assert (
        "externalResourceProvider" in find_condition(refused.status.conditions, "Permitted").message
    )


async def test_a_pod_keeps_what_is_not_permitted_any_more(
    cluster: Any, node: Any, kubevirt: Any, simulated: Any
) -> None:
    await node.agent(simulated("a2", "node1"))
    await kubevirt.permit(mediatedDevices=[MEDIATED])
    await cluster.ask(VGPU, Q4)
    await node.allocatable(RESOURCE, 1)
    await node.pod("launcher", **{RESOURCE: 1})
    await cluster.until(VGPUDevice, VGPU, lambda obj: obj.status.allocation)
    await kubevirt.permit()
    unpermitted = await node.said(VGPU, "Advertised", "NotPermitted")
    assert unpermitted.status.allocation.pod == "launcher"
    await cluster.disable(VGPU)
    await cluster.answer(VGPU, "DeviceAllocated")


async def test_a_claimed_function_is_permitted_by_its_ids_and_name(
    cluster: Any, node: Any, kubevirt: Any, simulated: Any
) -> None:
    await node.agent(simulated("plain", "node1"))
    device = await disk(cluster)
    resource = device.status.resource_name
    name, ids = device.metadata.name, f"{device.status.vendor_id}:{device.status.device_id}"
    await make_claim(cluster, name, device.status.address)
    await node.said(name, "Permitted", "NotPermitted", PCIDeviceClaim)
    await kubevirt.permit(
        pciHostDevices=[
            {"pciVendorSelector": ids.upper(), "resourceName": resource}
            | {"externalResourceProvider": True}
        ]
    )
    await node.allocatable(resource, 1)
    claim = await node.said(name, "Ready", "Available", PCIDeviceClaim)
    assert claim.status.passthrough_enabled
    _, granted = await node.pod("launcher", **{resource: 1})
    variable = f"PCI_RESOURCE_{resource.upper().replace('/', '_').replace('.', '_')}"
    assert granted["compute"].envs[variable] == device.status.address


async def test_what_devices_of_other_nodes_need_is_not_waited_for(
    cluster: Any, node: Any, kubevirt: Any, simulated: Any
) -> None:
    """KubeVirt's entry stays for them, so its end is no condition of this device's release."""
    agent = await node.agent(simulated("plain", "node1"))
    device = await disk(cluster)
    resource = device.status.resource_name
    name, ids = device.metadata.name, f"{device.status.vendor_id}:{device.status.device_id}"
    entry = {"pciVendorSelector": ids, "resourceName": resource, "externalResourceProvider": True}
    await kubevirt.permit(pciHostDevices=[entry])
    other = name.replace("node1", "node2")
    await make_claim(cluster, other, device.status.address, "node2")
    await cluster.patch(PCIDeviceClaim, other, {"status": {"resourceName": resource}}, "status")
    await make_claim(cluster, name, device.status.address)
    await node.allocatable(resource, 1)

    await cluster.client.delete(served(PCIDeviceClaim), name)
    await cluster.until(PCIDeviceClaim, name, lambda one: one is None)

    await agent.recorder.flush()
    events = await cluster.client.raw("/api/v1/events")
    assert b"StillPermitted" not in events
