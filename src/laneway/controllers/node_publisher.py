"""The publisher of the marker that an agent manages a node."""

from __future__ import annotations

from collections.abc import Mapping

from laneway.api import CoreNode, DeviceNode
from laneway.controllers.devices import node as node_device
from laneway.controllers.devices.family import Family
from laneway.controllers.gpu_workloads import GpuWorkloads
from laneway.controllers.metrics import AgentMetrics
from laneway.controllers.observing.observer import Observer
from laneway.controllers.publisher import Publisher
from laneway.core.gpu.serving import serving
from laneway.core.inventory import Inventory
from laneway.kube.client import Client
from laneway.kube.informer import Informer


class NodePublisher(Publisher[DeviceNode]):
    """Decides again when the cluster's node is another, whose uid the marker bears."""

    def __init__(
        self,
        node: str,
        client: Client,
        informer: Informer[DeviceNode],
        metrics: AgentMetrics,
        *,
        nodes: Informer[CoreNode],
        observer: Observer,
        workloads: GpuWorkloads,
    ) -> None:
        family = Family(DeviceNode, self._wanted, node_device.status)
        super().__init__(family, node, client, informer, metrics)
        self._nodes = nodes
        self._observer = observer
        self._workloads = workloads

    async def run(self) -> None:
        self._nodes.subscribe(lambda _before, _after: self.again())
        self._workloads.subscribe(self.again)
        await super().run()

    def _wanted(self, inventory: Inventory, name: str) -> Mapping[str, DeviceNode]:
        found = self._nodes.store.get(name)
        uid = found.metadata.uid if found is not None else ""
        unavailable = self._observer.uevents_unavailable
        served = serving(inventory, self._workloads.for_containers)
        return node_device.wanted(inventory, name, unavailable, uid, served)
