"""The publisher of the marker that an agent manages a node."""

from __future__ import annotations

import asyncio
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
from laneway.host.driver_record import read_driver
from laneway.host.hardware import Hardware
from laneway.kube.client import Client
from laneway.kube.informer import Informer

DRIVER_SECONDS = 10.0
"""How often the driver toolkit's record is read, which is written without an event."""


class NodePublisher(Publisher[DeviceNode]):
    """Decides again when something else than the inventory says so.

    That is the cluster's node, whose uid the marker bears, whom GPUs serve, and the driver toolkit.
    """

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
        hardware: Hardware,
    ) -> None:
        family = Family(DeviceNode, self._wanted, node_device.status)
        super().__init__(family, node, client, informer, metrics)
        self._nodes = nodes
        self._observer = observer
        self._workloads = workloads
        self._hardware = hardware
        self._driver = read_driver(hardware.host, hardware.state)

    async def run(self) -> None:
        self._nodes.subscribe(lambda _before, _after: self.again())
        self._workloads.subscribe(self.again)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch_driver())
            tasks.create_task(super().run())

    async def _watch_driver(self) -> None:
        while True:
            found = await asyncio.to_thread(read_driver, self._hardware.host, self._hardware.state)
            if found != self._driver:
                self._driver = found
                self.again()
            await asyncio.sleep(DRIVER_SECONDS)

    def _wanted(self, inventory: Inventory, name: str) -> Mapping[str, DeviceNode]:
        found = self._nodes.store.get(name)
        uid = found.metadata.uid if found is not None else ""
        unavailable = self._observer.uevents_unavailable
        served = serving(inventory, self._workloads.for_containers)
        return node_device.wanted(
            inventory, name, unavailable, uid, served=served, driver=self._driver
        )
