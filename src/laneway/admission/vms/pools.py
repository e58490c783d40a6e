"""VMs that are made by the number: pools, replica sets, and single instances.

A pool is judged when its devices change or it is to have more VMs. What counts is the
difference: VMs that stay as they are need nothing new. A pool that is paused, or whose
VMs are not to run, is only warned about what is short.

Of a VM that KubeVirt makes for a pool it is not checked again whose devices they are (`makers`):
the pool was judged, with everything that its VMs will have.

An instance that a VM starts was judged with the VM, if it requests the same
devices; they may go by other names or have other displays, for that is what Laneway (`aliases`),
Harvester and a preference change on the way. It is refused only what keeps it from starting, such
as a device that is not claimed, and what those may not have who gave the devices to the
VM: it may have been stored while the webhook did not answer, and a claim may be newer. That a VM
starts it only KubeVirt's controller can say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from laneway.admission import recording
from laneway.admission.request import Access, Operation, Request
from laneway.admission.verdict import ALLOWED, Granted, Verdict
from laneway.admission.vms import makers
from laneway.admission.vms.aliases import as_named
from laneway.admission.vms.devices import asks_alike
from laneway.admission.vms.mutate import as_stored
from laneway.admission.vms.owners import Askers
from laneway.admission.vms.validate import (
    NO_DEVICES,
    Case,
    asks_case,
    judge_case,
    with_unseen,
)
from laneway.admission.world import World
from laneway.controllers.ledger import demands
from laneway.core.ledger.facts import Consumer, ConsumerKind, Phase
from laneway.core.ledger.question import selected
from laneway.kube.kubevirt import (
    InstanceSpec,
    LabelSelector,
    VirtualMachine,
    VirtualMachineInstance,
    VirtualMachineInstanceReplicaSet,
    VirtualMachinePool,
    VirtualMachineSpec,
)
from laneway.kube.resource import T

_REPLICAS = 1
"""KubeVirt's default."""


def judge_pool(request: Request[VirtualMachinePool], world: World, granted: Granted) -> Verdict:
    """What there is to say of a VirtualMachinePool."""
    case = _pool(request, world)
    verdict = ALLOWED if case is None else judge_case(case, request.requester, world, granted)
    new, old = request.new, request.old
    if new is None:
        return verdict
    verdict = _with_note(verdict, request, world, _asking_pool)
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
    verdict = ALLOWED if case is None else judge_case(case, request.requester, world, granted)
    return _with_note(verdict, request, world, _asking_replica_set)


def asks_replica_set(
    request: Request[VirtualMachineInstanceReplicaSet], world: World
) -> Iterable[Access]:
    """The rights that matter for its devices."""
    case = _replica_set(request, world)
    return () if case is None else asks_case(case, request.requester, world)


def judge_instance(
    request: Request[VirtualMachineInstance], world: World, granted: Granted
) -> Verdict:
    """What there is to say of an instance that is made without a VM."""
    title = f"{request.namespace}/{request.name}"
    if request.operation is not Operation.CREATE:
        return Verdict(tuple(recording.rewritten(title, request)))
    users = recording.of_instance(request, world)
    foreign = tuple(recording.refused(title, request.object.metadata.annotations, users))
    case = _instance(request, world)
    if case is None:
        return Verdict(foreign)
    verdict = judge_case(case, request.requester, world, granted)
    return Verdict((*foreign, *verdict.refusals), verdict.warnings)


def asks_instance(request: Request[VirtualMachineInstance], world: World) -> Iterable[Access]:
    """The rights that matter for its devices."""
    case = _instance(request, world)
    return () if case is None else asks_case(case, request.requester, world)


def _with_note(
    verdict: Verdict,
    request: Request[T],
    world: World,
    asking: Callable[[T], recording.Asking],
) -> Verdict:
    if request.new is None:
        return verdict
    new, old = asking(request.new), None if request.old is None else asking(request.old)
    title = f"{request.namespace}/{request.name}"
    foreign = recording.changed(title, request.requester, new, old, world)
    return Verdict((*foreign, *verdict.refusals), verdict.warnings)


def _asking_pool(pool: VirtualMachinePool) -> recording.Asking:
    template = pool.spec.virtual_machine_template
    return recording.Asking(template.spec.template.spec.domain.devices, template.metadata)


def _asking_replica_set(found: VirtualMachineInstanceReplicaSet) -> recording.Asking:
    template = found.spec.template
    return recording.Asking(template.spec.domain.devices, template.metadata)


def _pool(request: Request[VirtualMachinePool], world: World) -> Case | None:
    new, old = request.new, request.old
    if request.operation is Operation.DELETE or new is None or new.metadata.deletion_timestamp:
        return None
    vm = new.spec.virtual_machine_template.spec
    (phase,) = (one.phase for one in demands.of_vms((VirtualMachine(spec=vm),), (), ()))
    return _many(
        request,
        world,
        spec=_as_made(vm, world),
        old=None if old is None else _as_made(old.spec.virtual_machine_template.spec, world),
        counts=(_count(new.spec.replicas), 0 if old is None else _count(old.spec.replicas)),
        selector=new.spec.selector,
        runs=phase is not Phase.STOPPED and not new.spec.paused,
    )


def _as_made(vm: VirtualMachineSpec, world: World) -> InstanceSpec:
    """What each VM gets to have: it is mutated when it is made, in KubeVirt's name."""
    spec = vm.template.spec
    return replace(spec, domain=replace(spec.domain, devices=as_stored(vm, world)))


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
    return Case(title, spec, known, runs, vms=wanted, itself=itself)


def _instance(request: Request[VirtualMachineInstance], world: World) -> Case | None:
    new = request.new
    if request.operation is not Operation.CREATE or new is None:
        return None
    devices = new.spec.domain.devices
    if devices == NO_DEVICES:
        return None
    consumer = Consumer(ConsumerKind.VM, request.namespace, request.name or new.metadata.name)
    if makers.copies(request, world):
        return Case(
            str(consumer), new.spec, NO_DEVICES, runs=True, itself=(consumer,), granted=True
        )
    if not recording.is_started(request, world):
        return Case(str(consumer), new.spec, NO_DEVICES, runs=True, itself=(consumer,))
    vm = recording.starter(request, world)
    had = devices if vm is None else vm.spec.template.spec.domain.devices
    alike = asks_alike(devices, had)
    devices = as_named(devices, had)
    return Case(
        str(consumer),
        replace(new.spec, domain=replace(new.spec.domain, devices=devices)),
        devices if alike else NO_DEVICES,
        runs=True,
        itself=(consumer,),
        starts=alike,
        askers=Askers.recorded(recording.of_instance(request, world)),
    )


def knows_instance(request: Request[VirtualMachineInstance], world: World) -> bool:
    """Whether the VM is known that an instance of KubeVirt's is said to be of."""
    if request.operation is not Operation.CREATE:
        return True
    return not recording.is_started(request, world) or recording.starter(request, world) is not None


def _count(replicas: int | None) -> int:
    return _REPLICAS if replicas is None else replicas
