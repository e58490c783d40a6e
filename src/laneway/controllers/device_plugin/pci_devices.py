"""The publisher of PCIDevices, which also tells under which name pods request each.

A name depends on what the function is, what its claim says, and what vGPU it carries. What a scan
shows of hundreds of functions is therefore remembered without it, and the name is worked out when
an object is looked at: when its function, its vGPU, its claim or itself has changed.
"""

from __future__ import annotations

from laneway.api import PCIDevice, PCIDeviceClaim, PCIDeviceStatus, Status
from laneway.controllers.device_plugin.desired import claimed, is_of
from laneway.controllers.devices import pci
from laneway.controllers.devices.family import Family
from laneway.controllers.metrics import AgentMetrics
from laneway.controllers.publisher import Publisher
from laneway.core import keys, names
from laneway.core.device_plugin.device_list import named
from laneway.core.device_plugin.resources import Named, annotation_of, resource_of
from laneway.core.inventory import Inventory, VgpuFunction
from laneway.core.pci import PciFunction
from laneway.core.refusals import ResourceNameInvalid
from laneway.kube.client import Client
from laneway.kube.controller import Retry
from laneway.kube.informer import Informer


class PciPublisher(Publisher[PCIDevice]):
    """Publishes the functions of one node. `claims` are those of all nodes."""

    def __init__(
        self,
        node: str,
        client: Client,
        informer: Informer[PCIDevice],
        metrics: AgentMetrics,
        *,
        claims: Informer[PCIDeviceClaim],
    ) -> None:
        family = Family(PCIDevice, pci.wanted, self._status, self._keep)
        super().__init__(family, node, client, informer, metrics)
        self._claims = claims
        self._functions: dict[str, PciFunction] = {}
        self._vgpus: dict[str, VgpuFunction] = {}

    def observed(self, inventory: Inventory) -> None:
        before = self._vgpus
        self._functions = {
            names.pci_object_name(self.node, one.address): one for one in inventory.functions
        }
        self._vgpus = {
            names.pci_object_name(self.node, one.address): one for one in inventory.vgpus
        }
        super().observed(inventory)
        for name in before.keys() | self._vgpus.keys():
            if _carried(before.get(name)) != _carried(self._vgpus.get(name)):
                self.queue.add(name)

    async def run(self) -> None:
        self._claims.subscribe(self._claim_changed)
        await super().run()

    def _claim_changed(self, before: PCIDeviceClaim | None, after: PCIDeviceClaim | None) -> None:
        for claim in (before, after):
            if claim is not None and is_of(claim, self.node):
                self.queue.add(claim.metadata.name)

    async def write_labels(self, stored: PCIDevice, wanted: PCIDevice) -> PCIDevice:
        """Set the labels that are wrong, and the annotation that is Harvester's."""
        stored = await super().write_labels(stored, wanted)
        found = self._named(stored)
        if found is None:
            return stored
        text = annotation_of(*found)
        if text == stored.metadata.annotations.get(keys.ANNOTATION_RESOURCE_NAME, ""):
            return stored
        patch = {"metadata": {"annotations": {keys.ANNOTATION_RESOURCE_NAME: text or None}}}
        patched = await self.client.patch(self.resource, stored.metadata.name, patch)
        self._wrote("patch", patched)
        return patched

    async def report(self, stored: PCIDevice) -> Retry | None:
        gone = stored.metadata.name not in self.wanted
        if gone and not pci.keep(stored, self.inventory):
            await self.write_status(stored, pci.missing(stored))
            return None
        return await super().report(stored)

    def _keep(self, stored: PCIDevice, inventory: Inventory) -> bool:
        """A claim outlives its device, and would go with the object that owns it."""
        claim = self._claims.store.get(stored.metadata.name)
        ours = claim is not None and is_of(claim, self.node)
        return ours or pci.keep(stored, inventory)

    def _status(self, stored: PCIDevice, wanted: PCIDevice) -> Status:
        observed: PCIDeviceStatus = wanted.status
        found = self._named(stored)
        if found is None:
            return observed
        function, facts = found
        resource = resource_of(function, facts)
        if isinstance(resource, ResourceNameInvalid) and facts.claimed_as:
            return observed  # The claim's status says it.
        return pci.called(observed, resource)

    def _named(self, stored: PCIDevice) -> tuple[PciFunction, Named] | None:
        name = stored.metadata.name
        function = self._functions.get(name)
        if function is None:
            return None
        claim = self._claims.store.get(name)
        ours = claimed(claim) if claim is not None and is_of(claim, self.node) else None
        annotation = stored.metadata.annotations.get(keys.ANNOTATION_RESOURCE_NAME, "")
        return function, named(function, self._vgpus.get(name), self.node, annotation, ours)


def _carried(vgpu: VgpuFunction | None) -> str | None:
    return vgpu.configured.type_name if vgpu and vgpu.configured else None
