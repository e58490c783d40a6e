"""In which order the objects of a node are worked on."""

from __future__ import annotations

import asyncio
import contextlib

import msgspec

from laneway.api import PCIDevice
from laneway.controllers.devices import pci
from laneway.controllers.devices.family import Family
from laneway.controllers.metrics import AgentMetrics, MetricFamilies
from laneway.controllers.publisher import Publisher
from laneway.host.scan import scan
from laneway.kube.client import Client
from laneway.kube.cluster import Cluster, ClusterConfig
from laneway.kube.controller import Retry
from laneway.kube.informer import Informer
from laneway.kube.resource import served
from laneway.sim.spec import build, parse_spec

NODE = "node1"


class Listed(Publisher[PCIDevice]):
    """A publisher that only notes what it would work on."""

    workers = 1

    def __init__(self, client: Client) -> None:
        self.order: list[str] = []
        family = Family(PCIDevice, pci.wanted, lambda _stored, wanted: wanted.status)
        informer = Informer(client, served(PCIDevice))
        super().__init__(family, NODE, client, informer, AgentMetrics(MetricFamilies(), NODE))

    async def reconcile(self, name: str) -> Retry | None:
        self.order.append(name)
        return None


async def test_a_new_spec_comes_before_what_an_inventory_changes() -> None:
    async with Client(ClusterConfig(Cluster("http://127.0.0.1:1"))) as client:
        publisher = Listed(client)
        publisher.observed(scan(build(parse_spec("plain"), NODE)))
        *others, last = publisher.wanted.values()

        publisher._changed(others[0], others[0])  # as after a write of its status
        publisher._changed(last, _of_generation(last, 2))
        task = asyncio.create_task(publisher.run())
        await publisher.queue.join()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    assert publisher.order[0] == last.metadata.name
    assert sorted(publisher.order) == sorted(publisher.wanted)


def _of_generation(obj: PCIDevice, generation: int) -> PCIDevice:
    metadata = msgspec.structs.replace(obj.metadata, generation=generation)
    return msgspec.structs.replace(obj, metadata=metadata)
