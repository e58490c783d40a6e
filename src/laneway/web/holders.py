"""Who has a device, as far as a user may see it.

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
from laneway.web.access import Question, question
from laneway.web.place import link
from laneway.web.visit import Visit

_VMS, _PODS = question("list", VIRTUAL_MACHINES), question("list", PODS)


class Holder(NamedTuple):
    """What has a device."""

    text: str
    url: str = ""
    """Its page; empty for one that the user may not see."""
    is_stopped: bool = False
    """A VM that does not run, for which the device is kept."""
    consumer: Consumer | None = None
    """The VM or pod itself; None for one that the user may not see."""


def of_allocation(visit: Visit, allocation: Allocation | None) -> Holder | None:
    """What the kubelet has allocated a device to."""
    if allocation is None:
        return None
    vm = allocation.virtual_machine
    kind = ConsumerKind.VM if vm else ConsumerKind.POD
    return of_consumer(visit, Consumer(kind, allocation.namespace, vm or allocation.pod))


def of_vgpu(visit: Visit, vgpu: VGPUDevice) -> Holder | None:
    """What has a vGPU, or the stopped VM that it is kept for."""
    found = of_allocation(visit, vgpu.status.allocation)
    if found is not None or visit.ledger is None:
        return found
    stock = visit.ledger.stocks.get((vgpu.spec.node_name, vgpu.status.resource_name))
    taking = stock.taken.get(vgpu.metadata.name) if stock is not None else None
    if taking is None or taking.state is not State.RESERVED:
        return None
    return of_consumer(visit, taking.consumer, is_stopped=True)


def by_function(visit: Visit, vgpus: Iterable[VGPUDevice]) -> dict[str, str]:
    """What has each vGPU that is allocated, by the address of its function."""
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


def may_see(visit: Visit, consumer: Consumer) -> bool:
    """Whether a user may list what a VM or pod is one of."""
    everywhere, here = _questions(consumer.kind, consumer.namespace)
    return visit.may(everywhere) or visit.may(here)


async def load(visit: Visit, vgpus: Iterable[VGPUDevice]) -> None:
    """Ask what the user may see of those who have these vGPUs."""
    await load_allocations(visit, (vgpu.status.allocation for vgpu in vgpus))


async def load_allocations(visit: Visit, allocations: Iterable[Allocation | None]) -> None:
    """Ask what the user may see of those who have devices."""
    await visit.user.access.load([_VMS, _PODS])
    if visit.may(_VMS) and visit.may(_PODS):
        return
    owners = {
        (ConsumerKind.VM if has.virtual_machine else ConsumerKind.POD, has.namespace)
        for has in allocations
        if has is not None
    }
    asked = [_questions(*owner) for owner in sorted(owners)]
    await visit.user.access.load(here for all_, here in asked if not visit.may(all_))


def _questions(kind: ConsumerKind, namespace: str) -> tuple[Question, Question]:
    all_ = _VMS if kind is ConsumerKind.VM else _PODS
    return all_, all_._replace(namespace=namespace)
