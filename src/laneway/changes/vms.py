"""Changes of VMs: made, started and stopped, their devices attached and detached, deleted.

The devices of a VM that exists are changed entry by entry in what is stored, so fields that Laneway
does not know stay, and so do entries that another program adds meanwhile. A start or a stop goes
through KubeVirt's own subresource, which knows every run strategy; where the cluster does not serve
it, or the user may not use it, the run strategy itself is written.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from laneway.api import ObjectMeta, decode
from laneway.changes.errors import ChangeError, OvertakenError, RefusedError
from laneway.core.raw import Json, JsonObject, at, items, members
from laneway.core.refusals import DevicesOfRunningVm
from laneway.kube.client import Client
from laneway.kube.errors import ConflictError, ForbiddenError, NotFoundError
from laneway.kube.kubevirt import (
    VIRTUAL_MACHINES,
    DeviceRequest,
    Devices,
    VirtualMachine,
    VirtualMachineInstance,
)
from laneway.kube.resource import Resource

SUBRESOURCES = "subresources.kubevirt.io"
"""The group in which KubeVirt starts and stops VMs."""
DEVICES = ("spec", "template", "spec", "domain", "devices")
"""Where a VM has its devices."""
_SHOWN_NOWHERE = {"enabled": False}
"""What admission writes of the display of each further vGPU."""


class _Raw(msgspec.Struct, frozen=True):
    """A VM as it is stored."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JsonObject = {}


STORED = Resource(
    VIRTUAL_MACHINES.group, "v1", VIRTUAL_MACHINES.plural, True, _Raw, VIRTUAL_MACHINES.kind
)
"""VMs with all of their fields."""


class Disk(NamedTuple):
    """What a new VM starts from; one of them is given."""

    image: str = ""
    """A container disk."""
    claim: str = ""
    """A PersistentVolumeClaim of its namespace."""


class NewVm(NamedTuple):
    """A VM that is to be made."""

    namespace: str
    name: str
    disk: Disk
    cores: int
    memory: str
    """As Kubernetes writes amounts: `4Gi`."""
    devices: Devices
    start: bool
    node: str = ""
    """The only node where it may run; empty: any."""


def manifest(vm: NewVm) -> JsonObject:
    """The object as it is created.

    Devices pin a VM to its node, so one that has some is not to be migrated away from it.
    """
    devices: JsonObject = {
        "disks": [{"name": "root", "disk": {"bus": "virtio"}}],
        "interfaces": [{"name": "default", "masquerade": {}}],
        **_lists(vm.devices),
    }
    source: JsonObject = (
        {"containerDisk": {"image": vm.disk.image}}
        if vm.disk.image
        else {"persistentVolumeClaim": {"claimName": vm.disk.claim}}
    )
    spec: dict[str, Json] = {
        "domain": {
            "cpu": {"cores": vm.cores},
            "memory": {"guest": vm.memory},
            "devices": devices,
        },
        "networks": [{"name": "default", "pod": {}}],
        "volumes": [{"name": "root", **source}],
    }
    if vm.devices.all:
        spec["evictionStrategy"] = "None"
    if vm.node:
        spec["nodeSelector"] = {"kubernetes.io/hostname": vm.node}
    return {
        "apiVersion": VIRTUAL_MACHINES.api_version,
        "kind": VIRTUAL_MACHINES.kind,
        "metadata": {"name": vm.name, "namespace": vm.namespace},
        "spec": {
            "runStrategy": "Always" if vm.start else "Halted",
            "template": {"metadata": {"labels": {"kubevirt.io/vm": vm.name}}, "spec": spec},
        },
    }


async def create(client: Client, vm: NewVm) -> VirtualMachine:
    """Make it. Raises KubeError."""
    return await client.create(VIRTUAL_MACHINES, manifest(vm), vm.namespace)


def detach_refusal(
    instance: VirtualMachineInstance | None, names: Collection[str]
) -> DevicesOfRunningVm | None:
    """Why entries of a VM with these names cannot be detached now: its instance runs with them.

    `instance`: None for a VM that does not run, also for one whose instance has ended.
    """
    if instance is None:
        return None
    meta, devices = instance.metadata, instance.spec.domain.devices.all
    held = tuple(one.name for one in devices if one.name in names)
    return DevicesOfRunningVm(held, meta.namespace, meta.name) if held else None


async def change_devices(
    client: Client,
    vm: VirtualMachine,
    instance: VirtualMachineInstance | None,
    *,
    attach: Devices,
    detach: Collection[str],
    dry_run: bool = False,
) -> VirtualMachine:
    """Attach and detach devices, by the names of their entries.

    `dry_run`: only ask the server, with its webhooks.

    Raises RefusedError, OvertakenError, KubeError.
    """
    if (refusal := detach_refusal(instance, detach)) is not None:
        raise RefusedError(refusal.words)
    name, namespace = vm.metadata.name, vm.metadata.namespace
    stored = await client.get(STORED, name, namespace)
    before = members(at({"spec": stored.spec}, DEVICES))
    after = edited(before, attach, detach)
    change: Json = {key: after[key] or None for key in after if after[key] != before.get(key)}
    for key in reversed(DEVICES):
        change = {key: change}
    version = {"resourceVersion": stored.metadata.resource_version}
    body = {"metadata": version, **members(change)}
    try:
        return await client.patch(VIRTUAL_MACHINES, name, body, namespace, dry_run=dry_run)
    except ConflictError:
        raise OvertakenError(
            f"VirtualMachine {namespace}/{name} was changed by another program meanwhile"
        ) from None


def edited(
    devices: JsonObject, attach: Devices, detach: Collection[str]
) -> Mapping[str, Sequence[Json]]:
    """The lists of a VM's devices with entries attached and detached.

    Where the vGPU with the display goes, the others say nothing of theirs any more, and admission
    chooses the next one.
    """
    added = _lists(attach)
    found = {}
    for key in ("hostDevices", "gpus"):
        kept = [one for one in items(devices.get(key)) if members(one).get("name") not in detach]
        found[key] = [*kept, *added.get(key, ())]
    gone = [one for one in items(devices.get("gpus")) if members(one).get("name") in detach]
    if any(at(one, _DISPLAY) not in (None, _SHOWN_NOWHERE) for one in gone):
        found["gpus"] = [_without_display(one) for one in found["gpus"]]
    return found


def after(devices: Devices, attach: Devices, detach: Collection[str]) -> Devices:
    """The devices that a VM would have, before admission completes them."""
    return decode(Devices, edited(members(_plain(msgspec.to_builtins(devices))), attach, detach))


def _plain(value: Json) -> Json:
    """As it would be written: without what is not said."""
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items() if one is not None}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


_DISPLAY = ("virtualGPUOptions", "display")


def _without_display(entry: Json) -> Json:
    if at(entry, _DISPLAY) != _SHOWN_NOWHERE:
        return entry
    options = {
        key: value
        for key, value in members(members(entry).get("virtualGPUOptions")).items()
        if key != "display"
    }
    left = {key: value for key, value in members(entry).items() if key != "virtualGPUOptions"}
    return {**left, "virtualGPUOptions": options} if options else left


def _lists(devices: Devices) -> dict[str, list[Json]]:
    lists = {"hostDevices": devices.host_devices, "gpus": devices.gpus}
    return {key: [_entry(one) for one in entries] for key, entries in lists.items() if entries}


def _entry(request: DeviceRequest) -> JsonObject:
    return {"name": request.name, "deviceName": request.device_name}


async def start(client: Client, vm: VirtualMachine) -> None:
    """Have it run. Raises ChangeError where only KubeVirt's subresource can, KubeError."""
    await _run(client, vm, "start")


async def stop(client: Client, vm: VirtualMachine) -> None:
    """Have it stop. Raises as `start` does."""
    await _run(client, vm, "stop")


async def _run(client: Client, vm: VirtualMachine, action: str) -> None:
    name, namespace = vm.metadata.name, vm.metadata.namespace
    path = f"/apis/{SUBRESOURCES}/v1/namespaces/{namespace}/virtualmachines/{name}/{action}"
    try:
        await client.call("PUT", path, None, {})
    except (NotFoundError, ForbiddenError) as error:
        if (spec := run_spec(vm, start=action == "start")) is None:
            raise ChangeError(
                f"VM {namespace}/{name} has the run strategy {vm.spec.run_strategy}. Then only "
                f"KubeVirt's API can {action} it, and that request was refused: {error}"
            ) from None
        await client.patch(VIRTUAL_MACHINES, name, {"spec": spec}, namespace)


def run_spec(vm: VirtualMachine, *, start: bool) -> Mapping[str, Any] | None:
    """The fields that start or stop a VM; None where its run strategy does not say it."""
    if vm.spec.running is not None:
        return {"running": start}
    if not start and vm.spec.run_strategy in ("Always", "RerunOnFailure"):
        return {"runStrategy": "Halted"}
    if start and vm.spec.run_strategy in ("", "Halted"):
        return {"runStrategy": "Always"}
    return None


async def delete(client: Client, vm: VirtualMachine) -> None:
    """Delete this very VM. Raises NotFoundError, ConflictError where another has its name now."""
    meta = vm.metadata
    await client.delete(VIRTUAL_MACHINES, meta.name, meta.namespace, uid=meta.uid)
