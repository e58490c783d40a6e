"""What all families do that act on hardware: observation, decision, plan, steps, new observation.

Plans about one card run one after the other; objects that must wait for their turn hold up no
worker, so a device that blocks in the kernel delays only its own card. Before a plan begins the
object's status says so, which tells a restarted agent that what it finds was requested. What the
driver did is never assumed: after every plan the host is looked at again, or the GPU where it
reaches no further, which also tells every other object of the card what is possible now.

What was refused or failed is tried again once something about the card or the desired state
changes. As long as nothing does it is tried now and then, for those who hold devices let them go
without a word; except where steps had to be taken back, because that disturbs what runs. After
every failure the card rests for a multiple of what the attempt took, whatever changes: an attempt
may itself be what changes something.
"""

from __future__ import annotations

import asyncio
import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from laneway.api import Condition, Status
from laneway.controllers.devices.family import READ_FAILED, Family, T, read_failed
from laneway.controllers.devices.outcome import answered, begun, being_done, in_words, refused
from laneway.controllers.gpu_locks import GpuLocks
from laneway.controllers.metrics import AgentMetrics
from laneway.controllers.observing.modes import may_change_modes
from laneway.controllers.observing.observer import Observer
from laneway.controllers.publisher import Publisher
from laneway.controllers.sharing.identity import CardIdentity
from laneway.controllers.timing import Timing
from laneway.controllers.tracing import Attempt
from laneway.core.decision import Decision, refusals_of
from laneway.core.inventory import Inventory
from laneway.core.pci import PciAddress
from laneway.core.phrases import sentences
from laneway.core.plan import Plan, Satisfied, VgpuStep
from laneway.core.refusals import GpuNotReady, Refusal, VgpuNotConfigured, processes_of
from laneway.core.requested import Origin, read
from laneway.core.situation import Situation, glance
from laneway.core.tracing import DELETION, Tracer
from laneway.core.words import describe
from laneway.host.hardware import Hardware
from laneway.host.holders import have_ended
from laneway.host.plans.execute import StepError, execute
from laneway.kube.client import Client
from laneway.kube.controller import Retry
from laneway.kube.events import EventRecorder
from laneway.kube.informer import Informer

log = logging.getLogger(__name__)

MOVING_SECONDS = 1.0
"""How soon to look again at what is just being rewritten for another address."""
MAX_API_FAILURES = 3
"""Failures in a row, of requests to the API server, after which an object is not waited for."""
BACKOFF_FACTOR = 4.0
"""Pause after a failed attempt, in durations of that attempt."""

ACTOR = "laneway agent"
"""Whom events and the audit record name."""

Pending = Callable[[PciAddress], str]
"""What is still to be done about a GPU itself, in words; empty when nothing is."""

RetryFingerprint = tuple[object, ...]
"""Everything that an attempt depends on, so that a failure is repeated only in others."""

W = TypeVar("W")
"""A family's desired state."""


class Context(NamedTuple):
    """What acting needs; the controllers of one node share it."""

    hardware: Hardware
    observer: Observer
    recorder: EventRecorder
    metrics: AgentMetrics
    locks: GpuLocks
    identity: CardIdentity
    timing: Timing = Timing()
    tracer: Tracer | None = None


class OperationNames(NamedTuple):
    """What carrying out a desired state is called."""

    operation: str
    """For metrics, `configure-vgpu`."""
    event: str
    """Reason of the event that tells of its success."""
    why: str
    """For the audit record."""


@dataclass(frozen=True)
class FailedAttempt:
    """An attempt that ended otherwise than desired."""

    retry_fingerprint: RetryFingerprint
    refusals: tuple[Refusal, ...]
    not_before: float
    """When it may be tried again once something has changed, by the loop's clock."""
    again: float
    """When to try again while nothing has changed."""

    @property
    def processes(self) -> tuple[int, ...]:
        """Those that were in the way, as far as any were."""
        return processes_of(self.refusals)

    def due(self, retry_fingerprint: RetryFingerprint) -> float:
        """When to try again, in view of what it depends on."""
        return self.again if retry_fingerprint == self.retry_fingerprint else self.not_before


class ActingController(Publisher[T], ABC, Generic[T, W]):
    """The publisher of a family, which also carries out what its objects request."""

    workers = 4
    taken_back_seconds = math.inf
    """When to try again while nothing has changed where steps had to be taken back."""

    def __init__(
        self,
        family: Family[T],
        node: str,
        client: Client,
        informer: Informer[T],
        context: Context,
    ) -> None:
        super().__init__(family, node, client, informer, context.metrics)
        self.context = context
        self._blank = family.type()
        self._refused: set[str] = set()
        self._failures: dict[str, FailedAttempt] = {}
        self._unreadable: dict[str, str] = {}
        """What nothing can be decided about now, and why, as an event said."""

    # ------------------------------------------------------------------- what a family says

    @abstractmethod
    def wrong_device(self, stored: T) -> Refusal | None:
        """What is wrong when an object does not speak of the device that it is named for."""

    def address(self, stored: T) -> str:
        """The device that an object speaks of."""
        return str(_spec(stored).address)

    def asks(self, stored: T) -> bool:
        """Whether an object requests anything to be there."""
        return bool(_spec(stored).enabled)

    @abstractmethod
    def desired(self, stored: T, shown: T) -> W:
        """What the object requests in view of what is."""

    @abstractmethod
    def card(self, desired: W) -> PciAddress:
        """Where one plan at a time is carried out."""

    def cards(self, desired: W) -> tuple[PciAddress, ...]:
        """All cards that a plan for the desired state changes."""
        return (self.card(desired),)

    @abstractmethod
    def retry_fingerprint(self, desired: W) -> RetryFingerprint:
        """What decides about the desired state, as far as the inventory shows it."""

    @abstractmethod
    def decide(self, desired: W, situation: Situation) -> Decision:
        """What is to be done: the one decision, at a glance and by a close look."""

    def glance(self, _desired: W) -> Situation:
        """What the last scan tells."""
        return glance(self.inventory, self.node)

    @abstractmethod
    async def look(self, desired: W) -> Situation:
        """What a plan must know, as hardware is now."""

    @abstractmethod
    def operation_names(self, name: str, desired: W) -> OperationNames:
        """What carrying the desired state out is called."""

    # ------------------------------------------------------------------------- what all do

    def settled(self, desired: W) -> Satisfied | tuple[Refusal, ...] | None:
        """What the last scan alone says to the spec; None where something is to be done."""
        decision = self.decide(desired, self.glance(desired))
        return None if isinstance(decision, Plan) else decision

    async def plan(self, desired: W) -> Decision:
        """What is to be done, as hardware is now."""
        return self.decide(desired, await self.look(desired))

    def observed(self, inventory: Inventory) -> None:
        super().observed(inventory)
        # What is possible depends on the rest of the card, and so do the facts of a refusal.
        self.ask_again()

    def _changed(self, before: T | None, after: T | None) -> None:
        if before is not None and after is None:
            name = before.metadata.name
            self._refused.discard(name)
            self._failures.pop(name, None)
            self._unreadable.pop(name, None)
        super()._changed(before, after)

    def ask_again(self) -> None:
        """Look once more at everything that was refused."""
        for name in sorted(self._refused):
            self.queue.add(name)

    def unmet(self) -> bool:
        """Whether an object requests what could be done and has neither been refused nor failed."""
        objects = map(self.informer.store.get, self.wanted)
        return any(one is not None and self._is_unmet(one) for one in objects)

    def _is_unmet(self, stored: T) -> bool:
        name = stored.metadata.name
        if (
            name in self._failures
            or self.queue.failures(name) >= MAX_API_FAILURES
            or stored.metadata.deletion_timestamp
            or self.wrong_device(stored)
            or read_failed(self.inventory, PciAddress.parse(self.address(stored)))
        ):
            return False
        return self.settled(self.desired(stored, self._shown(name))) is None

    async def report(self, stored: T) -> Retry | None:
        """Act on the object's spec if it has one that hardware does not meet, then answer it."""
        name = stored.metadata.name
        if self.context.identity.is_moving(stored):
            return Retry(MOVING_SECONDS)
        if wrong := self.wrong_device(stored):
            await self._record_result(stored, (wrong,))
            return None
        await self._refresh(name)
        if error := read_failed(self.inventory, PciAddress.parse(self.address(stored))):
            if self._unreadable.get(name) != error:
                self._unreadable[name] = error
                self._say(
                    stored,
                    READ_FAILED,
                    f"Not changed, because the device cannot be read: {error}.",
                    warning=True,
                )
            return None
        self._unreadable.pop(name, None)
        if other := self.context.identity.other(stored):
            # A GPU has dozens of functions of which nothing is desired: those need no event each.
            await self._record_result(stored, (other,), emitted=not self.asks(stored))
            return None
        return await self._reconcile(stored)

    async def _refresh(self, name: str) -> None:
        """Look again before something is tried again: what was held may be gone by now."""
        failure = self._failures.get(name)
        if failure is not None and (failure.again <= _now() or self._is_outdated(failure)):
            await self.context.observer.rescan()

    async def _reconcile(self, stored: T) -> Retry | None:
        """Carry out what the object requests, or answer that nothing is left to be done."""
        name = stored.metadata.name
        desired = self.desired(stored, self._shown(name))
        settled = self.settled(desired)
        if settled is None:
            return await self._attempt(stored, desired)
        self._failures.pop(name, None)
        await self._record_result(stored, refusals_of(settled))
        return None

    async def _attempt(self, stored: T, desired: W) -> Retry | None:
        """Carry out a desired state, unless it is another's turn or it has just failed."""
        name, before = stored.metadata.name, stored
        failure = self._failures.get(name)
        if (
            failure is None
            or failure.due(self.retry_fingerprint(desired)) <= _now()
            or self._is_outdated(failure)
        ):
            caller = self.resource.kind, name
            with self.context.locks.acquire_all(
                self.cards(desired), caller, lambda: self.queue.add(name)
            ) as acquired:
                if not acquired:
                    return None
                attempt = Attempt(self.context.tracer, self.node, self._origin(stored))
                stored, failure = await self._carry_out(stored, desired, attempt)
                attempt.ended(failure.refusals if failure is not None else ())
        # What came in the way of an attempt is not ours to take away, though it failed by that.
        settled = self.settled(
            desired if failure is None else self.desired(before, self._shown(name))
        )
        if failure is not None and settled is None:
            await self._record_result(stored, failure.refusals, emitted=True)
            due = failure.due(self.retry_fingerprint(desired))
            if failure.processes:
                due = min(due, _now() + self.context.timing.holder)
            return Retry(max(0.0, due - _now())) if due < math.inf else None
        if settled is None:
            return Retry(self.context.timing.retry)  # Done, and undone by another.
        self._failures.pop(name, None)
        await self._record_result(stored, refusals_of(settled))
        return None

    async def _carry_out(
        self, stored: T, desired: W, attempt: Attempt
    ) -> tuple[T, FailedAttempt | None]:
        """Do it, and look again. Gives the object as it is then."""
        name, began = stored.metadata.name, _now()
        decision = await self.plan(desired)
        attempt.planned(decision)
        if refusals := refusals_of(decision):
            if not answered(stored, refusals):
                self._tell_refusals(stored, refusals)
            return stored, self._failed(name, desired, refusals, began)
        if isinstance(decision, Plan):
            if not begun(stored):
                stored = await self.write_status(
                    stored, self._with(name, being_done(decision)), unchanged=True
                )
            operation_names = self.operation_names(name, desired)
            try:
                await execute(
                    self.context.hardware,
                    decision,
                    actor=ACTOR,
                    reason=operation_names.why,
                    origin=attempt.origin,
                )
            except StepError as error:
                self.metrics.operation(operation_names.operation, "failed", _now() - began)
                self._tell_refusals(stored, (error.refusal,))
                await self._look_again(decision, self.card(desired))
                taken_back = error.undone and not error.left_over
                return stored, self._failed(
                    name, desired, (error.refusal,), began, taken_back=taken_back
                )
            seconds = _now() - began
            self.metrics.operation(operation_names.operation, "done", seconds)
            steps = "; ".join(describe(step) for step in decision.steps)
            self._say(
                stored, operation_names.event, f"Done by {ACTOR} in {seconds:.2f} s: {steps}."
            )
        self._failures.pop(name, None)
        await self._look_again(decision, self.card(desired))
        return stored, None

    def _origin(self, stored: T) -> Origin:
        """For whom a plan is made. A deleted object does not say who deleted it."""
        meta = stored.metadata
        if meta.deletion_timestamp:
            return Origin(self.resource.kind, meta.name, meta.uid, generation=DELETION)
        user = read(meta.annotations).user
        return Origin(self.resource.kind, meta.name, meta.uid, user, meta.generation)

    def _is_outdated(self, failure: FailedAttempt) -> bool:
        """Whether a user in the way has gone, of which there is no event."""
        return have_ended(self.context.hardware.host, failure.processes)

    async def _look_again(self, done: Decision, card: PciAddress) -> None:
        """See what became of a plan, as far as it reaches."""
        observer = self.context.observer
        if isinstance(done, Plan) and may_change_modes(done):
            await observer.rescan(card)
        elif isinstance(done, Plan) and all(isinstance(step, VgpuStep) for step in done.steps):
            await observer.look_at(card)
        else:
            await observer.rescan()

    def _failed(
        self,
        name: str,
        desired: W,
        refusals: tuple[Refusal, ...],
        began: float,
        *,
        taken_back: bool = False,
    ) -> FailedAttempt:
        now, retry = _now(), self.context.timing.retry
        failure = self._failures[name] = FailedAttempt(
            self.retry_fingerprint(desired),
            refusals,
            not_before=now + min(retry, BACKOFF_FACTOR * (now - began)),
            again=now + (self.taken_back_seconds if taken_back else retry),
        )
        return failure

    async def _record_result(
        self, stored: T, refusals: tuple[Refusal, ...], *, emitted: bool = False
    ) -> None:
        """Write what is, and why it is not as desired; an event once per spec and reason."""
        name = stored.metadata.name
        if not refusals:
            self._refused.discard(name)
            await self.write_status(stored, self._family.status(stored, self._shown(name)))
            return
        self._refused.add(name)
        if not emitted and not answered(stored, refusals):
            self._tell_refusals(stored, refusals)
        await self.write_status(stored, self._with(name, refused(refusals)))

    def _shown(self, name: str) -> T:
        """The object as hardware shows it; blank where the device is not there."""
        return self.wanted.get(name, self._blank)

    def _with(self, name: str, condition: Condition) -> Status:
        """What hardware shows, with an answer that it does not give by itself."""
        shown: Status = self._shown(name).status
        return msgspec.structs.replace(shown, conditions=[condition])

    def _tell_refusals(self, stored: T, refusals: tuple[Refusal, ...]) -> None:
        if all(isinstance(one, GpuNotReady | VgpuNotConfigured) for one in refusals):
            return  # To wait for the GPU is a part of every start, and no failure.
        for refusal in refusals:
            self.metrics.failed(refusal.reason)
        # Without a duration, so that a repetition is a count on the event that is there.
        text = sentences(in_words(refusals), f"Tried by {ACTOR}.")
        self._say(stored, refusals[0].reason, text, warning=True)

    def _say(self, stored: T, reason: str, text: str, *, warning: bool = False) -> None:
        self.context.recorder.record(self.resource.ref(stored), reason, text, warning=warning)
        log.log(
            logging.WARNING if warning else logging.INFO,
            "%s %s: %s",
            self.resource.kind,
            stored.metadata.name,
            text,
            extra={"reason": reason},
        )


def _now() -> float:
    return asyncio.get_running_loop().time()


def _spec(stored: Any) -> Any:
    return stored.spec
