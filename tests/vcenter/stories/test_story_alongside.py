"""Alongside CAPV, played by the test: Laneway reserves, watches, reports, and changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from support.capv import Capv
from support.clusterapi import VSPHERE_CLUSTERS, VSPHERE_MACHINES, VSPHERE_VMS
from support.vcenter import Simulator
from support.vcenter_client import Client as VsphereUser
from support.vcenter_client import whole

T4 = {"vendorId": 0x10DE, "deviceId": 0x1EB8}
GPU = "nvidia.com/gpu"


class Plays(Capv):
    """CAPV, as far as it matters here: one step after the other."""

    def __init__(self, world: Any, user: VsphereUser) -> None:
        super().__init__(world)
        self.user = user

    async def clones(self, vm: Any) -> None:
        """The VM with its devices, on, and all that is said of it."""
        name, uid = vm.metadata.name, vm.metadata.uid
        devices = [whole(key=-200 - at) for at in range(len(vm.spec["pciDevices"]))]
        made = await asyncio.to_thread(lambda: self.user.machine(name, *devices, instanceUuid=uid))
        await asyncio.to_thread(self.user.on, made)
        await self.says(VSPHERE_VMS, name, vmRef=f"VirtualMachine:{made._moId}", ready=True)
        spec = {"providerID": f"vsphere://{uid}"}
        await self.world.patch(VSPHERE_MACHINES, name, spec)
        address = {"type": "InternalIP", "address": "192.0.2.9"}
        await self.says(
            VSPHERE_MACHINES, name, initialization={"provisioned": True}, addresses=[address]
        )


@pytest.mark.realapi
async def test_capv_makes_the_machines_and_laneway_tells_how_their_devices_are(
    world: Any, t4s: Callable[..., Simulator], log_in: Callable[[Simulator], Any], see: Any
) -> None:
    vcenter = t4s({"DC0_C0_H0": ["", ""]})
    await world.site(vcenter, "alongside")
    plays = Plays(world, VsphereUser(log_in(vcenter)))
    await plays.says(VSPHERE_CLUSTERS, "c1", initialization={"provisioned": True})
    await world.pool("workers", T4, T4, replicas=2)
    infra = await world.infra.until(lambda all_: len(all_) == 2)
    for one in infra:
        await plays.vm_for(one)
    [reserved] = await world.refused("workers", 1, "Reserved")
    [refused] = await world.refused("workers", 1, "NoRoom")
    assert "2 requested, 0 of 2 free" in see.said(refused, "PCIDevicesReady")[2]
    assert see.made(vcenter) == {}
    [vm] = [one for one in world.vms.all if one.metadata.name == reserved.metadata.name]
    await plays.clones(vm)
    name = vm.metadata.name

    def devices(state: str, status: str, reason: str) -> Callable[[Any], bool]:
        return lambda all_: any(
            one.metadata.name == name
            and [seat["state"] for seat in one.status.get("pciDevices") or ()] == [state] * 2
            and see.said(one, "PCIDevicesReady")[:2] == (status, reason)
            for one in all_
        )

    await world.vms.until(devices("InUse", "True", "InUse"))
    await world.nodes.until(
        lambda all_: [(one.status.get("allocatable") or {}).get(GPU) for one in all_] == ["2"]
    )
    methods = {task["method"] for task in vcenter.tasks()}
    assert methods == {"CloneVM_Task", "ReconfigVM_Task", "PowerOnVM_Task"}
    assert len(vcenter.tasks()) == 3  # all of them the test's
    vcenter.detach(name)
    vcenter.detach(name)
    await world.vms.until(devices("Missing", "False", "PCIDevicesMissing"))
