"""Says of each VSphereMachineTemplate what a machine of it will have.

The cluster autoscaler reads `status.capacity` to make the first machine of a pool that has none.
Only the definitions that Laneway ships have that field; where CAPV's are installed, which have no
status, nothing is said. Kept are quantities of others, such as of disks.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from laneway.controllers.cluster.leading import Leading
from laneway.core.vsphere.inventory.gpu_count import RESOURCE, gpus_of
from laneway.core.vsphere.inventory.hosts import Host
from laneway.core.vsphere.spec import parsing
from laneway.kube.capv import VSPHERE_TEMPLATES, VSphereMachineTemplate
from laneway.kube.client import Client
from laneway.kube.controller import Retry
from laneway.kube.errors import NotFoundError
from laneway.kube.resource import Key, key_of
from laneway.vsphere.fleet.caches import VsphereCaches
from laneway.vsphere.fleet.fleet import Fleet

log = logging.getLogger(__name__)

SOON_SECONDS = 2.0
"""How soon all are looked at after news of an inventory, which come in swarms."""


class Templates(Leading[Key]):
    """All templates."""

    def __init__(self, client: Client, caches: VsphereCaches, fleet: Fleet) -> None:
        super().__init__()
        self._client = client
        self._templates = caches.templates
        self._fleet = fleet
        self.needs = (caches.templates,)
        caches.templates.subscribe(lambda _, new: self.ask([key_of(new)] if new else ()))
        fleet.subscribe(self._hosts_changed)

    def everything(self) -> Iterable[Key]:
        return self._templates.store.keys()

    def _hosts_changed(self, _name: str, _refs: frozenset[str]) -> None:
        if self.leading:
            for key in self.everything():
                self.queue.add_after(key, SOON_SECONDS)

    async def reconcile(self, key: Key) -> Retry | None:
        """Have the status of one say what is known."""
        template = self._templates.store.get(key.name, key.namespace)
        if template is None or template.metadata.deletion_timestamp is not None:
            return None
        desired = capacity(template, self._hosts(template))
        there = template.status.capacity
        changed = {name: value for name, value in desired.items() if there.get(name) != value}
        if changed:
            body = {"status": {"capacity": changed}}
            try:
                await self._client.patch(
                    VSPHERE_TEMPLATES, key.name, body, key.namespace, subresource="status"
                )
            except NotFoundError:
                log.debug("VSphereMachineTemplate %s is gone, or has no status", key)
        return None

    def _hosts(self, template: VSphereMachineTemplate) -> list[Host]:
        """Of its vCenter; it need not name one, as its cluster does, and then all can be it."""
        server = template.spec.template.spec.server
        names = [self._fleet.name(server)] if server else list(self._fleet.known())
        return [host for name in names for host in self._fleet.inventory(name).values()]


def capacity(template: VSphereMachineTemplate, hosts: list[Host]) -> dict[str, Any]:
    """What there is to say; None: not to be said any more. Nothing of a spec with mistakes."""
    spec = template.spec.template.spec
    requested, problems = parsing.read(
        spec.pci_devices,
        pcidevices=spec.pcidevices,
        vgpudevices=spec.vgpudevices,
        peer_to_peer=spec.peer_to_peer,
    )
    if problems:
        return {}
    gpus = gpus_of(requested, hosts)
    return {
        "cpu": str(spec.cpus),
        "memory": f"{spec.memory}Mi",
        RESOURCE: str(gpus) if gpus else None,
    }
