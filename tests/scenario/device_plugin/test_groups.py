"""A group of functions is with one pod, which gets all that it asks of it."""

from __future__ import annotations

from typing import Any

import pytest

from laneway.api import PCIDevice, PCIDeviceClaim, find_condition
from laneway.kube.resource import served
from laneway.sim.kubelet.pods import AdmissionError

GPU, AUDIO = "0000:08:00.0", "0000:08:00.1"
NAMES = {GPU: "node1-000008000", AUDIO: "node1-000008001"}
OVERRIDE = "pcidevice.harvesterhci.io/override-resource-name"


@pytest.fixture
async def host(node: Any, simulated: Any) -> Any:
    host = simulated("workstation", "node1")
    await node.agent(host)
    return host


async def claim(cluster: Any, address: str, **more: Any) -> None:
    metadata = {"name": NAMES[address], "annotations": more.pop("annotations", {})}
    spec = {"address": address, "nodeName": "node1", "userName": "kim"} | more
    body = {"kind": "PCIDeviceClaim", "metadata": metadata, "spec": spec}
    body["apiVersion"] = "devices.harvesterhci.io/v1beta1"
    await cluster.client.create(served(PCIDeviceClaim), body)


async def resource(cluster: Any, address: str) -> str:
    return str((await cluster.get(PCIDevice, NAMES[address])).status.resource_name)


async def claimed(cluster: Any, node: Any) -> tuple[str, str]:
    """Both are claimed, and pods can get them; their resources."""
    found = []
    for address in (GPU, AUDIO):
        await claim(cluster, address)
        found.append(await resource(cluster, address))
    for one in found:
        await node.allocatable(one, 1)
    return found[0], found[1]


async def test_a_pod_gets_all_of_a_group_that_it_requests(
    cluster: Any, node: Any, host: Any
) -> None:
    gpu, audio = await claimed(cluster, node)
    uid, granted = await node.pod("launcher", vm="vm1", **{gpu: 1, audio: 1})
    assert granted["compute"].ids == {gpu: (GPU,), audio: (AUDIO,)}
    for address in (GPU, AUDIO):
        await node.said(NAMES[address], "Ready", "Allocated", PCIDeviceClaim)
    await node.end("launcher", uid)
    for address in (GPU, AUDIO):
        await node.said(NAMES[address], "Ready", "Available", PCIDeviceClaim)


@pytest.mark.slow
async def test_the_rest_of_a_group_is_not_allocated_to_others(
    cluster: Any, node: Any, host: Any
) -> None:
    gpu, audio = await claimed(cluster, node)
    uid, _ = await node.pod("launcher", **{gpu: 1})
    kept = await node.said(NAMES[AUDIO], "Advertised", "Unhealthy", PCIDeviceClaim)
    words = find_condition(kept.status.conditions, "Advertised").message
    assert f"{GPU} of its IOMMU group" in words
    assert "default/launcher" in words
    await node.allocatable(audio, 0)
    with pytest.raises(AdmissionError):
        await node.pod("other", **{audio: 1})
    await node.end("launcher", uid)
    await node.allocatable(audio, 1)
    await node.pod("third", **{audio: 1})


@pytest.mark.slow
async def test_what_a_pod_has_of_a_group_outlasts_the_claim_of_a_device_that_was_pulled_out(
    cluster: Any, node: Any, host: Any
) -> None:
    gpu, audio = await claimed(cluster, node)
    uid, _ = await node.pod("launcher", vm="vm1", **{gpu: 1, audio: 1})
    await node.said(NAMES[AUDIO], "Ready", "Allocated", PCIDeviceClaim)
    host.unplug(f"/sys/bus/pci/devices/{GPU}")
    await node.said(NAMES[GPU], "Ready", "DeviceNotFound", PCIDeviceClaim)
    for address in (AUDIO, GPU):
        await cluster.client.delete(served(PCIDeviceClaim), NAMES[address])
        reported = await node.said(NAMES[address], "Ready", "DeviceAllocated", PCIDeviceClaim)
        assert "vm1" in cluster.message(reported)
    assert host.readlink(f"/sys/bus/pci/devices/{AUDIO}/driver").endswith("/vfio-pci")
    await node.end("launcher", uid)
    for name in NAMES.values():
        await cluster.until(PCIDeviceClaim, name, lambda one: one is None)
    assert not host.readlink(f"/sys/bus/pci/devices/{AUDIO}/driver").endswith("/vfio-pci")


async def test_a_process_that_is_no_pods_keeps_a_device_from_pods(
    cluster: Any, node: Any, host: Any
) -> None:
    await claim(cluster, GPU)
    name = await resource(cluster, GPU)
    await node.allocatable(name, 1)
    holder = host.hold(f"/sys/bus/pci/devices/{GPU}", "vfio-test")
    # No event says that a process opens a device; whatever else changes has Laneway look.
    await claim(cluster, AUDIO)
    kept = await node.said(NAMES[GPU], "Advertised", "Unhealthy", PCIDeviceClaim)
    words = find_condition(kept.status.conditions, "Advertised").message
    assert f"Process {holder.pid} (vfio-test) has /dev/vfio/" in words
    await node.allocatable(name, 0)
    holder.release()
    await node.allocatable(name, 1)


async def test_a_claim_says_by_which_name_its_device_goes(
    cluster: Any, node: Any, host: Any
) -> None:
    before = await resource(cluster, GPU)
    await claim(cluster, GPU, annotations={OVERRIDE: "acme.com/fast"})
    await node.allocatable("acme.com/fast", 1)
    await cluster.until(
        PCIDevice, NAMES[GPU], lambda obj: obj.status.resource_name == "acme.com/fast"
    )
    await cluster.client.delete(served(PCIDeviceClaim), NAMES[GPU])
    await cluster.until(PCIDevice, NAMES[GPU], lambda obj: obj.status.resource_name == before)
    await node.allocatable("acme.com/fast", 0)


async def test_a_name_that_is_none_is_refused_in_words(cluster: Any, node: Any, host: Any) -> None:
    before = await resource(cluster, GPU)
    await claim(cluster, GPU, annotations={OVERRIDE: "no name"})
    refused = await node.said(NAMES[GPU], "Advertised", "ResourceNameInvalid", PCIDeviceClaim)
    assert "'no name'" in find_condition(refused.status.conditions, "Advertised").message
    assert await resource(cluster, GPU) == before
    patch = {"metadata": {"annotations": {OVERRIDE: None}}}
    await cluster.patch(PCIDeviceClaim, NAMES[GPU], patch)
    await node.allocatable(before, 1)


async def test_a_device_that_is_not_pooled_has_a_name_of_its_own(
    cluster: Any, node: Any, host: Any
) -> None:
    before = await resource(cluster, GPU)
    pinned = f"{before.partition('/')[0]}/{NAMES[GPU]}"
    await claim(cluster, GPU, disableResourcePooling=True)
    await node.allocatable(pinned, 1)
    device = await cluster.until(
        PCIDevice, NAMES[GPU], lambda obj: obj.status.resource_name == pinned
    )
    assert device.metadata.annotations[OVERRIDE] == pinned
    await cluster.client.delete(served(PCIDeviceClaim), NAMES[GPU])
    device = await cluster.until(
        PCIDevice, NAMES[GPU], lambda obj: obj.status.resource_name == before
    )
    assert OVERRIDE not in device.metadata.annotations
