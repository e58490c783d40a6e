"""The publisher of PCIDevices, which also tells under which name pods request each.

A name depends on what the function is, what its claim says, and what vGPU it carries. What a scan
shows of hundreds of functions is therefore remembered without it, and the name is worked out when
an object is looked at: when its function, its vGPU, its claim or itself has changed.
"""

from __future__ import annotations

from collections.abc import Mapping

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
from laneway.core.passthrough.judged_again import judged_again
from laneway.core.pci import PciAddress, PciFunction
from laneway.core.refusals import ResourceNameInvalid
from laneway.kube.client import Client
from laneway.kube.controller import Retry
from laneway.kube.informer import Informer


class PciPublisher(Publisher[PCIDevice]):
    """Publishes the functions of one node. `claims` may have those of others as well."""

    def __init__(
        self,
        node: str,
        client: Client,
        informer: Informer[PCIDevice],
        metrics: AgentMetrics,
        *,
        claims: Informer[PCIDeviceClaim],
    ) -> None:
        family = Family(PCIDevice, self._wanted, self._status, self._keep)
        super().__init__(family, node, client, informer, metrics)
        self._claims = claims
        self._again: frozenset[PciAddress] = frozenset()
        """What the last inventory shows otherwise than the one before."""
        self._functions: Mapping[PciAddress, PciFunction] = {}
        self._vgpus: Mapping[PciAddress, VgpuFunction] = {}

    def observed(self, inventory: Inventory) -> None:
        before = self._vgpus
        changed = self._again = judged_again(self.inventory, inventory)
        if changed:
            self._functions, self._vgpus = inventory.by_address(), inventory.carriers()
        super().observed(inventory)
        for address in changed:
            if _carried(before.get(address)) != _carried(self._vgpus.get(address)):
                self.queue.add(names.pci_object_name(self.node, address))

    def _wanted(self, inventory: Inventory, node: str) -> Mapping[str, PCIDevice]:
        """The objects as they were, but for the functions that an inventory shows otherwise."""
        if not self._again:
            return self.wanted
        again = {names.pci_object_name(node, address) for address in self._again}
        kept = {name: one for name, one in self.wanted.items() if name not in again}
        return {**kept, **pci.wanted(inventory, node, self._again)}

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
        wanted = self.wanted.get(name)
        address = PciAddress.parse(wanted.status.address) if wanted is not None else None
        function = self._functions.get(address) if address is not None else None
        if address is None or function is None:
            return None
        claim = self._claims.store.get(name)
        ours = claimed(claim) if claim is not None and is_of(claim, self.node) else None
        annotation = stored.metadata.annotations.get(keys.ANNOTATION_RESOURCE_NAME, "")
        return function, named(function, self._vgpus.get(address), self.node, annotation, ours)


def _carried(vgpu: VgpuFunction | None) -> str | None:
    return vgpu.configured.type_name if vgpu and vgpu.configured else None
