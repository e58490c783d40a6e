"""`laneway_virtual_machine_devices`: devices of a VM that exists."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from typing import Any, ClassVar, NamedTuple

from tf.schema import Attribute

from laneway.admission.world import MEDIATED
from laneway.api import VGPUDevice
from laneway.changes import vms
from laneway.cli import fleet
from laneway.core.names import is_vgpu_resource
from laneway.core.phrases import few
from laneway.kube.client import Client
from laneway.kube.errors import NotFoundError
from laneway.kube.kubevirt import (
    INSTANCES,
    VIRTUAL_MACHINES,
    DeviceRequest,
    Devices,
    VirtualMachine,
)
from laneway.kube.resource import served
from laneway.views.vms import Vm
from terraform_provider_laneway import mistakes
from terraform_provider_laneway.holders import AGAIN_SECONDS
from terraform_provider_laneway.problems import ProblemError, notice, refused
from terraform_provider_laneway.resource import ManagedResource
from terraform_provider_laneway.values import FLAG, TEXT, TEXT_MAP, State, is_unknown


class VirtualMachineDevices(ManagedResource):
    """Entries for devices in the spec of a VM."""

    name: ClassVar[str] = "virtual_machine_devices"
    key: ClassVar[tuple[str, ...]] = ("namespace", "virtual_machine")
    subject: ClassVar[str] = "devices"
    about: ClassVar[str] = (
        "Devices of a VM that exists. Entries of the VM that are not named here stay as they are. "
        "A VM gets its devices when it starts. A running VM keeps them, so destroying this waits "
        "until the VM is stopped."
    )
    attributes: ClassVar[tuple[Any, ...]] = (
        Attribute(
            "virtual_machine",
            TEXT,
            required=True,
            requires_replace=True,
            description="Name of the VirtualMachine.",
        ),
        Attribute(
            "namespace",
            TEXT,
            optional=True,
            computed=True,
            requires_replace=True,
            description="Its namespace. Default: that of the provider.",
        ),
        Attribute(
            "devices",
            TEXT_MAP,
            required=True,
            description="The resource of each device, by the name of its entry in the VM: "
            '`{ "vgpu-0" = "nvidia.com/NVIDIA_A2-4Q" }`.',
        ),
        Attribute(
            "restart_required",
            FLAG,
            computed=True,
            description="Whether the VM runs, and gets some of the devices at its next start only.",
        ),
    )

    def mistakes(self, config: State) -> list[ProblemError]:
        return mistakes.resources(config, "devices")

    async def check(self, client: Client, config: State) -> AsyncIterator[ProblemError]:
        try:
            vm = await self._vm(client, config)
        except NotFoundError as error:
            yield notice("Not checked", f"{error}. The VM has to be there when it gets devices.")
            return
        edit = await _edit(client, vm, config["devices"], None)
        if edit.conflicts:
            return  # Of a resource that is changed these are its own.
        if edit.changes:
            await _store(client, vm, edit, dry_run=True)

    async def look(self, client: Client, state: State) -> State | None:
        try:
            vm = await self._vm(client, state)
        except NotFoundError:
            return None
        has = {one.name: one.device_name for one in vm.spec.domain.devices.all}
        wanted = state.get("devices")
        devices = has if wanted is None else {n: has[n] for n in wanted if n in has}
        running = vm.running
        with_now = [one.name for one in running.spec.domain.devices.all] if running else []
        return {
            "id": f"{vm.namespace}/{vm.name}",
            "virtual_machine": vm.name,
            "namespace": vm.namespace,
            "devices": devices,
            "restart_required": running is not None and not set(devices) <= set(with_now),
        }

    async def apply(self, client: Client, planned: State, current: State | None) -> None:
        planned["namespace"] = self._namespace(planned)
        try:
            vm = await self._vm(client, planned)
        except NotFoundError as error:
            raise ProblemError("No such VM", str(error), ["virtual_machine"]) from None
        own = (current or {}).get("devices")
        edit = await _edit(client, vm, planned["devices"], own)
        if edit.conflicts:
            name = edit.conflicts[0]
            raise refused(
                f"VM {vm.namespace}/{vm.name} has another device {name} already. Choose another "
                "name for the entry.",
                ["devices", (name,)],
            )
        if edit.changes:
            await _store(client, vm, edit)

    async def remove(self, client: Client, current: State) -> None:
        end = asyncio.get_running_loop().time() + self.patience(current)
        while True:
            try:
                vm = await self._vm(client, current)
            except NotFoundError:
                return
            edit = await _edit(client, vm, {}, current["devices"])
            if not edit.changes:
                return
            refusal = vms.detach_refusal(vm.running, edit.detach)
            if refusal is None:
                await _store(client, vm, edit)
                return
            if asyncio.get_running_loop().time() >= end:
                raise refused(refusal.words, ["devices"])
            await asyncio.sleep(AGAIN_SECONDS)

    def _namespace(self, state: State) -> str:
        given = state.get("namespace")
        return self.settings.namespace_of(None if is_unknown(given) else given)

    async def _vm(self, client: Client, state: State) -> Vm:
        """A VM with its instance. Raises NotFoundError."""
        name, namespace = state["virtual_machine"], self._namespace(state)
        vm: VirtualMachine = await client.get(VIRTUAL_MACHINES, name, namespace)
        try:
            instance = await client.get(INSTANCES, name, namespace)
        except NotFoundError:
            instance = None
        return Vm(namespace, name, vm, instance)


class _Edit(NamedTuple):
    """What changes in a VM."""

    attach: Devices
    detach: frozenset[str]
    conflicts: tuple[str, ...]
    """Names that other devices of the VM have."""

    @property
    def changes(self) -> bool:
        return bool(self.attach.all or self.detach)


async def _edit(client: Client, vm: Vm, wanted: State, own: State | None) -> _Edit:
    """From the entries that Terraform has made to those that it wants."""
    has = {one.name: one.device_name for one in vm.spec.domain.devices.all}
    ours = own or {}
    detach = {name for name in has if name in ours and wanted.get(name) != has[name]}
    new = {name: resource for name, resource in wanted.items() if has.get(name) != resource}
    conflicts = tuple(sorted(name for name in new if name in has and name not in detach))
    mediated = await _mediated(client, new.values()) if new else frozenset()
    entries = [DeviceRequest(name=name, device_name=one) for name, one in sorted(new.items())]
    gpus = [one for one in entries if one.device_name in mediated]
    rest = [one for one in entries if one not in gpus]
    return _Edit(Devices(host_devices=rest, gpus=gpus), frozenset(detach), conflicts)


async def _mediated(client: Client, wanted: Collection[str]) -> frozenset[str]:
    """Which resources are vGPUs that are mediated devices: KubeVirt has a list of its own for them.

    Raises ProblemError where that cannot be told: in the other list, a VM does not start.
    """
    unreadable: list[str] = []
    vgpus = await fleet.readable(client, served(VGPUDevice), unreadable)
    known = {one.status.resource_name: one.status.framework for one in vgpus}
    if unreadable and any(is_vgpu_resource(one) and one not in known for one in wanted):
        words = f"{few(unreadable, '; ')}. Correct it, then run terraform again."
        raise ProblemError("Not everything can be read", words, ["devices"])
    return frozenset(one for one in wanted if known.get(one) == MEDIATED)


async def _store(client: Client, vm: Vm, edit: _Edit, *, dry_run: bool = False) -> None:
    if vm.vm is None:
        raise ProblemError("No such VM", f"VM {vm.namespace}/{vm.name} has no VirtualMachine.")
    await vms.change_devices(
        client, vm.vm, vm.running, attach=edit.attach, detach=edit.detach, dry_run=dry_run
    )
