"""Writes what a turn has come to into the objects: status, conditions, devices, events.

Nothing is written that is there already, and all that a status says is one request. The uid that
vCenter gave the VM is kept in the spec, as CAPV keeps it: by it the VM is found again, and by its
absence that somebody has deleted it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec

from laneway.api import Condition, find_condition, timestamp
from laneway.core.vsphere.provisioning.steps import Configure, Ready, Step, SwitchOn
from laneway.kube.capv import VSPHERE_VMS, VmStatus, VSphereVM
from laneway.vsphere.fleet.device_status import DevicesStatus, fault_words
from laneway.vsphere.machines.changes import generation_of
from laneway.vsphere.machines.conditions import (
    DEVICES,
    PROVISIONED,
    Fact,
    conditions,
)
from laneway.vsphere.machines.context import Means
from laneway.vsphere.machines.faults import is_of_host, reason_of
from laneway.vsphere.machines.observe import Scene, ref_text
from laneway.vsphere.machines.rejection import Objection
from laneway.vsphere.machines.retry_state import FOREVER, Memory
from laneway.vsphere.machines.vm_conditions import Judgement, facts
from laneway.vsphere.status import as_json

_ABOUT_DEVICES = {Configure.__name__, SwitchOn.__name__}
_TOLD = (DEVICES, PROVISIONED)
"""Changes of these are events."""


class Report:
    """Of one turn."""

    def __init__(self, means: Means, memory: Memory) -> None:
        self._means = means
        self._memory = memory

    async def tell(
        self,
        vm: VSphereVM,
        step: Step | None,
        scene: Scene,
        *,
        task: str,
        cloning: bool,
        against: Objection | None = None,
    ) -> VSphereVM:
        """Say what was decided; the object as it is then."""
        memory = self._memory
        state = scene.state
        fault = memory.fault
        devices_status = await self._standing(vm, scene)
        told = facts(
            Judgement(
                step=step,
                devices_status=devices_status,
                problems=scene.problems,
                objection=against,
                fault=fault,
                refused=self._refused(scene),
                deleted=scene.wish.deleted,
                power_off=scene.wish.power_off,
                going_on=memory.ordering,
                cloning=cloning,
            )
        )
        status: dict[str, Any] = {
            "ready": isinstance(step, Ready),
            "vmRef": ref_text(state.ref) if state is not None else vm.status.vm_ref,
            "taskRef": task,
            "host": state.host_name if state is not None else "",
            "addresses": list(state.addresses) if state is not None else [],
            "retryAfter": self._retry_after(),
        }
        devices = (
            msgspec.to_builtins(list(devices_status.devices))
            if devices_status is not None
            else None
        )
        vm = await self._write(vm, told, status, devices)
        if state is not None and not vm.spec.bios_uuid and not scene.wish.deleted:
            vm = await self._keep_uuid(vm, state.bios_uuid)
        return vm

    async def _keep_uuid(self, vm: VSphereVM, uuid: str) -> VSphereVM:
        """That this makes another generation is no news. Raises ConflictError."""
        meta, memory = vm.metadata, self._memory
        same = memory.wished == generation_of(vm)
        body = {
            "metadata": {"resourceVersion": meta.resource_version},
            "spec": {"biosUUID": uuid},
        }
        vm = await self._means.client.patch(VSPHERE_VMS, meta.name, body, meta.namespace)
        if same:
            memory.wished = generation_of(vm)
        self._means.newest.wrote(vm)
        return vm

    async def unreachable(self, vm: VSphereVM, task: str, why: str) -> None:
        """Say that vCenter cannot be asked; what else was said of devices and task still holds."""
        deleted = vm.metadata.deletion_timestamp is not None
        told = [
            one
            for one in facts(Judgement(step=None, unreachable=why, deleted=deleted))
            if one.type != PROVISIONED
        ]
        kept = [
            Fact(one.type, one.status == "True", one.reason, one.message)
            for one in vm.status.conditions
            if one.type not in {fact.type for fact in told}
        ]
        status = {
            "vmRef": vm.status.vm_ref,
            "taskRef": task,
            "host": vm.status.host,
            "addresses": list(vm.status.addresses),
            "ready": vm.status.ready,
            "retryAfter": vm.status.retry_after,
        }
        await self._write(vm, [*told, *kept], status)

    async def _standing(self, vm: VSphereVM, scene: Scene) -> DevicesStatus | None:
        memory = self._memory
        if not scene.requested.devices or scene.wish.deleted or scene.problems:
            return None
        if scene.state is None and scene.reservation is None and memory.refusal is None:
            return None
        fault = memory.fault if memory.ordering in _ABOUT_DEVICES else None
        return await self._means.reservations.tell(
            vm,
            scene.requested,
            scene.state,
            refusal=memory.refusal,
            fault=fault if memory.refusal is None else None,
        )

    def _refused(self, scene: Scene) -> tuple[str, str] | None:
        """Why a machine that is off cannot be switched on with the devices that it has."""
        memory = self._memory
        if scene.state is not None and scene.state.on:
            return None
        if memory.refusal is not None:
            return memory.refusal.reason, memory.refusal.words
        fault = memory.fault
        if fault is None or memory.ordering != SwitchOn.__name__ or not is_of_host(fault):
            return None
        return reason_of(fault), fault_words(fault)

    def _retry_after(self) -> str:
        """When the next attempt is due, for people and for whoever leads next."""
        memory = self._memory
        left = memory.due - time.monotonic()
        if left <= 0 or memory.due == FOREVER:
            return ""
        if memory.shown[0] != memory.due:
            memory.shown = memory.due, timestamp(self._means.clock() + timedelta(seconds=left))
        return memory.shown[1]

    async def _write(
        self,
        vm: VSphereVM,
        told: Sequence[Fact],
        status: dict[str, Any],
        devices: Sequence[Any] | None = None,
    ) -> VSphereVM:
        """`devices`: how each stands; None: what was said of them still holds."""
        now, memory = timestamp(self._means.clock()), self._memory
        new = conditions(vm.status.conditions, told, vm.metadata.generation, now)
        there = list(vm.status.pci_devices)
        if devices is None:
            devices = there
        if _same(vm.status, status, new) and devices in (there, memory.told):
            return vm
        written = await self._means.statuses.apply(
            VSPHERE_VMS, vm, {**status, "conditions": as_json(new)}, devices
        )
        self._means.newest.wrote(written)
        memory.told = devices
        for one in new:
            before = find_condition(vm.status.conditions, one.type)
            changed = before is None or (before.status, before.reason) != (one.status, one.reason)
            if one.type in _TOLD and changed:
                self.event(vm, one.reason, one.message, warning=self._is_bad(one))
        return written

    def _is_bad(self, one: Condition) -> bool:
        trouble = self._memory.fault is not None or self._memory.refusal is not None
        return one.status == "False" and (trouble or one.reason in _BAD)

    def event(self, vm: VSphereVM, reason: str, message: str, *, warning: bool) -> None:
        """Say it as an event, too."""
        self._means.recorder.record(VSPHERE_VMS.ref(vm), reason, message or reason, warning=warning)


_BAD = {
    "FieldNotSupported",
    "InvalidPCIDevices",
    "InvalidSpec",
    "NotFoundByBIOSUUID",
    "PCIDevicesMissing",
}


def _same(before: VmStatus, status: dict[str, Any], new: Sequence[Condition]) -> bool:
    """Whether nothing would change."""
    there = {
        "ready": before.ready,
        "vmRef": before.vm_ref,
        "taskRef": before.task_ref,
        "host": before.host,
        "addresses": list(before.addresses),
        "retryAfter": before.retry_after,
    }
    return there == status and sorted(before.conditions, key=_type) == sorted(new, key=_type)


def _type(one: Condition) -> str:
    return one.type
