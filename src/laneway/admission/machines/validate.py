"""What is refused of the devices of virtual machines, their pools and their instances.

A machine is judged when its devices change, and never when it is deleted, stopped or started: one
whose device is gone must still be editable. Of a change only what it adds is judged as such, so
that taking a device away always works; what several devices may not be together is judged of all.

A machine that is to run is refused what it cannot have. One that is stopped is told, as a warning,
what it could not have now; what it could never have is refused all the same. So is told one whose
devices have just been claimed, as when claim and machine are applied together: it starts as soon as
it has them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from laneway.admission.machines import limits, makers, owners, readiness, room, warnings
from laneway.admission.machines.devices import (
    Found,
    added,
    counted,
    is_known,
    named,
)
from laneway.admission.request import Access, Operation, Request, Requester
from laneway.admission.verdict import ALLOWED, Granted, Verdict
from laneway.admission.world import World
from laneway.controllers.ledger import demands
from laneway.core.ledger.facts import Phase, Who, WhoKind
from laneway.core.refusals import (
    DeviceNamedTwice,
    DevicesOnSeveralNodes,
    NodeNotSelected,
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
_STOPPED = "It could not start now: "
_COMING = "It waits for a claim that is being carried out: "
_MOST = 16
"""So many refusals are told, and so many warnings: who has more begins with these."""


@dataclass(frozen=True, slots=True)
class Case:
    """A machine, or many that are alike, whose devices are to be these."""

    title: str
    spec: InstanceSpec
    old: Devices
    runs: bool
    """Whether it is to run."""
    machines: int = 1
    itself: tuple[Who, ...] = ()
    """Those that exist already."""
    granted: bool = False
    """Whether whose devices they may be was asked before, of somebody else."""

    @property
    def added(self) -> tuple[DeviceRequest, ...]:
        return tuple(added(self.spec.domain.devices, self.old))


def judge(request: Request[VirtualMachine], world: World, granted: Granted) -> Verdict:
    """What there is to say of a virtual machine."""
    case = _case(request, world)
    verdict = ALLOWED if case is None else judge_case(case, request.requester, world, granted)
    if request.new is None or makers.copies(request, world):
        return verdict
    return with_unseen(verdict, request.new.spec, request.old.spec if request.old else None)


def with_unseen(
    verdict: Verdict, spec: VirtualMachineSpec, old: VirtualMachineSpec | None
) -> Verdict:
    """The verdict, with what of the machine it is not about."""
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
    devices = (named(world, one) for one in case.added)
    return not any(device is not None and readiness.lacks_claim(device) for device in devices)


def _case(request: Request[VirtualMachine], world: World) -> Case | None:
    """None: its devices are as they were, or nobody cares any more."""
    new = request.new
    if request.operation is Operation.DELETE or new is None or new.metadata.deletion_timestamp:
        return None
    spec = new.spec.template.spec
    old = request.old.spec.template.spec.domain.devices if request.old else NO_DEVICES
    if spec.domain.devices == old:
        return None
    who = Who(WhoKind.MACHINE, request.namespace, request.name or new.metadata.name)
    granted = makers.copies(request, world)
    return Case(str(who), spec, old, _is_to_run(new, who, world), itself=(who,), granted=granted)


def _is_to_run(machine: VirtualMachine, who: Who, world: World) -> bool:
    instance = world.instances.get(who.name, who.namespace)
    found = demands.of_machines((machine,), () if instance is None else (instance,), ())
    return any(demand.phase is not Phase.STOPPED for demand in found)


def asks_case(case: Case, requester: Requester, world: World) -> Iterable[Access]:
    """The rights that matter for what is added."""
    if case.granted:
        return ()
    counts = counted(case.spec.domain.devices.all)
    return tuple(owners.wanted_rights(case.added, counts, requester, world))


def judge_case(case: Case, requester: Requester, world: World, granted: Granted) -> Verdict:
    """What there is to say."""
    devices = case.spec.domain.devices
    new = case.added
    refusals: list[Refusal] = [*limits.displays(devices.gpus)]
    if not new:
        return Verdict(tuple(refusals))
    found = {one.name: device for one in devices.all if (device := named(world, one)) is not None}
    refusals += _twice(devices.all)
    refusals += _unknown((one for one in new if one.name not in found), world)
    refusals += _apart(case, found, world)
    refusals += limits.too_many(devices.all, world)
    now: list[Refusal] = []
    for name in dict.fromkeys(one.name for one in new if one.name in found):
        device = found[name]
        against = readiness.missing(device)
        if against is None and not case.granted:
            against = owners.refused(device, requester, granted, world)
        if against is not None:
            refusals.append(against)
        elif (waiting := readiness.unready(device)) is not None:
            now.append(waiting)
    pooled = {one.device_name for one in new if one.device_name and one.name not in found}
    counts = counted(devices.all)
    for resource in () if case.granted else sorted(pooled):
        against = owners.refused_pool(resource, counts[resource], requester, granted, world)
        if against is not None:
            refusals.append(against)
    if not (refusals or now):
        # Only what else is right is worth a question; what is wrong would be told twice.
        now += room.short(case.spec, world, machines=case.machines, replacing=case.itself)
    told = [*_advice(case, world)]
    if not case.granted:
        told += _shared(counts, requester, granted, world)
    if now and case.runs and not readiness.coming(world, counts):
        refusals += now
    else:
        why = _COMING if case.runs else _STOPPED
        told = [*(f"{why}{one.words}" for one in now), *told]
    return Verdict(tuple(refusals[:_MOST]), tuple(told[:_MOST]))


def _twice(requests: Sequence[DeviceRequest]) -> Iterator[Refusal]:
    names = Counter(one.name for one in requests)
    yield from (DeviceNamedTwice(name) for name, count in names.items() if count > 1)


def _unknown(requests: Iterable[DeviceRequest], world: World) -> Iterator[Refusal]:
    for one in requests:
        if one.device_name and not is_known(world, one.device_name):
            yield ResourceNotFound(one.name, one.device_name)


def _apart(case: Case, found: dict[str, Found], world: World) -> Iterator[Refusal]:
    """Named devices that are not where the first one is, or where the machine may not be."""
    placed = [device for device in found.values() if device.node]
    for device in placed[1:]:
        if device.node != placed[0].node:
            yield DevicesOnSeveralNodes(
                device.title, device.node, placed[0].title, placed[0].node, case.title
            )
    for device in placed[:1]:
        node = world.nodes.get(device.node)
        wanted = case.spec.node_selector.items()
        if node is not None and (lacks := wanted - node.metadata.labels.items()):
            yield NodeNotSelected(device.title, device.node, tuple(sorted(lacks)))


def _advice(case: Case, world: World) -> Iterator[str]:
    yield from warnings.misnamed(case.added, world)
    yield from warnings.taken(case.added, world, case.itself)
    yield from warnings.unwise(case.spec)


def _shared(
    counts: dict[str, int], requester: Requester, granted: Granted, world: World
) -> Iterator[str]:
    for resource in sorted(counts):
        if other := owners.shared(resource, requester, granted, world):
            yield (
                f"{resource} is a pool that {other} has claimed devices of, too: which of them a "
                "machine gets is chance. Claim with disableResourcePooling to get your own."
            )
