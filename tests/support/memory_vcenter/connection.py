"""The port, on a vCenter in memory."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Self

from laneway.core.vsphere.inventory.hosts import Host
from laneway.core.vsphere.inventory.vms import TaskState, VmState
from laneway.vsphere.port import (
    About,
    Changed,
    Clone,
    Credentials,
    FaultError,
    LoginRefusedError,
    NotFoundInVCenterError,
    Place,
    Reconfiguration,
    UnreachableVCenterError,
)
from laneway.vsphere.vcenter.escaping import same
from laneway.vsphere.vcenter.inventory_paths import few, only
from laneway.vsphere.vcenter.properties import ref_of
from support.memory_vcenter.tasks import Task
from support.memory_vcenter.vcenter import SERVERS, MemoryVCenter
from support.memory_vcenter.vms import Vm
from support.memory_vcenter.world import RefusedError


async def connect(server: str, credentials: Credentials) -> Connection:
    """Log in; what `laneway.vsphere.vcenter.connect` is on a real one."""
    vcenter = _reached(server)
    if credentials.thumbprint and credentials.thumbprint != vcenter.thumbprint:
        raise LoginRefusedError(f"the certificate of {server} has another thumbprint")
    vcenter.count("Login")
    if (credentials.user, credentials.password) != (vcenter.user, vcenter.password):
        raise LoginRefusedError(f"{server} refuses the user or the password: Login failure")
    return Connection(server)


def _reached(server: str) -> MemoryVCenter:
    if (vcenter := SERVERS.get(server)) is None:
        raise UnreachableVCenterError(f"{server} cannot be reached: connection refused")
    return vcenter


@contextlib.contextmanager
def _faults() -> Iterator[None]:
    try:
        yield
    except RefusedError as refused:
        raise FaultError(refused.fault) from None


class Connection:
    """One vCenter, logged in."""

    def __init__(self, server: str) -> None:
        self._server = server

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    @property
    def _vcenter(self) -> MemoryVCenter:
        return _reached(self._server)

    async def about(self) -> About:
        return About("8.0.3", self._vcenter.api, self._vcenter.uuid)

    async def follow(self) -> AsyncIterator[Changed]:
        vcenter, broken = self._vcenter, self._vcenter.broken
        known: dict[str, Host] = {}
        complete = True
        while True:
            event = vcenter.changed
            vcenter.count("WaitForUpdatesEx")
            now = vcenter.seen()
            news = tuple(host for ref, host in now.items() if known.get(ref) != host)
            gone = tuple(known.keys() - now.keys())
            if news or gone or complete:
                known = now
                yield Changed(news, gone, complete)
                complete = False
            else:
                await event.wait()
            if vcenter.broken != broken:
                raise UnreachableVCenterError(f"{self._server} cannot be reached: cut")

    async def find(self, instance_uuid: str, bios_uuid: str = "") -> VmState | None:
        vcenter = self._vcenter
        with _faults():
            vcenter.count("FindByUuid")
        for wanted, kind in ((instance_uuid, "instance_uuid"), (bios_uuid, "bios_uuid")):
            for vm in vcenter.all.values():
                if wanted and vm.readable and getattr(vm, kind).lower() == wanted.lower():
                    return self._state(vm)
        return None

    def _state(self, vm: Vm) -> VmState:
        return vm.state(self._vcenter.tasks_.at_work(vm.ref))

    async def look(self, refs: Sequence[str]) -> dict[str, VmState]:
        self._vcenter.count("RetrievePropertiesEx")
        all_ = self._vcenter.all
        return {ref: self._state(all_[ref]) for ref in refs if ref in all_}

    async def named(self, name: str, place: Place) -> VmState | None:
        vcenter = self._vcenter
        with _faults():
            vcenter.count("FindChild")
        folder = ref_of(vcenter.inventory.folder(None, None, place))
        fitting = (one for one in vcenter.all.values() if one.folder == folder)
        found = next((one for one in fitting if same(name, one.name)), None)
        return None if found is None else self._state(found)

    async def cluster_of_pool(self, place: Place) -> str:
        return self._vcenter.inventory.cluster_of_pool(None, None, place)

    async def at_work(self, template: str, place: Place) -> tuple[str, ...]:
        return self._vcenter.tasks_.at_work(self._template(template, place).ref)

    def _template(self, desired: str, place: Place) -> Vm:
        last = desired.removeprefix("/DC0/vm/")
        fitting = [
            vm
            for vm in self._vcenter.all.values()
            if last == vm.name or desired.lower() in (vm.instance_uuid.lower(), vm.bios_uuid)
        ]
        # Raises for a datacenter that is not there, as the adapter does.
        self._vcenter.inventory.folder(None, None, Place(datacenter=place.datacenter))
        where = f"template {desired!r} in DC0"
        return only(fitting, [f"{one.name} ({one.ref})" for one in fitting], [], where)

    async def clone(self, clone: Clone) -> str:
        vcenter = self._vcenter
        target = vcenter.inventory.target(None, None, clone.place, clone.networks)
        source = self._template(clone.template, clone.place)
        if clone.snapshot:
            raise NotFoundInVCenterError(f"there is no snapshot {clone.snapshot!r}")
        folder, pool, host = map(ref_of, (target.folder, target.pool, target.host))
        work: Callable[[], str] = lambda: vcenter.clone(clone, source, folder, pool, host)  # noqa: E731
        with _faults():
            return vcenter.order("CloneVM_Task", source.ref, clone.name, work).ref

    def _order(self, method: str, ref: str, work: Callable[[MemoryVCenter, Vm], str]) -> str:
        vcenter = self._vcenter
        vm = vcenter.all.get(ref)
        if vm is None:
            raise NotFoundInVCenterError(f"{self._server} has no {ref} (any more)")
        with _faults():
            return vcenter.order(method, ref, vm.name, lambda: work(vcenter, vm)).ref

    async def reconfigure(self, vm: str, change: Reconfiguration) -> str:
        return self._order("ReconfigVM_Task", vm, lambda there, one: there.reconfigure(one, change))

    async def upgrade(self, vm: str, hardware_version: int) -> str:
        return self._order(
            "UpgradeVM_Task", vm, lambda there, one: there.upgrade(one, hardware_version)
        )

    async def relocate(self, vm: str, host: str) -> str:
        inventory, found = self._vcenter.inventory, self._vcenter.all.get(vm)
        to = inventory.names().get(host, called="host")
        pool = ""
        if found is not None and found.host.cluster.ref != to.parent:
            pool = inventory.root_pool(to.parent)
        return self._order(
            "RelocateVM_Task", vm, lambda there, one: there.relocate(one, host, pool)
        )

    async def power_on(self, vm: str) -> str:
        return self._order("PowerOnVM_Task", vm, MemoryVCenter.power_on)

    async def power_off(self, vm: str) -> str:
        return self._order("PowerOffVM_Task", vm, MemoryVCenter.power_off)

    async def shut_down_guest(self, vm: str) -> None:
        vcenter = self._vcenter
        if (found := vcenter.all.get(vm)) is None:
            raise NotFoundInVCenterError(f"{self._server} has no {vm} (any more)")
        with _faults():
            vcenter.count("ShutdownGuest", found.name)
            vcenter.shut_down(found)

    async def destroy(self, vm: str) -> str:
        return self._order("Destroy_Task", vm, MemoryVCenter.destroy)

    async def join_group(self, vm: str, cluster: str, group: str) -> str:
        vcenter = self._vcenter
        ref = ref_of(vcenter.inventory.cluster(None, None, cluster))
        found = next(one for one in vcenter.clusters.values() if one.ref == ref)
        if group not in found.vm_groups:
            there = f"; there is {few(found.vm_groups)}" if found.vm_groups else ""
            raise NotFoundInVCenterError(f"there is no VM group {group!r} in {found.name}{there}")

        def work() -> str:
            found.vm_groups[group].append(vm)
            return ""

        with _faults():
            return vcenter.order("ReconfigureComputeResource_Task", ref, found.name, work).ref

    async def task(self, task: str) -> TaskState | None:
        found = self._vcenter.tasks_.find(task)
        return None if found is None else found.seen()

    async def finished(self, task: str) -> TaskState:
        vcenter = self._vcenter
        found, broken = self._found(task), vcenter.broken
        while not found.done:
            event = vcenter.changed
            waits = [asyncio.ensure_future(one.wait()) for one in (found.ended, event)]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for one in waits:
                    one.cancel()
            if vcenter.broken != broken:
                raise UnreachableVCenterError(f"the wait for task {task} was cut off")
        return found.seen()

    def _found(self, task: str) -> Task:
        found = self._vcenter.tasks_.find(task)
        if found is None:
            raise NotFoundInVCenterError(f"vCenter knows nothing of the task {task}")
        return found

    async def cancel(self, task: str) -> None:
        self._vcenter.tasks_.cancel(task)
