"""One turn of a VSphereVM: steps until one is under way, or there is nothing to do but wait.

What was ordered is written down after it was taken, but for a clone: that one is announced before,
because until its answer is there, nothing else would show that it may be under way.
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
    AwaitAddresses,
    AwaitClone,
    AwaitGuestShutdown,
    AwaitTask,
    CancelTask,
    CloneTemplate,
    DevicesLost,
    JoinVmGroup,
    PowerOffMode,
    PowerOn,
    Ready,
    Reconfigure,
    ReleaseReservation,
    Relocate,
    RemoveFinalizer,
    Reserve,
    SetGuestMetadata,
    ShutDownGuest,
    Step,
    VmDeleted,
    next_step,
)
from laneway.kube.capv import VSPHERE_VMS, VSphereVM
from laneway.kube.controller import Retry
from laneway.kube.resource import key_of
from laneway.vsphere.fleet.device_status import fault_words
from laneway.vsphere.machines import faults, finalizers
from laneway.vsphere.machines.bootstrap import UnusableDataError
from laneway.vsphere.machines.conditions import GUEST_OFF
from laneway.vsphere.machines.context import Context
from laneway.vsphere.machines.execute import await_clone, order
from laneway.vsphere.machines.full_spec import VMS_WITH_SPEC
from laneway.vsphere.machines.observe import Observed, VCenterView, ask, look
from laneway.vsphere.machines.rejection import Rejection, rejection
from laneway.vsphere.machines.report import Report
from laneway.vsphere.machines.retry_state import FOREVER, RetryState
from laneway.vsphere.port import FaultError, UnreachableVCenterError, VCenter, VCenterError

log = logging.getLogger(__name__)

STEPS = 20
"""More in one turn would be a loop."""
GUEST_SECONDS = 300
"""CAPV's patience with a guest."""
_RESTING = (Ready, DevicesLost, VmDeleted)
_LOOKING = (AwaitAddresses, AwaitGuestShutdown)
_BOUND = (CloneTemplate, Relocate, PowerOn)
"""What only the reserved host can do."""


class Again(NamedTuple):
    """Something was done, and the next step can be decided."""


class VmReconciliation:
    """One turn."""

    def __init__(self, context: Context, vm: VSphereVM, retries: RetryState) -> None:
        self._context = context
        self._vm = vm
        self._retries = retries
        self._report = Report(context, retries)
        self._task = vm.status.task_ref
        """What was ordered last; empty: its end is known."""
        self._ended = False
        """The task that the object names has ended, and what came of it is known."""
        self._answers: VCenterView | None = None
        """What vCenter says, if nothing was done there since it was asked."""
        self._reserved: Reservation | None = None
        """What it has reserved, and nothing was done since."""

    async def run(self) -> Retry | None:
        """Go as far as one can without waiting."""
        try:
            vcenter = self._context.fleet.vcenter(self._vm.spec.server)
            for _ in range(STEPS):
                done = await self._turn(vcenter)
                if not isinstance(done, Again):
                    return done
        except VCenterError as error:
            wait = self._failed(faults.fault_of(error), terminal=False)
            await self._report.unreachable(self._vm, self._task, str(error))
            return Retry(wait)
        log.warning("%s: no end after %d steps", key_of(self._vm), STEPS)
        return Retry(self._context.pace.look)

    async def _turn(self, vcenter: VCenter) -> Retry | Again | None:
        context, retries = self._context, self._retries
        answers, self._answers = self._answers or await ask(self._vm, self._task, vcenter), None
        observed = look(
            self._vm,
            answers,
            caches=context.caches,
            fleet=context.fleet,
            reservations=context.reservations,
        )
        if retries.fault is not None and retries.fault.type == faults.UNREACHABLE:
            retries.fault = None
        retries.host = (
            observed.state.host
            if observed.state is not None and observed.state.on
            else observed.reservation.host
            if observed.reservation is not None
            else ""
        )
        if observed.task is not None and observed.task[1].done:
            await self._learn(observed, vcenter)
            observed = observed._replace(task=None)
        if self._ended:
            observed = observed._replace(ordered=False)
        if observed.problems and not observed.desired.deleted:
            await self._write_status(None, observed)
            return None
        step = next_step(
            observed.desired,
            observed.state,
            observed.reservation,
            observed.task,
            retries.history(
                made=observed.made, ordered=observed.ordered, patience=self._is_patient(observed)
            ),
        )
        return await self._take(step, observed, vcenter)

    async def _take(self, step: Step, observed: Observed, vcenter: VCenter) -> Retry | Again | None:
        context, retries = self._context, self._retries
        key = key_of(self._vm)
        match step:
            case AwaitTask(task):
                await self._write_status(step, observed)
                context.watch(key, vcenter, task)
                return Retry(context.pace.task)
            case CancelTask(task):
                retries.cancelled = True
                await self._give_up(task, vcenter)
                return Again()
            case AwaitClone():
                await self._write_status(step, observed)
                retries.clone_awaited = await await_clone(
                    self._vm, observed, vcenter, context.pace.await_clone
                )
                return Again() if retries.clone_awaited else Retry(context.pace.look)
            case ShutDownGuest():
                retries.guest_asked = True
                await self._ask_guest(observed, vcenter)
                return Again()
            case ReleaseReservation():
                await context.reservations.release(key.namespace, key.name)
                return Again()
            case RemoveFinalizer():
                await finalizers.remove_finalizer(
                    context.client, VSPHERE_VMS, self._vm, finalizers.VM
                )
                return None
            case _ if isinstance(step, _RESTING):
                retries.succeeded()
                await self._write_status(step, observed)
                return Retry(context.pace.rest * (1 + retries.jitter()) / 2)
            case _ if isinstance(step, _LOOKING):
                await self._write_status(step, observed)
                return Retry(context.pace.look)
        if not observed.made and (against := rejection(self._vm, await self._spec())) is not None:
            await self._write_status(None, observed, against=against)
            return None
        wait = retries.due - time.monotonic()
        if wait > 0:
            await self._write_status(step, observed)
            return None if wait == FOREVER else Retry(wait)
        return await self._act(step, observed, vcenter)

    # -------------------------------------------------------------------------------------- acting

    async def _act(self, step: Step, observed: Observed, vcenter: VCenter) -> Retry | Again:
        if isinstance(step, Reserve):
            self._answers = VCenterView(observed.task, observed.state)
            return await self._reserve(step, observed)
        if isinstance(step, _BOUND) and observed.reservation not in (None, self._reserved):
            # Its host may have been closed since, or another VM may have its devices.
            done, meta = await self._reserve(step, observed), self._vm.metadata
            if self._context.reservations.of(meta.namespace, meta.name) != observed.reservation:
                return done
        return await self._order(step, observed, vcenter)

    async def _spec(self) -> Mapping[str, Any]:
        if self._retries.spec is None:
            meta = self._vm.metadata
            whole = await self._context.client.get(VMS_WITH_SPEC, meta.name, meta.namespace)
            self._retries.spec = whole.spec
        return self._retries.spec

    async def _reserve(self, step: Step, observed: Observed) -> Retry | Again:
        retries, now = self._retries, time.monotonic()
        retries.readmit(now)
        found = await self._keep(observed)
        if isinstance(found, Refusal) and retries.forgive(now, self._context.pace):
            found = await self._keep(observed)
        if not isinstance(found, Refusal):
            self._reserved = found
            retries.refusal = None
            return Again()
        retries.refusal = found
        await self._write_status(step, observed)
        return Retry(retries.rest(now, self._context.pace))

    async def _keep(self, observed: Observed) -> Reservation | Refusal:
        return await self._context.reservations.keep(
            self._vm,
            observed.requested,
            observed.domain,
            excluded=frozenset(self._retries.excluded),
        )

    async def _order(self, step: Step, observed: Observed, vcenter: VCenter) -> Retry | Again:
        context, retries = self._context, self._retries
        self._reserved = None
        retries.ordering = type(step).__name__
        if isinstance(step, CloneTemplate):
            retries.clone_awaited = False
            await self._write_status(step, observed, cloning=True)
        retries.order(_tried(step, observed))
        try:
            spec = await self._spec() if isinstance(step, CloneTemplate | SetGuestMetadata) else {}
            task = await order(step, observed, self._vm, vcenter, client=context.client, spec=spec)
        except UnusableDataError as error:
            wait = self._failed(Fault("BootstrapDataUnusable", str(error)), terminal=False)
            await self._write_status(step, observed._replace(ordered=False))
            return Retry(wait)
        except UnreachableVCenterError as error:
            # It may have been taken. What it was about is looked for before anything else.
            wait = self._failed(faults.fault_of(error), terminal=False)
            await self._write_status(step, observed, cloning=isinstance(step, CloneTemplate))
            return Retry(wait)
        except VCenterError as error:
            await self._met(faults.fault_of(error), observed, vcenter)
            await self._write_status(step, observed._replace(ordered=False))
            return self._after_fault()
        self._ended = False
        self._task = task
        retries.fault = None
        await self._write_status(AwaitTask(task), observed)
        context.watch(key_of(self._vm), vcenter, task)
        return Retry(context.pace.task)

    async def _give_up(self, task: str, vcenter: VCenter) -> None:
        try:
            await vcenter.cancel(task)
        except FaultError as error:
            log.info("%s: %s is waited for: %s", key_of(self._vm), task, error)

    async def _ask_guest(self, observed: Observed, vcenter: VCenter) -> None:
        if observed.state is None:
            return
        try:
            await vcenter.shut_down_guest(observed.state.ref)
        except FaultError as error:
            self._retries.guest_deaf = True
            self._report.event(self._vm, "GuestNotAsked", str(error), warning=True)

    def _is_patient(self, observed: Observed) -> bool:
        if self._retries.guest_deaf and observed.desired.power_off is PowerOffMode.TRY_SOFT:
            return False
        began = find_condition(self._vm.status.conditions, GUEST_OFF)
        try:
            since = datetime.fromisoformat(began.last_transition_time) if began else None
        except ValueError:
            since = None
        seconds = self._vm.spec.guest_soft_power_off_timeout_seconds or GUEST_SECONDS
        return since is None or self._context.clock() < since + timedelta(seconds=seconds)

    # ------------------------------------------------------------------------------------ learning

    async def _learn(self, observed: Observed, vcenter: VCenter) -> None:
        """Take in what came of the last order."""
        retries = self._retries
        fault = observed.task[1].fault if observed.task is not None else None
        if fault is not None:
            await self._met(fault, observed, vcenter)
        else:
            retries.metadata_set = (
                retries.metadata_set or retries.ordering == SetGuestMetadata.__name__
            )
            retries.in_vm_group = retries.in_vm_group or retries.ordering == JoinVmGroup.__name__
            retries.succeeded()
        self._task = ""
        self._ended = True

    async def _met(self, fault: Fault, observed: Observed, vcenter: VCenter) -> None:
        """Remember a fault, and what follows from it."""
        retries, ordering = self._retries, self._retries.ordering
        log.info("%s: %s: %s", key_of(self._vm), ordering, fault_words(fault))
        several = len(observed.requested.devices) > 1 and not retries.one_by_one
        if ordering == Reconfigure.__name__ and several and faults.is_of_request(fault):
            retries.one_by_one = True
            return
        host = retries.tried
        if ordering == PowerOn.__name__ and observed.state is not None:
            host = observed.state.host  # vCenter may have moved it there to start it
        if host and observed.requested.devices:
            suspected = faults.may_be_of_host(fault)
            if retries.suspect(host) if suspected else faults.is_of_host(fault):
                self._report.event(self._vm, fault.type, fault_words(fault), warning=True)
                retries.exclude(host, time.monotonic(), self._context.pace, suspected=suspected)
                retries.fault = fault
                return
        terminal = faults.is_terminal(fault) and not observed.desired.deleted
        if fault.type == "DuplicateName":
            there = await vcenter.named(self._vm.metadata.name, observed.place)
            uid = self._vm.metadata.uid
            terminal = terminal and there is not None and there.instance_uuid not in {"", uid}
        self._failed(fault, terminal=terminal)

    def _failed(self, fault: Fault, *, terminal: bool) -> float:
        now, pace = time.monotonic(), self._context.pace
        wait = self._retries.failed(fault, now, pace, terminal=terminal)
        if self._retries.blocked and fault.type == faults.NOT_FOUND:
            # No event reports a template that appears.
            self._retries.due = now + pace.longest
        return wait

    def _after_fault(self) -> Retry | Again:
        wait = self._retries.due - time.monotonic()
        return Again() if wait <= 0 else Retry(min(wait, self._context.pace.rest))

    async def _write_status(
        self,
        step: Step | None,
        observed: Observed,
        *,
        cloning: bool = False,
        against: Rejection | None = None,
    ) -> None:
        lost = observed.ordered and not self._retries.clone_awaited
        self._vm = await self._report.tell(
            self._vm,
            step,
            observed,
            task=self._task,
            cloning=cloning or lost,
            against=against,
        )


def _tried(step: Step, observed: Observed) -> str:
    """The host that shows by a step whether it can have the machine; empty: none does."""
    match step:
        case CloneTemplate(host) | Relocate(host):
            return host
        case PowerOn():
            return observed.state.host if observed.state is not None else ""
        case _:
            return ""
