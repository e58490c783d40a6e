"""Whether a VM could have the devices that a form names: what admission would say, and the nodes.

Nothing is written: the rules are those of the webhook, applied to what this process knows, and to
the user's rights to claims of others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from laneway.admission.request import Access, Requester
from laneway.admission.vms.devices import named
from laneway.admission.vms.displays import has_ramfb
from laneway.admission.vms.mutate import as_stored
from laneway.admission.vms.validate import CANNOT_START, Case, asks_case, judge_case
from laneway.admission.world import World
from laneway.api import PCIDeviceClaim
from laneway.controllers.ledger.nodes import has_kubelet
from laneway.core.ledger.answer import can_start
from laneway.core.ledger.facts import Consumer
from laneway.core.ledger.ledger import Ledger
from laneway.core.ledger.question import Request
from laneway.core.refusals import Refusal
from laneway.kube.kubevirt import (
    Devices,
    InstanceSpec,
    VirtualMachineSpec,
)
from laneway.kube.resource import served
from laneway.views import vms
from laneway.views.fitting import Fitting, Wanted, fitting, supplies
from laneway.web.access import Question
from laneway.web.judged import world_of
from laneway.web.pages.vms.resources import LIST_NODES
from laneway.web.visit import Visit


class Fit(NamedTuple):
    """What becomes of a VM with these devices."""

    devices: Devices
    """As they would be stored."""
    brought: tuple[str, ...]
    """Members of IOMMU groups that come along."""
    display: str
    """The entry that has the display; empty without a mediated vGPU."""
    nodes: Fitting
    against: Sequence[Refusal]
    """What speaks against it for good."""
    short: Sequence[Refusal]
    """Why it cannot start now."""
    warnings: Sequence[str]

    @property
    def fits(self) -> bool:
        """Whether some node can have all of it now."""
        return self.nodes.fits > 0

    @property
    def pins(self) -> bool:
        """Whether it cannot be migrated any more."""
        return bool(self.devices.all)


def fit(visit: Visit, consumer: Consumer, vm: VirtualMachineSpec, devices: Devices) -> Fit | None:
    """What becomes of a VM whose devices are to be these; None while that is not known."""
    ledger = visit.ledger
    if ledger is None:
        return None
    world = world_of(visit)
    case, requester = _case(consumer, vm, devices, world), Requester(visit.user.name)
    spec, stored = case.spec, case.spec.domain.devices
    granted = frozenset(
        one for one in asks_case(case, requester, world) if visit.may(_question(one))
    )
    verdict = judge_case(case, requester, world, granted)
    resources = vms.requests(stored.all)
    nodes = frozenset(
        found.node for one in stored.all if (found := named(world, one)) and found.node
    )
    answer = can_start(
        ledger,
        Request(
            resources=resources,
            nodes=tuple(nodes) if len(nodes) == 1 else (),
            selector=spec.node_selector,
            replacing=(consumer,),
        ),
    )
    asked = {one.name for one in devices.all}
    # The table of nodes says these at length.
    said = {f"{CANNOT_START}{one.words}" for one in answer.refusals}
    return Fit(
        devices=stored,
        brought=tuple(one.name for one in stored.all if one.name not in asked),
        display=_display(stored),
        nodes=_fitting(visit, ledger, consumer, spec, nodes),
        against=verdict.refusals,
        short=answer.refusals if resources else (),
        warnings=[one for one in verdict.warnings if one not in said],
    )


_GROUP = served(PCIDeviceClaim).group


async def load(visit: Visit, consumer: Consumer, vm: VirtualMachineSpec, devices: Devices) -> None:
    """Wait for the answers about claims of others that these devices need."""
    world = world_of(visit)
    case = _case(consumer, vm, devices, world)
    asked = asks_case(case, Requester(visit.user.name), world)
    await visit.user.access.load(map(_question, asked))


def _case(consumer: Consumer, vm: VirtualMachineSpec, devices: Devices, world: World) -> Case:
    stored = as_stored(_with(vm, devices), world)
    return Case(
        f"{consumer.namespace}/{consumer.name}",
        _with(vm, stored).template.spec,
        vm.template.spec.domain.devices,
        runs=False,
        itself=(consumer,),
    )


def _question(asked: Access) -> Question:
    return Question(asked.verb, _GROUP, asked.resource, name=asked.name)


def _with(vm: VirtualMachineSpec, devices: Devices) -> VirtualMachineSpec:
    spec = vm.template.spec
    spec = replace(spec, domain=replace(spec.domain, devices=devices))
    return replace(vm, template=replace(vm.template, spec=spec))


def _display(devices: Devices) -> str:
    for one in devices.gpus:
        options = one.virtual_gpu_options
        shown = options.display if options is not None else None
        if shown is None and len(devices.gpus) > 1:
            continue
        if shown is None or has_ramfb(msgspec.to_builtins(shown)):
            return one.name
    return ""


def _fitting(
    visit: Visit, ledger: Ledger, consumer: Consumer, spec: InstanceSpec, nodes: frozenset[str]
) -> Fitting:
    caches = visit.caches
    wanted = Wanted(
        resources=vms.requests(spec.domain.devices.all),
        nodes=nodes,
        selector=spec.node_selector,
        vm=consumer,
        cpu=vms.cpu_of(spec),
        memory=vms.memory_of(spec),
    )
    others = [
        one
        for one in caches.instances.store
        if one.status.phase not in vms.ENDED
        and (one.metadata.namespace, one.metadata.name) != (consumer.namespace, consumer.name)
    ]
    has = {one.metadata.name: one.status.allocatable for one in caches.nodes.store}
    cpu = {node: vms.milli_of(str(one["cpu"])) for node, one in has.items() if "cpu" in one}
    memory = {
        node: vms.bytes_of(str(one["memory"])) for node, one in has.items() if "memory" in one
    }
    found = fitting(
        ledger,
        wanted,
        supplies(cpu, [(one.status.node_name, vms.cpu_of(one.spec)) for one in others]),
        supplies(memory, [(one.status.node_name, vms.memory_of(one.spec)) for one in others]),
        no_kubelet={one.metadata.name for one in caches.nodes.store if not has_kubelet(one)},
    )
    return found if visit.may(LIST_NODES) else found._replace(sites=())
