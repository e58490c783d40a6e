"""Carries out one step: the only place where a vCenter is told to change something.

An order gives its task. Whether it was taken, when its answer was lost, the next look tells.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from laneway.core.vsphere.provisioning.mmio import extra_config, gpu_memory_gib
from laneway.core.vsphere.provisioning.steps import (
    Configure,
    Destroy,
    Introduce,
    Join,
    MakeClone,
    Move,
    Step,
    SwitchOff,
    SwitchOn,
    Upgrade,
)
from laneway.core.vsphere.spec.requests import PassthroughRequest
from laneway.core.vsphere.spec.resources import resource_allocations
from laneway.kube.capv import VSphereVM
from laneway.kube.client import Client
from laneway.kube.errors import ForbiddenError, NotFoundError
from laneway.vsphere.fleet.secrets import REMEDY
from laneway.vsphere.machines.additions import additions
from laneway.vsphere.machines.bootstrap import SECRETS, UnusableDataError, metadata, user_data
from laneway.vsphere.machines.observe import Scene, is_linked
from laneway.vsphere.port import Clone, NotFoundInVCenterError, Reconfiguration, VCenter


class NoTaskError(Exception):
    """The step orders nothing."""


async def order(
    step: Step,
    scene: Scene,
    vm: VSphereVM,
    vcenter: VCenter,
    *,
    client: Client,
    spec: Mapping[str, Any],
) -> str:
    """Order it; the task. Raises VCenterError, KubeError, UnusableDataError.

    `spec` is all that the object says, as far as the step is about it.
    """
    if isinstance(step, MakeClone):
        return await vcenter.clone(await _clone(step, scene, vm, client, spec))
    if scene.state is None:
        raise NoTaskError
    ref = scene.state.ref
    match step:
        case Move(host):
            return await vcenter.relocate(ref, host)
        case Upgrade(version):
            return await vcenter.upgrade(ref, version)
        case Configure():
            return await vcenter.reconfigure(ref, _reconfiguration(step, scene, vm))
        case Introduce():
            told = metadata(vm.metadata.name, _cards(spec), scene.state.macs)
            return await vcenter.reconfigure(ref, Reconfiguration(extra=told))
        case Join():
            cluster = scene.host.cluster_ref if scene.host is not None else scene.place.cluster
            return await vcenter.join_group(ref, cluster, scene.wish.group)
        case SwitchOn():
            return await vcenter.power_on(ref)
        case SwitchOff():
            return await vcenter.power_off(ref)
        case Destroy():
            return await vcenter.destroy(ref)
        case _:
            raise NoTaskError


async def linger(vm: VSphereVM, scene: Scene, vcenter: VCenter, seconds: float) -> bool:
    """Wait for a clone that may be under way; False: it still may be. Raises VCenterError."""
    try:
        tasks = set(await vcenter.at_work(vm.spec.template, scene.place))
        made = await vcenter.named(vm.metadata.name, scene.place)
    except NotFoundInVCenterError:
        return True  # What is not there cannot be cloned, or be cloned to.
    if made is not None and made.instance_uuid in {"", vm.metadata.uid}:
        tasks |= set(made.tasks)
    if not tasks:
        return True
    try:
        async with asyncio.timeout(seconds):
            await asyncio.gather(*(vcenter.finished(task) for task in tasks))
    except TimeoutError:
        return False
    return True


async def _clone(
    step: MakeClone, scene: Scene, vm: VSphereVM, client: Client, whole: Mapping[str, Any]
) -> Clone:
    spec = vm.spec
    devices = _cards(whole)
    cpu, memory = resource_allocations(whole.get("resources"))
    if scene.requested.devices:
        memory = msgspec.structs.replace(memory, reservation=None)  # all of it is reserved anyway
    extra = metadata(vm.metadata.name, devices)
    if name := spec.bootstrap_ref.get("name"):
        try:
            extra |= user_data(await client.get(SECRETS, name, vm.metadata.namespace))
        except NotFoundError:
            raise UnusableDataError(
                f"Secret {name} with the bootstrap data does not exist"
            ) from None
        except ForbiddenError as error:
            raise UnusableDataError(
                f"Secret {name} with the bootstrap data cannot be read: {error}; {REMEDY}"
            ) from None
    return Clone(
        name=vm.metadata.name,
        template=spec.template,
        place=msgspec.structs.replace(scene.place, host=step.host),
        instance_uuid=vm.metadata.uid,
        cpus=spec.cpus,
        cores_per_socket=spec.num_cores_per_socket,
        memory_mib=spec.memory,
        disk_gib=spec.disk_gib,
        additional_disks_gib=tuple(whole.get("additionalDisksGiB") or ()),
        linked=is_linked(vm),
        snapshot=spec.snapshot,
        lock_memory=bool(scene.requested.devices),
        extra=_settings(scene, vm) | extra,
        networks=tuple(one.network_name for one in spec.network.devices),
        macs=tuple(one.get("macAddr") or "" for one in devices),
        nested=spec.nested_hv,
        cpu=cpu,
        memory=memory,
    )


def _cards(spec: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return (spec.get("network") or {}).get("devices") or []


def _reconfiguration(step: Configure, scene: Scene, vm: VSphereVM) -> Reconfiguration:
    groups = {one.name: one for one in scene.host.device_groups} if scene.host is not None else {}
    there = scene.state.devices if scene.state is not None else ()
    wants = bool(scene.requested.devices)
    return Reconfiguration(
        add=additions(step.add, groups, there),
        remove=step.remove,
        extra=_settings(scene, vm) if wants else {},
        lock_memory=True if wants or there else None,
        cpu_hot_add=False if wants else None,
    )


def _settings(scene: Scene, vm: VSphereVM) -> dict[str, str]:
    """What the user says, and what the devices need where the user says nothing."""
    custom = vm.spec.custom_vmx_keys
    return {**extra_config(_memories(scene), scene.requested, custom), **custom}


def _memories(scene: Scene) -> Sequence[int]:
    """Memory in GiB of the whole cards that a machine may have, as far as it is known.

    vCenter may take another device than the promised one, and the promise may move to another host:
    what is asked for counts as the largest card that it allows.
    """
    cards = {device.id: device.ids for device in scene.host.devices} if scene.host else {}
    found: list[int] = []
    for allocation in scene.reservation.allocations if scene.reservation is not None else ():
        sizes = [gpu_memory_gib(cards[device]) for device in allocation.devices if device in cards]
        if isinstance(allocation.request, PassthroughRequest):
            sizes = [max([*sizes, *map(gpu_memory_gib, allocation.request.allowed)], default=0)]
        found += sizes
    return found
