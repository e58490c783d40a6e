"""The holder of a device, as far as a user may see it.

A VM or pod in a namespace whose VMs or pods the user may not list is not named. A VM that is
stopped keeps its devices, so it counts as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from laneway.api import Allocation, VGPUDevice
from laneway.controllers.ledger.objects import PODS
from laneway.core.ledger.facts import Consumer, ConsumerKind
from laneway.core.ledger.ledger import State
from laneway.kube.kubevirt import VIRTUAL_MACHINES
from laneway.web.access import question
from laneway.web.place import link
from laneway.web.visit import Visit

LISTS = {
    ConsumerKind.VM: question("list", VIRTUAL_MACHINES),
    ConsumerKind.POD: question("list", PODS),
}
"""The right to see VMs and pods, in all namespaces or in one."""


class Holder(NamedTuple):
    """A VM or pod that has a device."""

    text: str
    url: str = ""
    """Its page; empty for one that the user may not see."""
    is_stopped: bool = False
    """A VM that does not run, for which the device is kept."""
    consumer: Consumer | None = None
    """The VM or pod itself; None for one that the user may not see."""


def consumer_of(allocation: Allocation | None) -> Consumer | None:
    """The VM or pod that the kubelet has allocated a device to."""
    if allocation is None:
        return None
    vm = allocation.virtual_machine
    kind = ConsumerKind.VM if vm else ConsumerKind.POD
    return Consumer(kind, allocation.namespace, vm or allocation.pod)


def of_allocation(visit: Visit, allocation: Allocation | None) -> Holder | None:
    """The holder of a device by its allocation."""
    consumer = consumer_of(allocation)
    return None if consumer is None else of_consumer(visit, consumer)


def of_vgpu(visit: Visit, vgpu: VGPUDevice) -> Holder | None:
    """The holder of a vGPU, or the stopped VM that it is kept for."""
    if (consumer := consumer_of(vgpu.status.allocation)) is not None:
        return of_consumer(visit, consumer)
    if (consumer := _kept_for(visit, vgpu)) is not None:
        return of_consumer(visit, consumer, is_stopped=True)
    return None


def _kept_for(visit: Visit, vgpu: VGPUDevice) -> Consumer | None:
    if visit.ledger is None:
        return None
    stock = visit.ledger.stocks.get((vgpu.spec.node_name, vgpu.status.resource_name))
    taking = stock.taken.get(vgpu.metadata.name) if stock is not None else None
    return taking.consumer if taking is not None and taking.state is State.RESERVED else None


def by_function(visit: Visit, vgpus: Iterable[VGPUDevice]) -> dict[str, str]:
    """The holder of each vGPU that is allocated, by the address of its function."""
    found = ((vgpu, of_allocation(visit, vgpu.status.allocation)) for vgpu in vgpus)
    return {vgpu.spec.address: one.text for vgpu, one in found if one is not None}


def of_consumer(visit: Visit, consumer: Consumer, *, is_stopped: bool = False) -> Holder:
    """A VM or pod by its name, if the user may see it."""
    texts = visit.texts
    is_vm = consumer.kind is ConsumerKind.VM
    if not may_see(visit, consumer):
        hidden = texts("holders.hidden_vm" if is_vm else "holders.hidden_pod")
        return Holder(hidden, is_stopped=is_stopped)
    namespace, name = consumer.namespace, consumer.name
    url = link("vms", namespace, name) if is_vm else link("objects", "pods", namespace, name)
    return Holder(str(consumer), url, is_stopped, consumer)


def within(visit: Visit, consumer: Consumer) -> str:
    """The name of a VM or pod in a sentence; only its kind where the user may not see it."""
    if may_see(visit, consumer):
        return str(consumer)
    is_vm = consumer.kind is ConsumerKind.VM
    return visit.texts("holders.unnamed_vm" if is_vm else "holders.unnamed_pod")


def may_see(visit: Visit, consumer: Consumer) -> bool:
    """Whether a user may list the VMs or pods that one is among."""
    everywhere = LISTS[consumer.kind]
    return visit.may(everywhere) or visit.may(everywhere._replace(namespace=consumer.namespace))


async def load(visit: Visit, vgpus: Iterable[VGPUDevice]) -> None:
    """Ask which holders of these vGPUs the user may see."""
    found = (consumer_of(one.status.allocation) or _kept_for(visit, one) for one in vgpus)
    await load_consumers(visit, filter(None, found))


async def load_allocations(visit: Visit, allocations: Iterable[Allocation | None]) -> None:
    """Ask which holders by these allocations the user may see."""
    await load_consumers(visit, filter(None, map(consumer_of, allocations)))


async def load_consumers(visit: Visit, consumers: Iterable[Consumer]) -> None:
    """Ask which of these VMs and pods the user may see; their names do not matter."""
    await visit.user.access.load(LISTS.values())
    if all(map(visit.may, LISTS.values())):
        return
    places = sorted({(one.kind, one.namespace) for one in consumers})
    await visit.user.access.load(
        LISTS[kind]._replace(namespace=namespace)
        for kind, namespace in places
        if not visit.may(LISTS[kind])
    )
