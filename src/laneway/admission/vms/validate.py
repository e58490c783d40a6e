"""What is refused of the devices of VMs, their pools and their instances.

A VM is judged when its devices change and when it is started, and never when it is deleted or
stopped: one whose device is gone must still be editable. Of a change only what it adds is judged as
such, so that taking a device away always works; what several devices may not be together is judged
of all.

A VM that is to run is refused what it cannot have. One that is stopped gets as a warning
what it could not have now, also that a device is not claimed yet; what it could never have is
refused all the same. So does one whose devices have just been claimed, as when claim and VM
are applied together: it starts as soon as it has them.

A start is refused where a user has to do something first. What the VM only has to wait for
is a warning: KubeVirt starts it once that is there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from laneway.admission import recording
from laneway.admission.request import Access, Operation, Request, Requester
from laneway.admission.verdict import ALLOWED, Granted, Verdict
from laneway.admission.vms import limits, makers, owners, readiness, room, warnings
from laneway.admission.vms.devices import (
    Found,
    added,
    closest,
    counted,
    is_known,
    named,
)
from laneway.admission.world import World
from laneway.controllers.ledger import demands
from laneway.core.ledger.facts import Consumer, ConsumerKind, Phase
from laneway.core.refusals import (
    ClaimedByOther,
    DevicesOnMultipleNodes,
    DuplicateDeviceName,
    NodeSelectorMismatch,
    Refusal,
    ResourceNotFound,
)
from laneway.kube.kubevirt import (
    DeviceRequest,
    Devices,
    InstanceSpec,
    VirtualMachine,
    VirtualMachineSpec,
)

NO_DEVICES = Devices()
CANNOT_START = "The VM cannot start now: "
_WAITS = "The VM waits: "
_COMING = "The VM waits for a device that is not ready yet: "
_MOST = 16
"""The most refusals that an answer has, and the most warnings."""


@dataclass(frozen=True, slots=True)
class Case:
    """A VM, or many that are alike, whose devices are to be these."""

    title: str
    spec: InstanceSpec
    old: Devices
    runs: bool
    """Whether it is to run."""
    vms: int = 1
    itself: tuple[Consumer, ...] = ()
    """Those that exist already."""
    granted: bool = False
    """Whether it was checked before, for another user, whose devices they may be."""
    starts: bool = False
    """Whether it is started with the devices that it has."""
    askers: owners.Askers | None = None
    """Its requesters; None: the user who writes it, or none where it only starts."""

    @property
    def judged(self) -> tuple[DeviceRequest, ...]:
        """The entries that a user has to have a right to."""
        devices = self.spec.domain.devices
        return devices.all if self.starts else tuple(added(devices, self.old))


def judge(request: Request[VirtualMachine], world: World, granted: Granted) -> Verdict:
    """What there is to say of a VM."""
    case = _case(request, world)
    verdict = ALLOWED if case is None else judge_case(case, request.requester, world, granted)
    if request.new is not None:
        asking, old = asking_of(request.new), asking_of(request.old) if request.old else None
        title = f"{request.namespace}/{request.name}"
        foreign = recording.changed(title, request.requester, asking, old, world)
        marked = recording.marked(title, asking, old)
        verdict = Verdict((*foreign, *marked, *verdict.refusals), verdict.warnings)
    if request.new is None or makers.copies(request, world):
        return verdict
    return with_unseen(verdict, request.new.spec, request.old.spec if request.old else None)


def asking_of(vm: VirtualMachine) -> recording.Asking:
    """What of a VM is about devices."""
    return recording.Asking(vm.spec.template.spec.domain.devices, vm.metadata)


def with_unseen(
    verdict: Verdict, spec: VirtualMachineSpec, old: VirtualMachineSpec | None
) -> Verdict:
    """The verdict, with what of the VM it is not about."""
    if verdict.refusals:
        return verdict
    return Verdict(verdict.refusals, (*verdict.warnings, *warnings.unseen(spec, old)))


def asks(request: Request[VirtualMachine], world: World) -> Iterable[Access]:
    """The rights that matter for its devices."""
    case = _case(request, world)
    return () if case is None else asks_case(case, request.requester, world)


def knows(request: Request[VirtualMachine], world: World) -> bool:
    """Whether the claims of the devices that it names are known, which may be in the same file."""
    case = _case(request, world)
    if case is None:
        return True
    devices = (named(world, one) for one in case.judged)
    return not any(device is not None and readiness.lacks_claim(device) for device in devices)


def _case(request: Request[VirtualMachine], world: World) -> Case | None:
    """None: its devices are as they were, or it does not matter any more."""
    new = request.new
    if request.operation is Operation.DELETE or new is None or new.metadata.deletion_timestamp:
        return None
    spec = new.spec.template.spec
    old = request.old.spec.template.spec.domain.devices if request.old else NO_DEVICES
    if request.old and recording.is_taken_over(
        request.requester, new.metadata.annotations, request.old.metadata.annotations
    ):
        old = NO_DEVICES  # The user who takes them over has to have a right to all of them.
    consumer = Consumer(ConsumerKind.VM, request.namespace, request.name or new.metadata.name)
    runs = _is_to_run(new, consumer, world)
    if spec.domain.devices == old:
        starts = runs and request.old is not None and not _is_to_run(request.old, consumer, world)
        return (
            Case(str(consumer), spec, old, runs, itself=(consumer,), starts=True)
            if starts
            else None
        )
    granted = makers.copies(request, world)
    return Case(str(consumer), spec, old, runs, itself=(consumer,), granted=granted)


def _is_to_run(vm: VirtualMachine, consumer: Consumer, world: World) -> bool:
    instance = world.instances.get(consumer.name, consumer.namespace)
    found = demands.of_vms((vm,), () if instance is None else (instance,), ())
    return any(demand.phase is not Phase.STOPPED for demand in found)


def asks_case(case: Case, requester: Requester, world: World) -> Iterable[Access]:
    """The rights that matter for what is added."""
    askers = _askers(case, requester)
    if askers is None:
        return ()
    counts = counted(case.spec.domain.devices.all)
    return tuple(owners.wanted_rights(case.judged, counts, askers, world))


def _askers(case: Case, requester: Requester) -> owners.Askers | None:
    """Who must have a right to what it requests; None where that was judged before."""
    if case.granted or (case.starts and case.askers is None):
        return None
    return case.askers or owners.Askers((requester,))


def judge_case(case: Case, requester: Requester, world: World, granted: Granted) -> Verdict:
    """What there is to say."""
    devices = case.spec.domain.devices
    if not case.judged:
        return Verdict(tuple(limits.displays(devices.gpus)))
    found = {one.name: device for one in devices.all if (device := named(world, one)) is not None}
    refusals = [*limits.conflicts(devices, world), *twice(devices.all)]
    unknown = [*_unknown((one for one in case.judged if one.name not in found), world)]
    if not case.starts:
        refusals += (*unknown, *_apart(case, found, world), *limits.too_many(devices.all, world))
    if (askers := _askers(case, requester)) is not None:
        refusals += _not_granted(case, found, askers, world, granted)
    against = {one.device for one in refusals if isinstance(one, ClaimedByOther)}
    asked = [
        found[name] for name in dict.fromkeys(one.name for one in case.judged) if name in found
    ]
    asked = [one for one in asked if one.title not in against]
    undone = [why for one in asked if (why := readiness.missing(one)) is not None]
    waiting = [
        why
        for one in asked
        if readiness.missing(one) is None and (why := readiness.unready(one)) is not None
    ]
    if case.starts:
        waiting += unknown
    if not (refusals or undone or waiting):
        # Only what else is right is worth a question; what is wrong would be reported twice.
        waiting += room.short(case.spec, world, vms=case.vms, replacing=case.itself)
    counts = counted(devices.all)
    if case.runs:
        refusals += undone
        if not (case.starts or readiness.coming(world, counts)):
            refusals += waiting
    if refusals:
        # Warnings with them would be about a VM that is not made.
        return Verdict(tuple(refusals[:_MOST]))
    begins = _WAITS if case.starts else _COMING if case.runs else CANNOT_START
    reported = [f"{begins}{one.words}" for one in (*undone, *waiting)]
    if not case.starts:
        reported += _advice(case, world)
        if askers is not None:
            reported += _shared(counts, askers, granted, world)
    return Verdict((), tuple(reported[:_MOST]))


def _not_granted(
    case: Case, found: Mapping[str, Found], askers: owners.Askers, world: World, granted: Granted
) -> Iterator[Refusal]:
    """What of it none of the requesters may have."""
    for name in dict.fromkeys(one.name for one in case.judged if one.name in found):
        against = owners.refused(found[name], askers, granted, world)
        if against is not None:
            yield against
    counts = counted(case.spec.domain.devices.all)
    pooled = {one.device_name for one in case.judged if one.device_name and one.name not in found}
    for resource in sorted(pooled):
        short = owners.refused_pool(resource, counts[resource], askers, granted, world)
        if short is not None:
            yield short


def twice(requests: Sequence[DeviceRequest]) -> Iterator[Refusal]:
    """Names that several entries have."""
    names = Counter(one.name for one in requests)
    yield from (DuplicateDeviceName(name) for name, count in names.items() if count > 1)


def _unknown(requests: Iterable[DeviceRequest], world: World) -> Iterator[Refusal]:
    resources = {one.device_name: one.name for one in reversed([*requests]) if one.device_name}
    unknown = [resource for resource in reversed(resources) if not is_known(world, resource)]
    for number, resource in enumerate(unknown):
        # One is looked up; who mistypes several has mistyped them alike.
        alike = closest(world, resource) if number == 0 else ()
        yield ResourceNotFound(resources[resource], resource, alike)


def _apart(case: Case, found: Mapping[str, Found], world: World) -> Iterator[Refusal]:
    """Named devices that are not where the first one is, or where the VM may not be."""
    placed = [device for device in found.values() if device.node]
    for device in placed[1:]:
        if device.node != placed[0].node:
            yield DevicesOnMultipleNodes(
                device.title, device.node, placed[0].title, placed[0].node, case.title
            )
    for device in placed[:1]:
        node = world.nodes.get(device.node)
        wanted = case.spec.node_selector.items()
        if node is not None and (lacks := wanted - node.metadata.labels.items()):
            yield NodeSelectorMismatch(device.title, device.node, tuple(sorted(lacks)))


def _advice(case: Case, world: World) -> Iterator[str]:
    yield from warnings.misnamed(case.judged, world)
    yield from warnings.taken(case.judged, world, case.itself)
    yield from warnings.unwise(case.spec)


def _shared(
    counts: dict[str, int], askers: owners.Askers, granted: Granted, world: World
) -> Iterator[str]:
    for resource in sorted(counts):
        if owners.shared(resource, askers, granted, world):
            yield (
                f"Other users have also claimed devices of {resource}, which the VM cannot use: "
                "it does not start on a node where only those are free. Claim your devices with "
                "disableResourcePooling to give them a resource name of their own."
            )
