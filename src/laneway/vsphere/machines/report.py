"""Writes what a turn has come to into the objects: status, conditions, devices, events.

Nothing is written that is there already, and all that a status says is one request. The uid that
vCenter gave the VM is kept in the spec, as CAPV keeps it: by it the VM is found again, and by its
absence that it was deleted.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec

from laneway.api import Condition, find_condition, timestamp
from laneway.core.vsphere.provisioning.steps import PowerOn, Ready, Reconfigure, Step
from laneway.kube.capv import VSPHERE_VMS, VmStatus, VSphereVM
from laneway.vsphere.fleet.device_status import DevicesStatus, fault_words
from laneway.vsphere.machines.changes import generation_of
from laneway.vsphere.machines.conditions import (
    DEVICES,
    PROVISIONED,
    Fact,
    conditions,
)
from laneway.vsphere.machines.context import Context
from laneway.vsphere.machines.faults import is_of_host, reason_of
from laneway.vsphere.machines.observe import Observed, ref_text
from laneway.vsphere.machines.rejection import Rejection
from laneway.vsphere.machines.retry_state import FOREVER, RetryState
from laneway.vsphere.machines.vm_conditions import Outcome, facts
from laneway.vsphere.status import as_json

_ABOUT_DEVICES = {Reconfigure.__name__, PowerOn.__name__}
_TOLD = (DEVICES, PROVISIONED)
"""Changes of these are events."""


class Report:
    """Of one turn."""

    def __init__(self, context: Context, retries: RetryState) -> None:
        self._context = context
        self._retries = retries

    async def tell(
        self,
        vm: VSphereVM,
        step: Step | None,
        observed: Observed,
        *,
        task: str,
        cloning: bool,
        against: Rejection | None = None,
    ) -> VSphereVM:
        """Say what was decided; the object as it is then."""
        retries = self._retries
        state = observed.state
        fault = retries.fault
        devices_status = await self._standing(vm, observed)
        found = facts(
            Outcome(
                step=step,
                devices_status=devices_status,
                problems=observed.problems,
                rejection=against,
                fault=fault,
                refused=self._refused(observed),
                deleted=observed.desired.deleted,
                power_off=observed.desired.power_off,
                going_on=retries.ordering,
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
        vm = await self._write(vm, found, status, devices)
        if state is not None and not vm.spec.bios_uuid and not observed.desired.deleted:
            vm = await self._keep_uuid(vm, state.bios_uuid)
        return vm

    async def _keep_uuid(self, vm: VSphereVM, uuid: str) -> VSphereVM:
        """That this makes another generation is no news. Raises ConflictError."""
        meta, retries = vm.metadata, self._retries
        same = retries.generation == generation_of(vm)
        body = {
            "metadata": {"resourceVersion": meta.resource_version},
            "spec": {"biosUUID": uuid},
        }
        vm = await self._context.client.patch(VSPHERE_VMS, meta.name, body, meta.namespace)
        if same:
            retries.generation = generation_of(vm)
        self._context.latest.wrote(vm)
        return vm

    async def unreachable(self, vm: VSphereVM, task: str, why: str) -> None:
        """Say that vCenter cannot be asked; what else was said of devices and task still holds."""
        deleted = vm.metadata.deletion_timestamp is not None
        found = [
            one
            for one in facts(Outcome(step=None, unreachable=why, deleted=deleted))
            if one.type != PROVISIONED
        ]
        kept = [
            Fact(one.type, one.status == "True", one.reason, one.message)
            for one in vm.status.conditions
            if one.type not in {fact.type for fact in found}
        ]
        status = {
            "vmRef": vm.status.vm_ref,
            "taskRef": task,
            "host": vm.status.host,
            "addresses": list(vm.status.addresses),
            "ready": vm.status.ready,
            "retryAfter": vm.status.retry_after,
        }
        await self._write(vm, [*found, *kept], status)

    async def _standing(self, vm: VSphereVM, observed: Observed) -> DevicesStatus | None:
        retries = self._retries
        if not observed.requested.devices or observed.desired.deleted or observed.problems:
            return None
        if observed.state is None and observed.reservation is None and retries.refusal is None:
            return None
        fault = retries.fault if retries.ordering in _ABOUT_DEVICES else None
        return await self._context.reservations.tell(
            vm,
            observed.requested,
            observed.state,
            refusal=retries.refusal,
            fault=fault if retries.refusal is None else None,
        )

    def _refused(self, observed: Observed) -> tuple[str, str] | None:
        """Why a machine that is off cannot be switched on with the devices that it has."""
        retries = self._retries
        if observed.state is not None and observed.state.on:
            return None
        if retries.refusal is not None:
            return retries.refusal.reason, retries.refusal.words
        fault = retries.fault
        if fault is None or retries.ordering != PowerOn.__name__ or not is_of_host(fault):
            return None
        return reason_of(fault), fault_words(fault)

    def _retry_after(self) -> str:
        """When the next attempt is due, for people and for the next leader."""
        retries = self._retries
        left = retries.due - time.monotonic()
        if left <= 0 or retries.due == FOREVER:
            return ""
        if retries.shown[0] != retries.due:
            retries.shown = retries.due, timestamp(self._context.clock() + timedelta(seconds=left))
        return retries.shown[1]

    async def _write(
        self,
        vm: VSphereVM,
        found: Sequence[Fact],
        status: dict[str, Any],
        devices: Sequence[Any] | None = None,
    ) -> VSphereVM:
        """`devices`: how each stands; None: what was said of them still holds."""
        now, retries = timestamp(self._context.clock()), self._retries
        new = conditions(vm.status.conditions, found, vm.metadata.generation, now)
        there = list(vm.status.pci_devices)
        if devices is None:
            devices = there
        if _same(vm.status, status, new) and devices in (there, retries.devices):
            return vm
        written = await self._context.statuses.apply(
            VSPHERE_VMS, vm, {**status, "conditions": as_json(new)}, devices
        )
        self._context.latest.wrote(written)
        retries.devices = devices
        for one in new:
            before = find_condition(vm.status.conditions, one.type)
            changed = before is None or (before.status, before.reason) != (one.status, one.reason)
            if one.type in _TOLD and changed:
                self.event(vm, one.reason, one.message, warning=self._is_bad(one))
        return written

    def _is_bad(self, one: Condition) -> bool:
        trouble = self._retries.fault is not None or self._retries.refusal is not None
        return one.status == "False" and (trouble or one.reason in _BAD)

    def event(self, vm: VSphereVM, reason: str, message: str, *, warning: bool) -> None:
        """Say it as an event, too."""
        self._context.recorder.record(
            VSPHERE_VMS.ref(vm), reason, message or reason, warning=warning
        )


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
