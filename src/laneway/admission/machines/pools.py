"""Machines that are made by the number: pools, replica sets, and single instances.

A pool is judged when its devices change or it is to have more machines. It is asked for the
difference: machines that stay as they are need nothing new. A pool that is paused, or whose
machines are not to run, is only warned about what is short.

Of a machine that KubeVirt makes for a pool nobody asks again whose devices they are (`makers`): the
pool was asked, of everything that its machines will have.

An instance that a virtual machine starts was judged with the machine; it is refused only what keeps
it from starting, such as a device that nobody has claimed. Who says so is believed when
that machine is known and asks for the same devices. KubeVirt's controller, which makes them all, is
believed when they go by other names or have other displays, for that is what Harvester and a
preference change on the way; and also while the machine is not known.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from laneway.admission.machines import makers
from laneway.admission.machines.devices import asks_alike
from laneway.admission.machines.mutate import as_stored
from laneway.admission.machines.validate import (
    NO_DEVICES,
    Case,
    asks_case,
    judge_case,
    with_unseen,
)
from laneway.admission.request import Access, Operation, Request
from laneway.admission.verdict import ALLOWED, Granted, Verdict
from laneway.admission.world import World
from laneway.controllers.ledger import demands
from laneway.core.ledger.facts import Phase, Who, WhoKind
from laneway.core.ledger.question import selected
from laneway.kube.kubevirt import (
    Devices,
    InstanceSpec,
    LabelSelector,
    VirtualMachine,
    VirtualMachineInstance,
    VirtualMachineInstanceReplicaSet,
    VirtualMachinePool,
    VirtualMachineSpec,
)

_REPLICAS = 1
"""KubeVirt's default."""


def judge_pool(request: Request[VirtualMachinePool], world: World, granted: Granted) -> Verdict:
    """What there is to say of a VirtualMachinePool."""
    case = _pool(request, world)
    verdict = ALLOWED if case is None else judge_case(case, request.requester, world, granted)
    new, old = request.new, request.old
    if new is None:
        return verdict
    before = None if old is None else old.spec.virtual_machine_template.spec
    return with_unseen(verdict, new.spec.virtual_machine_template.spec, before)


def asks_pool(request: Request[VirtualMachinePool], world: World) -> Iterable[Access]:
    """The rights that matter for its devices."""
    case = _pool(request, world)
    return () if case is None else asks_case(case, request.requester, world)


def judge_replica_set(
    request: Request[VirtualMachineInstanceReplicaSet], world: World, granted: Granted
) -> Verdict:
    """What there is to say of a VirtualMachineInstanceReplicaSet."""
    case = _replica_set(request, world)
    return ALLOWED if case is None else judge_case(case, request.requester, world, granted)


def asks_replica_set(
    request: Request[VirtualMachineInstanceReplicaSet], world: World
) -> Iterable[Access]:
    """The rights that matter for its devices."""
    case = _replica_set(request, world)
    return () if case is None else asks_case(case, request.requester, world)


def judge_instance(
    request: Request[VirtualMachineInstance], world: World, granted: Granted
) -> Verdict:
    """What there is to say of an instance that somebody makes without a machine."""
    case = _instance(request, world)
    return ALLOWED if case is None else judge_case(case, request.requester, world, granted)


def asks_instance(request: Request[VirtualMachineInstance], world: World) -> Iterable[Access]:
    """The rights that matter for its devices."""
    case = _instance(request, world)
    return () if case is None else asks_case(case, request.requester, world)


def _pool(request: Request[VirtualMachinePool], world: World) -> Case | None:
    new, old = request.new, request.old
    if request.operation is Operation.DELETE or new is None or new.metadata.deletion_timestamp:
        return None
    machine = new.spec.virtual_machine_template.spec
    (phase,) = (one.phase for one in demands.of_machines((VirtualMachine(spec=machine),), (), ()))
    return _many(
        request,
        world,
        spec=_as_made(machine, world),
        old=None if old is None else _as_made(old.spec.virtual_machine_template.spec, world),
        counts=(_count(new.spec.replicas), 0 if old is None else _count(old.spec.replicas)),
        selector=new.spec.selector,
        runs=phase is not Phase.STOPPED and not new.spec.paused,
    )


def _as_made(machine: VirtualMachineSpec, world: World) -> InstanceSpec:
    """What each machine gets to have: it is mutated when it is made, in KubeVirt's name."""
    spec = machine.template.spec
    return replace(spec, domain=replace(spec.domain, devices=as_stored(machine, world)))


def _replica_set(request: Request[VirtualMachineInstanceReplicaSet], world: World) -> Case | None:
    new, old = request.new, request.old
    if request.operation is Operation.DELETE or new is None or new.metadata.deletion_timestamp:
        return None
    return _many(
        request,
        world,
        spec=new.spec.template.spec,
        old=None if old is None else old.spec.template.spec,
        counts=(_count(new.spec.replicas), 0 if old is None else _count(old.spec.replicas)),
        selector=new.spec.selector,
        runs=not new.spec.paused,
    )


def _many(
    request: Request[VirtualMachinePool] | Request[VirtualMachineInstanceReplicaSet],
    world: World,
    *,
    spec: InstanceSpec,
    old: InstanceSpec | None,
    counts: tuple[int, int],
    selector: LabelSelector,
    runs: bool,
) -> Case | None:
    devices = spec.domain.devices
    before = old.domain.devices if old is not None else NO_DEVICES
    wanted, had = counts
    if devices == before and wanted <= had:
        return None
    ledger = world.ledger()
    labels = selector.match_labels
    itself = selected(ledger, request.namespace, labels) if ledger and labels else ()
    # More of the same devices is more devices: they count as added.
    known = before if wanted <= had else NO_DEVICES
    title = f"{request.namespace}/{request.name}"
    return Case(title, spec, known, runs, machines=wanted, itself=itself)


def _instance(request: Request[VirtualMachineInstance], world: World) -> Case | None:
    new = request.new
    if request.operation is not Operation.CREATE or new is None:
        return None
    devices = new.spec.domain.devices
    if devices == NO_DEVICES:
        return None
    who = Who(WhoKind.MACHINE, request.namespace, request.name or new.metadata.name)
    if _is_started_by_a_machine(request, devices, world):
        return Case(str(who), new.spec, devices, runs=True, itself=(who,), starts=True)
    granted = makers.copies(request, world)
    return Case(str(who), new.spec, NO_DEVICES, runs=True, itself=(who,), granted=granted)


def _is_started_by_a_machine(
    request: Request[VirtualMachineInstance], devices: Devices, world: World
) -> bool:
    for owner in request.object.metadata.owner_references:
        if owner.kind != "VirtualMachine" or not owner.controller:
            continue
        machine = world.machines.get(owner.name, request.namespace)
        if machine is None or machine.metadata.uid != owner.uid:
            # Where KubeVirt is installed, its controller makes them and nobody else.
            return not len(world.installations) or makers.is_kubevirt(request.requester, world)
        asked = machine.spec.template.spec.domain.devices
        return devices == asked or (
            asks_alike(devices, asked) and makers.is_kubevirt(request.requester, world)
        )
    return False


def _count(replicas: int | None) -> int:
    return _REPLICAS if replicas is None else replicas
