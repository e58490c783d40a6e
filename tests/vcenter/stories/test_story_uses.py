"""The three uses of the proposal: passthrough for a node, vGPUs and GPUDirect for several.

And what it says of them that was never built: devices in the status, a node that shows its
GPUs, GPUDirect by device groups or peer-to-peer keys, and image-builder#930's settings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.vcenter import Simulator

GPU = "nvidia.com/gpu"
T4 = {"vendorId": 0x10DE, "deviceId": 0x1EB8}
NIC = {"vendorId": 0x15B3, "deviceId": 0x101E}
CARD = {"name": "Tesla T4", "fbGiB": 16, "mode": "passthrough"} | T4
PORT = {"name": "ConnectX-6", "mode": "passthrough", "classId": 0x200} | NIC


async def shows(world: Any, nodes: dict[str, str]) -> None:
    """Each of these nodes shows so many GPUs."""

    def found(all_: Any) -> dict[str, str]:
        return {
            one.metadata.name: str((one.status.get("allocatable") or {}).get(GPU, ""))
            for one in all_
        }

    await world.nodes.until(lambda all_: found(all_).items() >= nodes.items())


def names(machines: Any) -> list[str]:
    return [one.spec["infrastructureRef"]["name"] for one in machines]


@pytest.mark.realapi
async def test_whole_gpus_for_a_single_node(world: Any, vcenter: Simulator, see: Any) -> None:
    await world.site(vcenter)
    await world.pool("node", T4, T4)
    [name] = names(await world.ready("node", 1))
    await shows(world, {name: "2"})
    [vm] = world.vms.all
    seats = vm.status["pciDevices"]
    assert [(seat["asked"], seat["state"], seat["host"]) for seat in seats] == [
        ("10de:1eb8", "InUse", "DC0_C0_H0")
    ] * 2
    assert {seat["attached"] for seat in seats} == {"0000:3b:00.0", "0000:af:00.0"}
    real = see.made(vcenter)[name]
    assert real["memoryLocked"]
    assert real["extra"]["pciPassthru.use64bitMMIO"] == "TRUE"
    assert real["extra"]["pciPassthru.64bitMMIOSizeGB"] == "64"
    await world.scale("node", 0)
    await world.nothing_left(vcenter)


async def test_vgpus_for_several_nodes(world: Any, vcenter: Simulator, see: Any) -> None:
    await world.site(vcenter)
    await world.pool("nodes", {"vGPUProfile": "grid_t4-8q"}, replicas=2)
    ready = names(await world.ready("nodes", 2))
    await shows(world, dict.fromkeys(ready, "1"))
    [users] = vcenter.users().values()
    assert users == {name: ["grid_t4-8q"] for name in ready}
    assert all("pciPassthru.use64bitMMIO" not in vm["extra"] for vm in see.made(vcenter).values())


async def test_gpudirect_by_a_device_group(
    world: Any, start_vcenter: Callable[..., Simulator], see: Any
) -> None:
    """All parts of the group or nothing, on a host that offers it."""
    group = {
        "name": "Nvidia:1@t4-with-nic",
        "description": "a GPU and the port next to it",
        "parts": [
            {"kind": "pciPassthru", "name": "Tesla T4"} | T4,
            {"kind": "pciPassthru", "name": "ConnectX-6"} | NIC,
        ],
    }
    hosts = {
        host: [{"id": "0000:3b:00.0"} | CARD, {"id": "0000:3c:00.0"} | PORT]
        for host in ("DC0_C0_H0", "DC0_C0_H1", "DC0_C0_H2")
    }
    offered = {"DC0_C0_H1": [group], "DC0_C0_H2": [group]}
    vcenter = start_vcenter(hosts, device_groups=offered)
    await world.site(vcenter)
    await world.pool("nodes", {"deviceGroupName": group["name"]}, replicas=3)
    ready = names(await world.ready("nodes", 2))
    [refused] = await world.refused("nodes", 1)
    assert group["name"] in see.said(refused, "PCIDevicesReady")[2]
    real = see.made(vcenter)
    assert {real[name]["host"] for name in ready} == {"DC0_C0_H1", "DC0_C0_H2"}
    for name in ready:
        assert [device["group"] for device in real[name]["devices"]] == [group["name"]] * 2
    assert len(vcenter.users()) == 4
    vcenter.detach(min(ready))
    [lost] = await world.refused("nodes", 1, "PCIDevicesMissing")
    assert lost.metadata.name == min(ready)
    assert group["name"] in see.said(lost, "PCIDevicesReady")[2]
    await world.ready("nodes", 1)


async def test_gpudirect_by_gpus_and_a_network_card(
    world: Any, start_vcenter: Callable[..., Simulator], see: Any
) -> None:
    """Both on one host, though another one has more GPUs, with the keys that let them meet."""
    hosts = {
        "DC0_C0_H0": [{"id": "0000:3b:00.0"} | CARD, {"id": "0000:3c:00.0"} | CARD],
        "DC0_C0_H1": [{"id": "0000:3b:00.0"} | CARD, {"id": "0000:3c:00.0"} | PORT],
    }
    vcenter = start_vcenter(hosts)
    await world.site(vcenter)
    await world.pool("nodes", T4, NIC, peerToPeer=True)
    await world.pool("large", T4, T4, NIC, peerToPeer=True)
    [name] = names(await world.ready("nodes", 1))
    real = see.made(vcenter)[name]
    assert real["host"] == "DC0_C0_H1"
    assert real["extra"]["pciPassthru.allowP2P"] == "TRUE"
    assert real["extra"]["pciPassthru.RelaxACSforP2P"] == "TRUE"
    assert vcenter.users().keys() == {("DC0_C0_H1", f"0000:{at}:00.0") for at in ("3b", "3c")}
    [refused] = await world.refused("large", 1, "HostsTooSmall")
    words = see.said(refused, "PCIDevicesReady")[2]
    assert "All devices of a VM must be on one host" in words
