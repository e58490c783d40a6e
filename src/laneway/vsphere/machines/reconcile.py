"""One turn of a VSphereVM: steps until one is under way, or there is nothing to do but wait.

What was ordered is written down after it was taken, but for a clone: that one is announced before,
because as long as its answer is not there, nobody could tell that it may be under way.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from laneway.api import find_condition
from laneway.core.refusals.base import Refusal
from laneway.core.vsphere.inventory.vms import Fault
from laneway.core.vsphere.placement.reservation import Reservation
from laneway.core.vsphere.provisioning.steps import (
    AskGuest,
    AwaitAddresses,
    AwaitGuest,
    Configure,
    GiveUp,
    Introduce,
    Join,
    LetGo,
    Linger,
    Lost,
    MakeClone,
    Move,
    PowerOff,
    Ready,
    Release,
    Reserve,
    Step,
    SwitchOn,
    Vanished,
    Wait,
    next_step,
)
from laneway.kube.capv import VSPHERE_VMS, VSphereVM
from laneway.kube.controller import Retry
from laneway.kube.resource import key_of
from laneway.vsphere.fleet.device_status import fault_words
from laneway.vsphere.machines import faults, finalizers
from laneway.vsphere.machines.bootstrap import UnusableDataError
from laneway.vsphere.machines.conditions import GUEST_OFF
from laneway.vsphere.machines.context import Means
from laneway.vsphere.machines.execute import linger, order
from laneway.vsphere.machines.full_spec import WHOLE_VMS
from laneway.vsphere.machines.observe import Scene, Told, ask, look
from laneway.vsphere.machines.rejection import Objection, objection
from laneway.vsphere.machines.report import Report
from laneway.vsphere.machines.retry_state import FOREVER, Memory
from laneway.vsphere.port import FaultError, UnreachableVCenterError, VCenter, VCenterError

log = logging.getLogger(__name__)

STEPS = 20
"""More in one turn would be a loop."""
GUEST_SECONDS = 300
"""CAPV's patience with a guest."""
_RESTING = (Ready, Lost, Vanished)
_LOOKING = (AwaitAddresses, AwaitGuest)
_BOUND = (MakeClone, Move, SwitchOn)
"""What only the promised host can do."""


class Again(NamedTuple):
    """Something was done, and the next step can be decided."""


class Attempt:
    """One turn."""

    def __init__(self, means: Means, vm: VSphereVM, memory: Memory) -> None:
        self._means = means
        self._vm = vm
        self._memory = memory
        self._report = Report(means, memory)
        self._task = vm.status.task_ref
        """What was ordered last; empty: its end is known."""
        self._ended = False
        """The task that the object names has ended, and what came of it is known."""
        self._told: Told | None = None
        """What vCenter says, if nothing was done there since it was asked."""
        self._promised: Reservation | None = None
        """What it was promised, and nothing was done since."""

    async def run(self) -> Retry | None:
        """Go as far as one can without waiting."""
        try:
            vcenter = self._means.fleet.vcenter(self._vm.spec.server)
            for _ in range(STEPS):
                done = await self._turn(vcenter)
                if not isinstance(done, Again):
                    return done
        except VCenterError as error:
            wait = self._failed(faults.fault_of(error), terminal=False)
            await self._report.unreachable(self._vm, self._task, str(error))
            return Retry(wait)
        log.warning("%s: no end after %d steps", key_of(self._vm), STEPS)
        return Retry(self._means.pace.look)

    async def _turn(self, vcenter: VCenter) -> Retry | Again | None:
        means, memory = self._means, self._memory
        told, self._told = self._told or await ask(self._vm, self._task, vcenter), None
        scene = look(
            self._vm, told, caches=means.caches, fleet=means.fleet, reservations=means.reservations
        )
        if memory.fault is not None and memory.fault.type == faults.UNREACHABLE:
            memory.fault = None
        memory.host = (
            scene.state.host
            if scene.state is not None and scene.state.on
            else scene.reservation.host
            if scene.reservation is not None
            else ""
        )
        if scene.task is not None and scene.task[1].done:
            await self._learn(scene, vcenter)
            scene = scene._replace(task=None)
        if self._ended:
            scene = scene._replace(ordered=False)
        if scene.problems and not scene.wish.deleted:
            await self._tell(None, scene)
            return None
        step = next_step(
            scene.wish,
            scene.state,
            scene.reservation,
            scene.task,
            memory.past(made=scene.made, ordered=scene.ordered, patience=self._is_patient(scene)),
        )
        return await self._take(step, scene, vcenter)

    async def _take(self, step: Step, scene: Scene, vcenter: VCenter) -> Retry | Again | None:
        means, memory = self._means, self._memory
        key = key_of(self._vm)
        match step:
            case Wait(task):
                await self._tell(step, scene)
                means.watch(key, vcenter, task)
                return Retry(means.pace.task)
            case GiveUp(task):
                memory.given_up = True
                await self._give_up(task, vcenter)
                return Again()
            case Linger():
                await self._tell(step, scene)
                memory.lingered = await linger(self._vm, scene, vcenter, means.pace.linger)
                return Again() if memory.lingered else Retry(means.pace.look)
            case AskGuest():
                memory.asked_guest = True
                await self._ask_guest(scene, vcenter)
                return Again()
            case Release():
                await means.reservations.release(key.namespace, key.name)
                return Again()
            case LetGo():
                await finalizers.let_go(means.client, VSPHERE_VMS, self._vm, finalizers.VM)
                return None
            case _ if isinstance(step, _RESTING):
                memory.succeeded()
                await self._tell(step, scene)
                return Retry(means.pace.rest * (1 + memory.jitter()) / 2)
            case _ if isinstance(step, _LOOKING):
                await self._tell(step, scene)
                return Retry(means.pace.look)
        if not scene.made and (against := objection(self._vm, await self._spec())) is not None:
            await self._tell(None, scene, against=against)
            return None
        wait = memory.due - time.monotonic()
        if wait > 0:
            await self._tell(step, scene)
            return None if wait == FOREVER else Retry(wait)
        return await self._act(step, scene, vcenter)

    # -------------------------------------------------------------------------------------- acting

    async def _act(self, step: Step, scene: Scene, vcenter: VCenter) -> Retry | Again:
        if isinstance(step, Reserve):
            self._told = Told(scene.task, scene.state)
            return await self._reserve(step, scene)
        if isinstance(step, _BOUND) and scene.reservation not in (None, self._promised):
            # Its host may have been closed since, or somebody else may have its devices.
            done, meta = await self._reserve(step, scene), self._vm.metadata
            if self._means.reservations.of(meta.namespace, meta.name) != scene.reservation:
                return done
        return await self._order(step, scene, vcenter)

    async def _spec(self) -> Mapping[str, Any]:
        if self._memory.spec is None:
            meta = self._vm.metadata
            whole = await self._means.client.get(WHOLE_VMS, meta.name, meta.namespace)
            self._memory.spec = whole.spec
        return self._memory.spec

    async def _reserve(self, step: Step, scene: Scene) -> Retry | Again:
        memory, now = self._memory, time.monotonic()
        memory.pardon(now)
        found = await self._keep(scene)
        if isinstance(found, Refusal) and memory.forgive(now, self._means.pace):
            found = await self._keep(scene)
        if not isinstance(found, Refusal):
            self._promised = found
            memory.refusal = None
            return Again()
        memory.refusal = found
        await self._tell(step, scene)
        return Retry(memory.rest(now, self._means.pace))

    async def _keep(self, scene: Scene) -> Reservation | Refusal:
        return await self._means.reservations.keep(
            self._vm, scene.requested, scene.domain, struck=frozenset(self._memory.struck)
        )

    async def _order(self, step: Step, scene: Scene, vcenter: VCenter) -> Retry | Again:
        means, memory = self._means, self._memory
        self._promised = None
        memory.ordering = type(step).__name__
        if isinstance(step, MakeClone):
            memory.lingered = False
            await self._tell(step, scene, cloning=True)
        memory.order(_tried(step, scene))
        try:
            spec = await self._spec() if isinstance(step, MakeClone | Introduce) else {}
            task = await order(step, scene, self._vm, vcenter, client=means.client, spec=spec)
        except UnusableDataError as error:
            wait = self._failed(Fault("BootstrapDataUnusable", str(error)), terminal=False)
            await self._tell(step, scene._replace(ordered=False))
            return Retry(wait)
        except UnreachableVCenterError as error:
            # It may have been taken. What it was about is looked for before anything else.
            wait = self._failed(faults.fault_of(error), terminal=False)
            await self._tell(step, scene, cloning=isinstance(step, MakeClone))
            return Retry(wait)
        except VCenterError as error:
            await self._met(faults.fault_of(error), scene, vcenter)
            await self._tell(step, scene._replace(ordered=False))
            return self._after_fault()
        self._ended = False
        self._task = task
        memory.fault = None
        await self._tell(Wait(task), scene)
        means.watch(key_of(self._vm), vcenter, task)
        return Retry(means.pace.task)

    async def _give_up(self, task: str, vcenter: VCenter) -> None:
        try:
            await vcenter.cancel(task)
        except FaultError as error:
            log.info("%s: %s is waited for: %s", key_of(self._vm), task, error)

    async def _ask_guest(self, scene: Scene, vcenter: VCenter) -> None:
        if scene.state is None:
            return
        try:
            await vcenter.shut_down_guest(scene.state.ref)
        except FaultError as error:
            self._memory.guest_deaf = True
            self._report.event(self._vm, "GuestNotAsked", str(error), warning=True)

    def _is_patient(self, scene: Scene) -> bool:
        if self._memory.guest_deaf and scene.wish.power_off is PowerOff.TRY_SOFT:
            return False
        began = find_condition(self._vm.status.conditions, GUEST_OFF)
        try:
            since = datetime.fromisoformat(began.last_transition_time) if began else None
        except ValueError:
            since = None
        seconds = self._vm.spec.guest_soft_power_off_timeout_seconds or GUEST_SECONDS
        return since is None or self._means.clock() < since + timedelta(seconds=seconds)

    # ------------------------------------------------------------------------------------ learning

    async def _learn(self, scene: Scene, vcenter: VCenter) -> None:
        """Take in what came of the last order."""
        memory = self._memory
        fault = scene.task[1].fault if scene.task is not None else None
        if fault is not None:
            await self._met(fault, scene, vcenter)
        else:
            memory.introduced = memory.introduced or memory.ordering == Introduce.__name__
            memory.joined = memory.joined or memory.ordering == Join.__name__
            memory.succeeded()
        self._task = ""
        self._ended = True

    async def _met(self, fault: Fault, scene: Scene, vcenter: VCenter) -> None:
        """Remember a fault, and what follows from it."""
        memory, ordering = self._memory, self._memory.ordering
        log.info("%s: %s: %s", key_of(self._vm), ordering, fault_words(fault))
        several = len(scene.requested.devices) > 1 and not memory.one_by_one
        if ordering == Configure.__name__ and several and faults.is_of_request(fault):
            memory.one_by_one = True
            return
        host = memory.tried
        if ordering == SwitchOn.__name__ and scene.state is not None:
            host = scene.state.host  # vCenter may have moved it there to start it
        if host and scene.requested.devices:
            doubted = faults.may_be_of_host(fault)
            if memory.doubt(host) if doubted else faults.is_of_host(fault):
                self._report.event(self._vm, fault.type, fault_words(fault), warning=True)
                memory.strike(host, time.monotonic(), self._means.pace, doubted=doubted)
                memory.fault = fault
                return
        terminal = faults.is_terminal(fault) and not scene.wish.deleted
        if fault.type == "DuplicateName":
            there = await vcenter.named(self._vm.metadata.name, scene.place)
            uid = self._vm.metadata.uid
            terminal = terminal and there is not None and there.instance_uuid not in {"", uid}
        self._failed(fault, terminal=terminal)

    def _failed(self, fault: Fault, *, terminal: bool) -> float:
        now, pace = time.monotonic(), self._means.pace
        wait = self._memory.failed(fault, now, pace, terminal=terminal)
        if self._memory.blocked and fault.type == faults.NOT_FOUND:
            # A template that appears is told by nobody.
            self._memory.due = now + pace.longest
        return wait

    def _after_fault(self) -> Retry | Again:
        wait = self._memory.due - time.monotonic()
        return Again() if wait <= 0 else Retry(min(wait, self._means.pace.rest))

    async def _tell(
        self,
        step: Step | None,
        scene: Scene,
        *,
        cloning: bool = False,
        against: Objection | None = None,
    ) -> None:
        lost = scene.ordered and not self._memory.lingered
        self._vm = await self._report.tell(
            self._vm,
            step,
            scene,
            task=self._task,
            cloning=cloning or lost,
            against=against,
        )


def _tried(step: Step, scene: Scene) -> str:
    """The host that shows by a step whether it can have the machine; empty: none does."""
    match step:
        case MakeClone(host) | Move(host):
            return host
        case SwitchOn():
            return scene.state.host if scene.state is not None else ""
        case _:
            return ""
