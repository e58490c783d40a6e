"""Keeps the record on every VM of the devices that it has.

The agents report the holder of each device on their objects, as the kubelet says it. Gathering that
by VM is all that is done here: one annotation is patched, nothing else of the VM is ever
touched, and no guest is looked into.

- Of a VM that runs, the record is what it has on its node. Until the agents have reported
  everything, it stays as it is, and so it does while they take back one device after the other.
- One that runs and requests no device has no record.
- Of one that is stopped the record is its reservation. When its devices are edited then, what it no
  longer requests is taken off, and a device that it now requests by name is added.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from laneway.api import PCIDeviceClaim, USBDeviceClaim
from laneway.controllers.cluster.caches import VM, Caches, Vgpu, vms_of
from laneway.controllers.cluster.leading import Leading
from laneway.controllers.cluster.metrics import ManagerMetrics
from laneway.core import allocation, keys
from laneway.core.allocation import Held, Part, Request
from laneway.kube.client import Client
from laneway.kube.controller import Retry
from laneway.kube.errors import ConflictError, NotFoundError
from laneway.kube.kubevirt import (
    VIRTUAL_MACHINES,
    Devices,
    VirtualMachine,
    VirtualMachineInstance,
)
from laneway.kube.resource import Key, key_of

log = logging.getLogger(__name__)

CONFLICT_SECONDS = 0.1
"""How soon to look again at a VM that has changed: the cache shows it then."""
_RUNNING = "Running"


class Allocating(Leading[Key]):
    """The one writer of the annotation."""

    def __init__(self, client: Client, caches: Caches, metrics: ManagerMetrics) -> None:
        super().__init__()
        self._client = client
        self._caches = caches
        self._metrics = metrics
        self._devices = caches.claims, caches.vgpus, caches.usb_claims
        self.needs = (caches.vms, caches.instances, *self._devices)
        caches.vms.subscribe(self._vm_changed)
        caches.instances.subscribe(self._vm_changed)
        for informer in self._devices:
            informer.subscribe(self._device_changed)

    def everything(self) -> Iterable[Key]:
        return self._caches.vms.store.keys()

    def _vm_changed(
        self,
        before: VirtualMachine | VirtualMachineInstance | None,
        after: VirtualMachine | VirtualMachineInstance | None,
    ) -> None:
        self.ask({key_of(one) for one in (before, after) if one is not None})

    def _device_changed(self, before: Any, after: Any) -> None:
        self.ask({key for one in (before, after) if one is not None for key in vms_of(one)})

    async def reconcile(self, key: Key) -> Retry | None:
        """Bring the record of one VM up to date."""
        vm = self._caches.vms.store.get(key.name, key.namespace)
        if vm is None or vm.metadata.deletion_timestamp:
            return None
        stored = vm.metadata.annotations.get(keys.ANNOTATION_ALLOCATION)
        try:
            before: list[Held] | None = allocation.devices_of(stored or "")
        except ValueError:
            before = None  # It was spoilt by hand: the next that is known takes its place.
        after = self._wanted(key, vm, before)
        if after is None or (after == before and (after or stored is None)):
            return None
        text = allocation.text_of(after)
        body = {
            "metadata": {
                # What the VM requests may be changing at this moment.
                "resourceVersion": vm.metadata.resource_version,
                "annotations": {keys.ANNOTATION_ALLOCATION: text or None},
            }
        }
        try:
            await self._client.patch(VIRTUAL_MACHINES, key.name, body, key.namespace)
        except NotFoundError:
            return None
        except ConflictError:
            self._metrics.conflict(VIRTUAL_MACHINES.kind)
            return Retry(CONFLICT_SECONDS)
        self._metrics.wrote("patch", VIRTUAL_MACHINES.kind)
        log.info("virtual machine %s: devices %s", key, text or "none")
        return None

    def _wanted(self, key: Key, vm: VirtualMachine, before: list[Held] | None) -> list[Held] | None:
        """What the record should say; None when nothing newer is known."""
        instance = self._caches.instances.store.get(key.name, key.namespace)
        if instance is not None:
            requests = _requests(instance.spec.domain.devices)
            if held := self.held(key, instance.status.node_name):
                return None if _partly_reported(held, before or (), requests) else held
            return [] if not requests and instance.status.phase == _RUNNING else None
        if before is None:
            return None
        requests = _requests(vm.spec.template.spec.domain.devices)
        return allocation.still_requested({*before, *self._named(key, requests)}, requests)

    def _named(self, key: Key, requests: Iterable[Request]) -> Iterator[Held]:
        """The devices that a VM requests by their names and that no other VM has."""
        for request in requests:
            for informer in self._devices:
                obj = informer.store.get(request.name)
                if (
                    obj is not None
                    and obj.status.resource_name == request.resource
                    and vms_of(obj) in ([], [key])
                ):
                    yield _held(obj)
                    break

    def held(self, key: Key, node: str) -> list[Held]:
        """The devices of one VM, as the agents tell.

        One that is on a node has devices of that node only: what the agent of a dead
        node has said stays.
        """
        devices = [obj for informer in self._devices for obj in informer.store.by(VM, key)]
        return sorted(
            {
                _held(obj)
                for obj in devices
                if obj.status.resource_name and (not node or _node(obj) in ("", node))
            }
        )


def _partly_reported(
    held: Collection[Held], before: Collection[Held], requests: Iterable[Request]
) -> bool:
    """Whether a shorter record would only say that the agents have not reported everything.

    Devices are allocated and released one after the other, while the instance is there.
    """
    if not set(held) < set(before):
        return False
    has, had = (Counter(device.resource for device in devices) for devices in (held, before))
    asked = Counter(request.resource for request in requests)
    return any(has[resource] < min(count, asked[resource]) for resource, count in had.items())


def _node(obj: PCIDeviceClaim | USBDeviceClaim | Vgpu) -> str:
    """Where the device is; empty if not known."""
    return obj.status.node_name if isinstance(obj, USBDeviceClaim) else obj.spec.node_name


def _held(obj: PCIDeviceClaim | USBDeviceClaim | Vgpu) -> Held:
    mediated = isinstance(obj, Vgpu) and obj.status.framework == "mdev"
    part = Part.GPUS if mediated else Part.HOST_DEVICES
    return Held(part, obj.status.resource_name, obj.metadata.name)


def _requests(devices: Devices) -> list[Request]:
    """What is requested by the name of a resource."""
    asked = (*devices.host_devices, *devices.gpus)
    return [Request(one.name, one.device_name) for one in asked if one.device_name]
