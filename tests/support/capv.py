"""In the place of CAPV: makes VSphereVMs and their VMs as its controllers do, whatever is reserved.

It looks at everything again and again, so whatever vCenter does to it, the next look goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

from laneway.core.vsphere.inventory.vms import Backing, DynamicBacking, VgpuBacking, VmState
from laneway.core.vsphere.spec.requests import PciIds
from laneway.kube import capv
from laneway.kube.errors import KubeError
from laneway.vsphere.port import (
    Addition,
    Clone,
    Credentials,
    Place,
    Reconfiguration,
    VCenter,
    VCenterError,
)
from laneway.vsphere.vcenter import connect
from support.clusterapi import VSPHERE_CLUSTERS, VSPHERE_MACHINES, VSPHERE_VMS, Plain
from support.vcenter import Simulator
from support.vsphere_world import NAMESPACE, World

FINALIZER = "vspherevm.infrastructure.cluster.x-k8s.io"
HARDWARE = 17
"""The oldest version that whole devices need."""
LOOK_SECONDS = 0.2
TASK_SECONDS = 5.0
"""So long the end of a task is waited for, which vCenter may have forgotten by then."""


class Capv:
    """What CAPV does, as far as it matters here."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def says(self, resource: Any, name: str, **status: Any) -> None:
        body = {"status": status}
        await self.world.client.patch(resource, name, body, NAMESPACE, subresource="status")

    async def vm_for(self, infra: Any, cluster: str = "c1", *finalizers: str) -> Any:
        """A VSphereVM for a VSphereMachine."""
        owner = {
            "apiVersion": f"{capv.GROUP}/{capv.VERSION}",
            "kind": "VSphereMachine",
            "name": infra.metadata.name,
            "uid": infra.metadata.uid,
        }
        found = await self.world.client.get(VSPHERE_CLUSTERS, cluster, NAMESPACE)
        return await self.world.make(
            VSPHERE_VMS,
            infra.metadata.name,
            {key: value for key, value in infra.spec.items() if key != "providerID"}
            | {"server": found.spec["server"]},
            labels=dict(infra.metadata.labels),
            ownerReferences=[owner],
            finalizers=list(finalizers),
        )

    async def run(self, simulator: Simulator) -> None:
        """Carry out what is desired, until cancelled."""
        with_what = Credentials(simulator.user, simulator.password, simulator.thumbprint)
        async with (
            await connect(simulator.server, with_what) as vcenter,
            asyncio.TaskGroup() as all_,
        ):
            at_work: dict[str, asyncio.Task[None]] = {}
            while True:
                with contextlib.suppress(KubeError):
                    await self._objects()
                for vm in self.world.vms.all:
                    if (uid := vm.metadata.uid) not in at_work or at_work[uid].done():
                        at_work[uid] = all_.create_task(self._look(vcenter, vm))
                await asyncio.sleep(LOOK_SECONDS)

    async def _objects(self) -> None:
        vms = {one.metadata.name: one for one in self.world.vms.all}
        infra = {one.metadata.name: one for one in self.world.infra.all}
        for name, one in infra.items():
            if name not in vms and one.metadata.deletion_timestamp is None:
                await self.vm_for(one, "c1", FINALIZER)
        for name, vm in vms.items():
            owner = infra.get(name)
            gone = owner is None or owner.metadata.deletion_timestamp is not None
            if gone and vm.metadata.deletion_timestamp is None:
                await self.world.delete(VSPHERE_VMS, name)

    async def _look(self, vcenter: VCenter, vm: Plain) -> None:
        """One step of a machine."""
        with contextlib.suppress(VCenterError, KubeError, TimeoutError):
            state = await vcenter.find(vm.metadata.uid)
            if vm.metadata.deletion_timestamp is not None:
                await self._remove(vcenter, vm, state)
            elif state is None:
                await _finished(vcenter, await vcenter.clone(_clone(vm)))
            elif not state.on and not state.tasks:
                await _finished(vcenter, await self._prepare(vcenter, vm, state))
            elif state.on:
                await self._tell(vm, state)

    async def _prepare(self, vcenter: VCenter, vm: Plain, state: VmState) -> str:
        wanted = list(vm.spec.get("pciDevices") or ())
        if state.hardware_version < HARDWARE:
            return await vcenter.upgrade(state.ref, HARDWARE)
        if not state.devices and wanted:
            add = tuple(Addition(-200 - at, _backing(one)) for at, one in enumerate(wanted))
            return await vcenter.reconfigure(state.ref, Reconfiguration(add))
        return await vcenter.power_on(state.ref)

    async def _remove(self, vcenter: VCenter, vm: Plain, state: VmState | None) -> None:
        if state is None:
            gone = {"metadata": {"finalizers": None}}
            await self.world.client.patch(VSPHERE_VMS, vm.metadata.name, gone, NAMESPACE)
        elif not state.tasks:
            stop = vcenter.power_off if state.on else vcenter.destroy
            await _finished(vcenter, await stop(state.ref))

    async def _tell(self, vm: Plain, state: VmState) -> None:
        name = vm.metadata.name
        if not vm.status.get("ready"):
            await self.says(VSPHERE_VMS, name, vmRef=f"VirtualMachine:{state.ref}", ready=True)
            spec = {"providerID": f"vsphere://{vm.metadata.uid}"}
            await self.world.patch(VSPHERE_MACHINES, name, spec)


async def _finished(vcenter: VCenter, task: str) -> None:
    async with asyncio.timeout(TASK_SECONDS):
        await vcenter.finished(task)


def _clone(vm: Plain) -> Clone:
    spec = vm.spec
    place = Place(datacenter=spec["datacenter"], resource_pool=spec["resourcePool"])
    return Clone(
        name=vm.metadata.name,
        template=spec["template"],
        place=place,
        instance_uuid=vm.metadata.uid,
        cpus=2,
        cores_per_socket=1,
        memory_mib=2048,
        lock_memory=True,
    )


def _backing(item: Mapping[str, Any]) -> Backing:
    if (profile := item.get("vGPUProfile")) is not None:
        return VgpuBacking(profile)
    ids = PciIds(item["vendorId"], item["deviceId"])
    return DynamicBacking((ids,), item.get("customLabel", ""))
