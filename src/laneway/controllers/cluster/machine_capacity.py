"""Has MachineDeployments and MachineSets say what a machine of CAPK's will have.

The cluster autoscaler reads these annotations to make the first machine of a set that has none
(`core.machine_pools.capacity`). A MachineSet of a MachineDeployment gets them from that one. Where
a template is not there, nothing is changed.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from functools import partial
from typing import NamedTuple, TypeAlias

import msgspec

from laneway.api import ObjectMeta, PCIDevice
from laneway.controllers.cluster.leading import Leading
from laneway.controllers.cluster.metrics import ManagerMetrics
from laneway.controllers.machine_pools.capacity import of_template
from laneway.core.gpu.vendors import Vendor, vendor_of
from laneway.core.machine_pools.capacity import changed
from laneway.kube.capk import GROUP, KUBEVIRT_TEMPLATES, TEMPLATE, KubevirtMachineTemplate
from laneway.kube.client import Client
from laneway.kube.clusterapi import MACHINE_DEPLOYMENTS, MACHINE_SETS, MachineDeployment, MachineSet
from laneway.kube.controller import Retry
from laneway.kube.errors import ConflictError, NotFoundError
from laneway.kube.informer import Informer
from laneway.kube.resource import KubeObject, Resource, served

SOON_SECONDS = 2.0
"""How soon all are looked at after news of devices, which come in swarms."""
_RETRY_SECONDS = 1.0
_RESOURCE = "resource"
"""Index of devices by the resource that they go by."""
_Set: TypeAlias = MachineDeployment | MachineSet
_KINDS: dict[str, Resource[MachineDeployment] | Resource[MachineSet]] = {
    one.plural: one for one in (MACHINE_DEPLOYMENTS, MACHINE_SETS)
}


class Target(NamedTuple):
    """A set."""

    plural: str
    namespace: str
    name: str


class _DeviceStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """What a device is."""

    vendor_id: str = ""
    class_id: str = ""
    resource_name: str = ""


class Device(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """A PCIDevice; a cluster has thousands, and what they are matters alone."""

    metadata: ObjectMeta = ObjectMeta()
    status: _DeviceStatus = _DeviceStatus()


_PCI = served(PCIDevice)
_DEVICES = Resource(_PCI.group, _PCI.version, _PCI.plural, _PCI.namespaced, Device, _PCI.kind)


class MachineCapacity(Leading[Target]):
    """All sets of CAPK's machines."""

    def __init__(self, client: Client, metrics: ManagerMetrics) -> None:
        super().__init__()
        self._client = client
        self._metrics = metrics
        self._templates = Informer(client, KUBEVIRT_TEMPLATES)
        self._devices = Informer(client, _DEVICES, indexers={_RESOURCE: _resource})
        self._sets: dict[str, Informer[_Set]] = {
            plural: Informer(client, resource) for plural, resource in _KINDS.items()
        }
        self.needs = (self._templates, self._devices, *self._sets.values())
        self._templates.subscribe(lambda old, new: self._template_changed(new or old))
        self._devices.subscribe(self._device_changed)
        for plural, informer in self._sets.items():
            informer.subscribe(partial(self._set_changed, plural))

    @property
    def informers(self) -> tuple[Informer[KubeObject], ...]:
        """The caches, which their owner runs."""
        return self.needs

    def everything(self) -> Iterable[Target]:
        for plural, informer in self._sets.items():
            for one in informer.store:
                yield from _targets(plural, one)

    def _set_changed(self, plural: str, _: _Set | None, new: _Set | None) -> None:
        self.ask(_targets(plural, new))

    def _template_changed(self, template: KubevirtMachineTemplate | None) -> None:
        if template is not None:
            meta = template.metadata
            self.ask(one for one in self.everything() if one.namespace == meta.namespace)

    def _device_changed(self, old: Device | None, new: Device | None) -> None:
        before, after = (None if one is None else one.status for one in (old, new))
        if self.leading and before != after:
            for target in self.everything():
                self.queue.add_after(target, SOON_SECONDS)

    async def reconcile(self, key: Target) -> Retry | None:
        """Have the annotations of one set say what is known."""
        found = self._sets[key.plural].store.get(key.name, key.namespace)
        if found is None or found.metadata.deletion_timestamp:
            return None
        meta = found.metadata
        wanted = self._wanted(found)
        changes = {} if wanted is None else changed(meta.annotations, wanted)
        if not changes:
            return None
        body = {"metadata": {"annotations": changes, "resourceVersion": meta.resource_version}}
        try:
            await self._client.patch(_KINDS[key.plural], key.name, body, key.namespace)
        except NotFoundError:
            return None
        except ConflictError:
            return Retry(_RETRY_SECONDS)
        self._metrics.wrote("patch", type(found).__name__)
        return None

    def _wanted(self, found: _Set) -> dict[str, str] | None:
        """The values; None while they are not known."""
        ref = found.spec.template.spec.infrastructure_ref
        if (ref.kind, ref.api_group) != (TEMPLATE, GROUP):
            return {}
        template = self._templates.store.get(ref.name, found.metadata.namespace)
        return None if template is None else of_template(template, self._vendors)

    def _vendors(self, resource: str) -> Iterator[Vendor | None]:
        for one in self._devices.store.by(_RESOURCE, resource):
            yield vendor_of(one.status.vendor_id, one.status.class_id)


def _resource(device: Device) -> Iterable[Hashable]:
    return (device.status.resource_name,) if device.status.resource_name else ()


def _targets(plural: str, one: _Set | None) -> Iterator[Target]:
    if one is None or any(ref.controller for ref in one.metadata.owner_references):
        return
    yield Target(plural, one.metadata.namespace, one.metadata.name)
