"""The steps lead to the desired state, whatever happens between them.

A tiny vCenter takes orders and carries them out when it likes; the one who follows the steps is
killed before or after orders, loses answers, and sees VMs changed behind its back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import NamedTuple

from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from laneway.core.vsphere.inventory.vms import (
    Attached,
    Backing,
    DynamicBacking,
    Fault,
    FixedBacking,
    TaskState,
    VgpuBacking,
    VmState,
)
from laneway.core.vsphere.placement.reservation import Reservation
from laneway.core.vsphere.provisioning.matching import match
from laneway.core.vsphere.provisioning.steps import (
    AwaitAddresses,
    AwaitClone,
    AwaitTask,
    CancelTask,
    CloneTemplate,
    DesiredVm,
    Destroy,
    DevicesLost,
    History,
    JoinVmGroup,
    PowerOff,
    PowerOffMode,
    PowerOn,
    Ready,
    Reconfigure,
    ReleaseReservation,
    Relocate,
    RemoveFinalizer,
    Reserve,
    ShutDownGuest,
    Step,
    Upgrade,
    VmDeleted,
    next_step,
)
from laneway.core.vsphere.spec.requests import (
    DeviceRequest,
    PassthroughRequest,
    PciIds,
    Requested,
    VgpuRequest,
)
from support.examples import many

T4, A2 = PciIds(0x10DE, 0x1EB8), PciIds(0x10DE, 0x25B6)
FAULT = Fault("GenericVmConfigFault", "Not now.")
HOSTS = ("host-1", "host-2", "host-3")
ENOUGH = 80
"""More steps than any undisturbed machine needs."""


class ModelVCenter:
    """VMs of one machine, and the orders that are not carried out yet."""

    def __init__(self, template: tuple[Backing, ...], refusing: set[str], drs: bool) -> None:
        self.vms: dict[str, VmState] = {}
        self.pending: dict[str, tuple[str, Callable[[], Fault | None]]] = {}
        self.done: dict[str, TaskState] = {}
        self.faults = 0
        """So many of the next orders fail."""
        self.refuses_many = False
        self._template = template
        self._refusing = refusing
        self._drs = drs
        self._ids = count(1)

    def order(self, vm: str, work: Callable[[], Fault | None]) -> str:
        task = f"task-{next(self._ids)}"
        self.pending[task] = vm, work
        if vm:
            self._change(vm, tasks=(*self.vms[vm].tasks, task))
        return task

    def settle(self) -> None:
        """Carry out the oldest order."""
        if not self.pending:
            return
        task = next(iter(self.pending))
        vm, work = self.pending.pop(task)
        if self.faults:
            self.faults -= 1
            fault: Fault | None = FAULT
        else:
            fault = work() if not vm or vm in self.vms else FAULT
        self.done[task] = TaskState(done=True, fault=fault)
        if vm in self.vms:
            self._change(vm, tasks=tuple(one for one in self.vms[vm].tasks if one != task))

    def cancel(self, task: str) -> None:
        if self.pending.pop(task, None):
            self.done[task] = TaskState(done=True, fault=Fault("RequestCanceled", "Cancelled."))

    def task(self, task: str) -> TaskState | None:
        return TaskState(done=False) if task in self.pending else self.done.get(task)

    def clone(self, host: str) -> Fault | None:
        if self.vms:
            return Fault("DuplicateName", "There is one of this name.")
        ref = f"vm-{next(self._ids)}"
        devices = tuple(Attached(13000 + i, one) for i, one in enumerate(self._template))
        self.vms[ref] = VmState(ref, "one", "uid", "bios", 13, False, host or "host-9", "", devices)
        return None

    def configure(self, vm: str, step: Reconfigure) -> Fault | None:
        if self.vms[vm].on:
            return Fault("InvalidPowerState", "It is on.")
        if self.refuses_many and len(step.add) > 1:
            return Fault("InvalidArgument", "One by one.")
        rest = [one for one in self.vms[vm].devices if one not in step.remove]
        key = max((one.key for one in rest), default=12999)
        added = [
            Attached(key + 1 + i, backing(requested_item))
            for i, requested_item in enumerate(step.add)
        ]
        self._change(vm, devices=(*rest, *added), memory_locked=True)
        return None

    def switch_on(self, vm: str) -> Fault | None:
        state = self.vms[vm]
        if self._drs:
            usable = [host for host in HOSTS if host not in self._refusing]
            state = replace(state, host=usable[0] if state.host == "host-9" else state.host)
        if state.host in self._refusing:
            return Fault("InsufficientHostCapacityFault", "Not here.")
        self._change(vm, on=True, host=state.host, addresses=())
        return None

    def change(self, vm: str, **fields: object) -> Fault | None:
        self._change(vm, **fields)
        return None

    def destroy(self, vm: str) -> Fault | None:
        if self.vms[vm].on:
            return Fault("InvalidPowerState", "It is on.")
        del self.vms[vm]
        return None

    def _change(self, vm: str, **fields: object) -> None:
        self.vms[vm] = replace(self.vms[vm], **fields)


def backing(requested_item: DeviceRequest) -> Backing:
    if isinstance(requested_item, VgpuRequest):
        return VgpuBacking(requested_item.profile)
    assert isinstance(requested_item, PassthroughRequest)
    return DynamicBacking(requested_item.allowed, requested_item.label)


def nothing() -> Fault | None:
    """Of a step that orders nothing."""
    return None


class KilledError(Exception):
    """The one who follows the steps is no more."""


class Follower:
    """Does what the steps say; `kill` and `lose` tell what becomes of the next order."""

    def __init__(self, vcenter: ModelVCenter, desired: DesiredVm) -> None:
        self.vcenter = vcenter
        self.desired = desired
        self.reservation: Reservation | None = None
        self.task = ""
        self.made = self.ordered = False
        self.trouble = ""
        self.gone = False
        self.forget()

    def forget(self) -> None:
        """What only a living process knows."""
        self.clone_awaited = self.one_by_one = self.in_vm_group = self.cancelled = (
            self.requested_item
        ) = False
        self.excluded: frozenset[str] = frozenset()

    def turn(self) -> Step:
        """One look, one decision, one order at most."""
        try:
            return self._turn()
        except KilledError:
            self.forget()
            return AwaitTask("")

    def _turn(self) -> Step:
        vm = next(iter(self.vcenter.vms.values()), None)
        self.made = self.made or vm is not None
        task = None
        if self.task:
            state = self.vcenter.task(self.task)
            if state is not None and not state.done:
                task = self.task, state
            else:
                self.task = ""
                self._learn(state, vm)
        history = History(
            made=self.made,
            ordered=self.ordered,
            clone_awaited=self.clone_awaited,
            one_by_one=self.one_by_one,
            in_vm_group=self.in_vm_group,
            excluded=self.excluded,
            cancelled=self.cancelled,
            guest_asked=self.requested_item,
            patience=False,
        )
        step = next_step(self.desired, vm, self.reservation, task, history)
        self._do(step, vm)
        return step

    def _learn(self, state: TaskState | None, vm: VmState | None) -> None:
        fault = state.fault if state else None
        if fault and fault.type == "InvalidArgument":
            self.one_by_one = True
        if fault and fault.type == "InsufficientHostCapacityFault" and vm:
            self.excluded |= {vm.host}

    def _do(self, step: Step, vm: VmState | None) -> None:
        work = self._work(step, vm.ref if vm else "")
        if isinstance(step, CloneTemplate):
            assert not self.made
            self.ordered, self.clone_awaited = True, False
            self._order("", work)
            self.ordered = not self.task
        elif vm is not None and work is not nothing:
            surplus = match(self.desired.requested, vm.devices).surplus
            if self.desired.requested.devices:
                assert not (isinstance(step, PowerOn) and surplus)
            self._order(vm.ref, work)
            self.in_vm_group = self.in_vm_group or isinstance(step, JoinVmGroup)
        else:
            self._without_order(step, vm.ref if vm else "")

    def _work(self, step: Step, ref: str) -> Callable[[], Fault | None]:
        vcenter = self.vcenter
        simple: dict[type, Callable[[], Fault | None]] = {
            PowerOn: lambda: vcenter.switch_on(ref),
            PowerOff: lambda: vcenter.change(ref, on=False),
            Destroy: lambda: vcenter.destroy(ref),
            JoinVmGroup: lambda: None,
        }
        match step:
            case CloneTemplate(host):
                return lambda: vcenter.clone(host)
            case Relocate(host):
                return lambda: vcenter.change(ref, host=host)
            case Upgrade(version):
                return lambda: vcenter.change(ref, hardware_version=version)
            case Reconfigure():
                return lambda: vcenter.configure(ref, step)
        return simple.get(type(step), nothing)

    def _without_order(self, step: Step, ref: str) -> None:
        vcenter = self.vcenter
        match step:
            case Reserve():
                left = [host for host in HOSTS if host not in self.excluded]
                self.reservation = (
                    Reservation("default/one", left[0], ()) if left else self.reservation
                )
            case AwaitClone():
                while vcenter.pending:
                    vcenter.settle()
                self.clone_awaited = True
            case CancelTask(task):
                vcenter.cancel(task)
                self.cancelled = True
            case ShutDownGuest():
                vcenter.change(ref, on=False)
                self.requested_item = True
            case AwaitAddresses():
                vcenter.change(ref, addresses=("10.0.0.7",))
            case ReleaseReservation():
                self.reservation = None
            case RemoveFinalizer():
                self.gone = True
            case _:
                vcenter.settle()

    def _order(self, vm: str, work: Callable[[], Fault | None]) -> None:
        trouble, self.trouble = self.trouble, ""
        if trouble == "killed before":
            raise KilledError
        task = self.vcenter.order(vm, work)
        if trouble == "killed after":
            raise KilledError
        if trouble != "answer lost":
            self.task = task


TROUBLES = ["killed before", "killed after", "answer lost"]
EVENTS = [*TROUBLES, "restart", "fault", "settle", "detach", "switched off", "destroyed", "delete"]
ASKED = st.sampled_from(
    [
        VgpuRequest("grid_t4-8q"),
        VgpuRequest("grid_t4-16q"),
        PassthroughRequest((T4,)),
        PassthroughRequest((T4,), "blue"),
        PassthroughRequest((A2, T4)),
    ]
)
BACKINGS = st.sampled_from(
    [VgpuBacking("grid_t4-8q"), DynamicBacking((T4,)), FixedBacking("0000:3b:00.0")]
)
WISHES = st.builds(
    DesiredVm,
    requested=st.lists(ASKED, max_size=4).map(
        lambda requested_item: Requested(tuple(requested_item))
    ),
    hardware_version=st.sampled_from([0, 13, 19]),
    group=st.sampled_from(["", "gpus"]),
    placed=st.booleans(),
    power_off=st.sampled_from(PowerOffMode),
)


class Story(NamedTuple):
    """What a machine is to be, in which vCenter, and what happens after how many looks."""

    desired: DesiredVm
    template: tuple[Backing, ...]
    refusing: frozenset[str]
    drs: bool
    many: bool
    events: list[tuple[int, str]]


STORIES = st.builds(
    Story,
    desired=WISHES,
    template=st.lists(BACKINGS, max_size=2).map(tuple),
    refusing=st.frozensets(st.sampled_from(HOSTS), max_size=2),
    drs=st.booleans(),
    many=st.booleans(),
    events=st.lists(st.tuples(st.integers(0, 4), st.sampled_from(EVENTS)), max_size=12),
)


def meddle(follower: Follower, event: str) -> None:
    vcenter = follower.vcenter
    vm = next(iter(vcenter.vms.values()), None)
    match event:
        case "fault":
            vcenter.faults = 1
        case "restart":
            follower.forget()
        case "settle":
            vcenter.settle()
        case "delete":
            follower.desired = replace(follower.desired, deleted=True)
        case "detach" if vm and vm.devices:
            vcenter.change(vm.ref, devices=vm.devices[1:])
        case "switched off" if vm:
            vcenter.change(vm.ref, on=False)
        case "destroyed" if vm and not vm.tasks:
            del vcenter.vms[vm.ref]
        case _ if event in TROUBLES:
            follower.trouble = event


def check(follower: Follower, template: Counter[Backing]) -> None:
    """What holds at every moment."""
    vcenter = follower.vcenter
    assert len(vcenter.vms) <= 1
    for vm in vcenter.vms.values():
        surplus = Counter(
            one.backing for one in match(follower.desired.requested, vm.devices).surplus
        )
        assert surplus <= template, "attached more than was asked for"
        if vm.on and follower.desired.requested.devices:
            assert not surplus
        if follower.desired.requested.devices:
            assert follower.reservation is not None
    assert not (follower.gone and vcenter.vms)


@example(Story(DesiredVm(), (), frozenset(), False, False, [(0, "killed after"), (1, "delete")]))
@example(Story(DesiredVm(), (), frozenset(), False, False, [(0, "answer lost"), (1, "delete")]))
@settings(max_examples=many(300))
@given(story=STORIES)
def test_steps_get_there_whatever_happens_between_them(story: Story) -> None:
    desired, template = story.desired, Counter(story.template)
    refusing = set(story.refusing) if desired.requested.devices else set()
    vcenter = ModelVCenter(story.template, refusing, story.drs)
    vcenter.refuses_many = story.many
    follower = Follower(vcenter, desired)

    def look(times: int) -> Step | None:
        last: Step | None = None
        for _ in range(times):
            if follower.gone or isinstance(last, Ready | VmDeleted | DevicesLost):
                break
            last = follower.turn()
            check(follower, template)
        return last

    for looks, event in story.events:
        look(looks)
        meddle(follower, event)
        check(follower, template)
    follower.trouble = ""
    last = look(ENOUGH)
    vm = next(iter(vcenter.vms.values()), None)
    if follower.desired.deleted:
        assert follower.gone
        assert not vcenter.pending
        assert follower.reservation is None
    elif isinstance(last, VmDeleted):
        assert vm is None
        assert follower.reservation is None
    elif isinstance(last, DevicesLost):
        assert "detach" in {event for _, event in story.events}
    else:
        assert isinstance(last, Ready), last
        assert vm is not None
        assert vm.on
        assert not match(desired.requested, vm.devices).missing
        assert not (desired.requested.devices and match(desired.requested, vm.devices).surplus)
