"""The facts of one moment, from one look at the API: what a command works with.

All kinds are listed at once. Without KubeVirt there are no VMs. Without the right to
list VMs and pods the numbers are still worth something, so that is reported and not fatal;
without devices there is nothing to tell.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import msgspec

from laneway.api import CoreNode, PCIDeviceClaim, USBDeviceClaim
from laneway.controllers.cluster.caches import VGPUS
from laneway.controllers.ledger import demands, devices, nodes
from laneway.controllers.ledger.objects import PODS, Pod
from laneway.core.ledger.facts import Demand, Facts
from laneway.kube.client import Client
from laneway.kube.errors import ForbiddenError, NotFoundError
from laneway.kube.kubevirt import INSTANCES, VIRTUAL_MACHINES
from laneway.kube.resource import Resource, T, served


class Snapshot(msgspec.Struct, frozen=True):
    """What was seen."""

    facts: Facts
    containers: tuple[Demand, ...] = ()
    """Pods that request GPU instances, which are no devices of Laneway."""
    unknown: tuple[str, ...] = ()
    """What could not be seen, and what follows from that: a sentence each."""


async def look(client: Client) -> Snapshot:
    """Request everything. Raises KubeError, NotFoundError when Laneway is not installed."""
    unknown: list[str] = []
    (claims, vgpus, usb_claims), (vms, instances, pods, found) = await asyncio.gather(
        asyncio.gather(
            _all(client, served(PCIDeviceClaim), unknown),
            _all(client, VGPUS, unknown),
            _all(client, served(USBDeviceClaim), unknown),
        ),
        asyncio.gather(
            _perhaps(client, VIRTUAL_MACHINES, unknown),
            _perhaps(client, INSTANCES, unknown),
            _perhaps(client, PODS, unknown),
            _perhaps(client, served(CoreNode), unknown),
        ),
    )
    facts = [
        *map(devices.of_claim, claims),
        *map(devices.of_vgpu, vgpus),
        *map(devices.of_usb_claim, usb_claims),
    ]
    there = tuple(fact for fact in facts if fact is not None)
    asking = (
        *demands.of_vms(vms or (), instances or (), pods or ()),
        *_of_pods(pods or (), {device.resource for device in there}),
    )
    seen = None if found is None else tuple(map(nodes.of_node, found))
    containers = (one for pod in pods or () if (one := demands.of_container_pod(pod)) is not None)
    return Snapshot(Facts(there, asking, seen), tuple(containers), tuple(unknown))


def _of_pods(pods: Iterable[Pod], resources: set[str]) -> Iterable[Demand]:
    return (one for pod in pods if (one := demands.of_pod(pod, resources)) is not None)


async def _all(client: Client, resource: Resource[T], unknown: list[str]) -> list[T]:
    found = []
    async for page in client.list(resource):
        for item in page.items:
            try:
                found.append(resource.decode(item))
            except ValueError as error:
                unknown.append(f"{error}; it is not counted")
    return found


async def _perhaps(client: Client, resource: Resource[T], unknown: list[str]) -> list[T] | None:
    try:
        return await _all(client, resource, unknown)
    except ForbiddenError:
        unknown.append(f"you may not list {resource}; what follows from them is not counted")
        return None
    except NotFoundError:
        return []
