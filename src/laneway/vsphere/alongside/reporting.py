"""`PCIDevicesReady` on a VSphereVM and its VSphereMachine, with an event when it changes.

Written by server-side apply in a name of our own, so that CAPV's conditions stay CAPV's, and only
when it would say something else. So is the list of devices, which CAPV's own definitions drop.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from laneway.api import find_condition, timestamp
from laneway.api.vsphere import DeviceStatus
from laneway.kube.capv import VSPHERE_MACHINES, VSPHERE_VMS, VSphereMachine, VSphereVM
from laneway.kube.client import Client
from laneway.kube.events import EventRecorder
from laneway.kube.resource import Key, KubeObject, Resource, key_of
from laneway.vsphere.fleet.caches import VsphereCaches
from laneway.vsphere.machines.conditions import DEVICES, Fact, conditions
from laneway.vsphere.machines.ownership import owner_name
from laneway.vsphere.status import apply, as_json, show_devices


class Report(NamedTuple):
    """What there is to say of a machine's devices."""

    ready: bool
    reason: str
    message: str
    devices: tuple[DeviceStatus, ...] | None = None
    """None: what was said of each still stands."""


class Reporting:
    """The one writer of the condition alongside CAPV."""

    def __init__(
        self,
        client: Client,
        caches: VsphereCaches,
        recorder: EventRecorder,
        clock: Callable[[], datetime],
    ) -> None:
        self._client = client
        self._caches = caches
        self._recorder = recorder
        self._clock = clock
        self._shown: dict[Key, tuple[str, tuple[DeviceStatus, ...]]] = {}
        """By machine, its uid and what was last said of each device."""

    def forget(self, key: Key) -> None:
        """A machine is gone."""
        self._shown.pop(key, None)

    @staticmethod
    def has_said(vm: VSphereVM) -> bool:
        """Whether anything was ever said of the devices of a machine."""
        return find_condition(vm.status.conditions, DEVICES) is not None

    async def report(self, vm: VSphereVM, now: Report) -> None:
        """Say how it stands. Raises KubeError."""
        fact = Fact(DEVICES, now.ready, now.reason, now.message)
        changed = await self._say(VSPHERE_VMS, vm, fact)
        if changed:
            self._recorder.record(
                VSPHERE_VMS.ref(vm), now.reason, now.message, warning=_is_bad(now)
            )
        shown = (vm.metadata.uid, now.devices)
        if now.devices is not None and self._shown.get(key_of(vm)) != shown:
            await show_devices(self._client, VSPHERE_VMS, vm, now.devices)
            self._shown[key_of(vm)] = vm.metadata.uid, now.devices
        name = owner_name(vm.metadata, "VSphereMachine")
        machine = self._caches.vsphere_machines.store.get(name, vm.metadata.namespace)
        if machine is not None:
            await self._say(VSPHERE_MACHINES, machine, fact)

    async def _say(
        self, resource: Resource[KubeObject], obj: VSphereVM | VSphereMachine, fact: Fact
    ) -> bool:
        """Whether it was something new in one word."""
        before = obj.status.conditions
        old = find_condition(before, DEVICES)
        new = conditions(before, [fact], obj.metadata.generation, timestamp(self._clock()))
        if [old] == new:
            return False
        await apply(self._client, resource, obj, {"conditions": as_json(new)})
        return old is None or old.reason != fact.reason


def _is_bad(report: Report) -> bool:
    return not report.ready and report.reason != "Reserved"
