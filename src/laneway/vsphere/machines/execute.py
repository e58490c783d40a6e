"""Carries out one step: the only place that orders changes from a vCenter.

An order gives its task. Whether it was taken, when its answer was lost, the next look tells.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from laneway.core.vsphere.provisioning.mmio import extra_config, gpu_memory_gib
from laneway.core.vsphere.provisioning.steps import (
    CloneTemplate,
    Destroy,
    JoinVmGroup,
    PowerOff,
    PowerOn,
    Reconfigure,
    Relocate,
    SetGuestMetadata,
    Step,
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
from laneway.vsphere.machines.observe import Observed, is_linked
from laneway.vsphere.port import Clone, NotFoundInVCenterError, Reconfiguration, VCenter


class NoTaskError(Exception):
    """The step orders nothing."""


async def order(
    step: Step,
    observed: Observed,
    vm: VSphereVM,
    vcenter: VCenter,
    *,
    client: Client,
    spec: Mapping[str, Any],
) -> str:
    """Order it; the task. Raises VCenterError, KubeError, UnusableDataError.

    `spec` is all that the object says, as far as the step is about it.
    """
    if isinstance(step, CloneTemplate):
        return await vcenter.clone(await _clone(step, observed, vm, client, spec))
    if observed.state is None:
        raise NoTaskError
    ref = observed.state.ref
    match step:
        case Relocate(host):
            return await vcenter.relocate(ref, host)
        case Upgrade(version):
            return await vcenter.upgrade(ref, version)
        case Reconfigure():
            return await vcenter.reconfigure(ref, _reconfiguration(step, observed, vm))
        case SetGuestMetadata():
            extra = metadata(vm.metadata.name, _cards(spec), observed.state.macs)
            return await vcenter.reconfigure(ref, Reconfiguration(extra=extra))
        case JoinVmGroup():
            cluster = (
                observed.host.cluster_ref if observed.host is not None else observed.place.cluster
            )
            return await vcenter.join_group(ref, cluster, observed.desired.group)
        case PowerOn():
            return await vcenter.power_on(ref)
        case PowerOff():
            return await vcenter.power_off(ref)
        case Destroy():
            return await vcenter.destroy(ref)
        case _:
            raise NoTaskError


async def await_clone(vm: VSphereVM, observed: Observed, vcenter: VCenter, seconds: float) -> bool:
    """Wait for a clone that may be under way; False: it still may be. Raises VCenterError."""
    try:
        tasks = set(await vcenter.at_work(vm.spec.template, observed.place))
        made = await vcenter.named(vm.metadata.name, observed.place)
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
    step: CloneTemplate, observed: Observed, vm: VSphereVM, client: Client, whole: Mapping[str, Any]
) -> Clone:
    spec = vm.spec
    devices = _cards(whole)
    cpu, memory = resource_allocations(whole.get("resources"))
    if observed.requested.devices:
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
        place=msgspec.structs.replace(observed.place, host=step.host),
        instance_uuid=vm.metadata.uid,
        cpus=spec.cpus,
        cores_per_socket=spec.num_cores_per_socket,
        memory_mib=spec.memory,
        disk_gib=spec.disk_gib,
        additional_disks_gib=tuple(whole.get("additionalDisksGiB") or ()),
        linked=is_linked(vm),
        snapshot=spec.snapshot,
        lock_memory=bool(observed.requested.devices),
        extra=_settings(observed, vm) | extra,
        networks=tuple(one.network_name for one in spec.network.devices),
        macs=tuple(one.get("macAddr") or "" for one in devices),
        nested=spec.nested_hv,
        cpu=cpu,
        memory=memory,
    )


def _cards(spec: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return (spec.get("network") or {}).get("devices") or []


def _reconfiguration(step: Reconfigure, observed: Observed, vm: VSphereVM) -> Reconfiguration:
    groups = (
        {one.name: one for one in observed.host.device_groups} if observed.host is not None else {}
    )
    there = observed.state.devices if observed.state is not None else ()
    wants = bool(observed.requested.devices)
    return Reconfiguration(
        add=additions(step.add, groups, there),
        remove=step.remove,
        extra=_settings(observed, vm) if wants else {},
        lock_memory=True if wants or there else None,
        cpu_hot_add=False if wants else None,
    )


def _settings(observed: Observed, vm: VSphereVM) -> dict[str, str]:
    """What the user says, and what the devices need where the user says nothing."""
    custom = vm.spec.custom_vmx_keys
    return {**extra_config(_memories(observed), observed.requested, custom), **custom}


def _memories(observed: Observed) -> Sequence[int]:
    """Memory in GiB of the whole cards that a machine may have, as far as it is known.

    vCenter may take another device than the reserved one, and the reservation may change hosts:
    what is requested counts as the largest card that it allows.
    """
    cards = {device.id: device.ids for device in observed.host.devices} if observed.host else {}
    found: list[int] = []
    for allocation in observed.reservation.allocations if observed.reservation is not None else ():
        sizes = [gpu_memory_gib(cards[device]) for device in allocation.devices if device in cards]
        if isinstance(allocation.request, PassthroughRequest):
            sizes = [max([*sizes, *map(gpu_memory_gib, allocation.request.allowed)], default=0)]
        found += sizes
    return found
