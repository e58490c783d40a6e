"""What all claims have in common: the way to VMs, and the way back when a claim is deleted.

A claim is reconciled by the agent of its node alone; no other client writes it or takes its
finalizer off. The finalizer is on before the first write to hardware, so that a claim cannot go
without its device being released.

Deletion goes the way back: the device is not allocated any more (as soon as the claim is marked),
its holder ends, KubeVirt's entry goes if no other claim needs it, hardware is released, and the
finalizer goes last. Each look shows how far that is, so nothing of it is remembered but for how
long KubeVirt's entry has been waited for. A holder may take days to end: the claim names it, and
goes on by itself then.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from msgspec.structs import replace

from laneway.api import Condition, PCIDeviceClaim, Status, USBDeviceClaim, find_condition
from laneway.controllers import acting
from laneway.controllers.acting import ActingController, Context
from laneway.controllers.claims.conditions import RELEASING
from laneway.controllers.device_plugin.controller import DevicePluginController, DeviceStatus
from laneway.controllers.devices.family import READ_FAILED, Family, ready
from laneway.controllers.devices.outcome import answered, refused
from laneway.controllers.tracing import Attempt, nanoseconds, tell
from laneway.core.plan import Satisfied
from laneway.core.refusals import Refusal
from laneway.host.plans.files import StateError
from laneway.host.plans.state import BusyError, StateFolder
from laneway.kube.client import Client, PatchType
from laneway.kube.controller import Retry
from laneway.kube.errors import NotFoundError
from laneway.kube.informer import Informer

log = logging.getLogger(__name__)

C = TypeVar("C", bound=PCIDeviceClaim | USBDeviceClaim)
W = TypeVar("W")

UNPERMIT_SECONDS = 10.0
"""How long KubeVirt's entry is waited for before hardware is released without that."""
STILL_PERMITTED = "StillPermitted"
"""Event: hardware is released although KubeVirt's entry has not gone."""


class ClaimController(ActingController[C, W]):
    """Carries out the claims of one kind, on one node."""

    taken_back_seconds = 300.0
    """What disturbs the node each time is tried seldom: it has no other controller."""
    claim: ClassVar[type[Any]]
    finalizer: ClassVar[str]
    device_kind: ClassVar[str]
    """The kind of object whose name a claim of this kind has."""

    def __init__(
        self,
        node: str,
        client: Client,
        informer: Informer[C],
        context: Context,
        *,
        device_plugin: DevicePluginController,
    ) -> None:
        nothing: dict[str, C] = {}
        family = Family(
            self.claim, lambda _inventory, _node: nothing, lambda _stored, now: now.status
        )
        super().__init__(family, node, client, informer, context)
        self.device_plugin = device_plugin
        self._withdrawn: dict[str, float] = {}
        """Since when each claim's device has no holder, by the loop's clock."""

    async def run(self) -> None:
        self.device_plugin.subscribe(self._status_changed)
        await super().run()

    # -------------------------------------------------------------------- what a kind of claim says

    @abstractmethod
    def unreadable(self, stored: C) -> str:
        """Why nothing can be decided about a claim's device now; empty when it can."""

    @abstractmethod
    def status(self, stored: C, answer: Condition | None) -> Status:
        """What is, with an answer that it does not give by itself."""

    @abstractmethod
    def remembering(self, stored: C, status: Any) -> Status:
        """A status with what is remembered of the device that was claimed."""

    @abstractmethod
    def is_gone(self, stored: C) -> bool:
        """Whether the claimed device is not there any more, so that it has no holder."""

    @abstractmethod
    def shares(self, desired: W) -> tuple[str, ...]:
        """The names of all devices that go back together with a claim's."""

    @abstractmethod
    async def needed_by_others(self, resource: str, stored: C) -> bool:
        """Whether anything else in the cluster is to be permitted under a resource name.

        Raises KubeError.
        """

    @abstractmethod
    def taken(self, desired: W) -> tuple[str, ...]:
        """The devices, as the node calls them, that are taken for a desired state."""

    @abstractmethod
    def forget(self, desired: W) -> None:
        """Forget how a device was that is not there any more. Raises what the folder raises."""

    # ----------------------------------------------------------------------------- who is worked on

    def unmet(self) -> bool:
        return any(self.concerns(one) and self._is_unmet(one) for one in self.informer.store)

    def _is_unmet(self, stored: C) -> bool:
        name = stored.metadata.name
        if (
            name in self._failures
            or self.queue.failures(name) >= acting.MAX_API_FAILURES
            or stored.metadata.deletion_timestamp
            or self.wrong_device(stored)
            or self.unreadable(stored)
        ):
            return False
        return self.settled(self.desired(stored, stored)) is None

    def _changed(self, before: C | None, after: C | None) -> None:
        super()._changed(before, after)
        if before is None or after is None or _is_going(before) != _is_going(after):
            self.ask_again()  # Who stands in another's way, or needs its group, has changed.
        if after is None and before is not None:
            self._withdrawn.pop(before.metadata.name, None)

    def _status_changed(self, kind: str, name: str) -> None:
        stored = self.informer.store.get(name)
        if kind == self.device_kind and stored is not None and self.concerns(stored):
            self.queue.add(name)

    async def align(self, name: str, stored: C | None) -> Retry | None:
        if stored is None or not self.concerns(stored):
            return None
        if self._is_over(stored):
            return None
        if wrong := self.wrong_device(stored):
            if _is_going(stored):
                await self._remove_finalizer(stored)  # Nothing was ever done for it.
            else:
                await self._record_result(stored, (wrong,))
            return None
        if _is_going(stored) and name in self._failures:
            # A write that was given up may have had its effect since, and it is not read later.
            await self.context.observer.rescan()
        else:
            await self._refresh(name)
        if error := self.unreadable(stored):
            return await self._leave_alone(stored, error)
        self._unreadable.pop(name, None)
        return await (self._end(stored) if _is_going(stored) else self._stand(stored))

    async def _leave_alone(self, stored: C, error: str) -> Retry:
        """Say that nothing is decided about a device, and look whether that has an end."""
        name, text = (
            stored.metadata.name,
            f"Not changed, because the device cannot be read: {error}.",
        )
        if self._unreadable.get(name) != error:
            self._unreadable[name] = error
            self._say(stored, READ_FAILED, text, warning=True)
        self._refused.add(name)
        said = ready(READ_FAILED, text, status=False)
        # What was read before is all that is known of the device, so it stays.
        await self.write_status(stored, replace(stored.status, conditions=[said]))
        self.context.observer.want()  # No event tells that something can be read again.
        return Retry(self.context.timing.retry)

    def _is_over(self, stored: C) -> bool:
        """Whether a deleted claim waits for others only."""
        return _is_going(stored) and self.finalizer not in stored.metadata.finalizers

    # -------------------------------------------------------------------------------- the way there

    async def _stand(self, stored: C) -> Retry | None:
        settled = self.settled(self.desired(stored, stored))
        if settled is None or isinstance(settled, Satisfied):
            stored = await self._hold(stored)
        return await self._reconcile(stored)

    async def _hold(self, stored: C) -> C:
        """Have the claim wait for us when it is deleted."""
        if self.finalizer in stored.metadata.finalizers:
            return stored
        body = {
            "metadata": {
                "finalizers": [*stored.metadata.finalizers, self.finalizer],
                # A list is written as a whole, so it must not have changed since.
                "resourceVersion": stored.metadata.resource_version,
            }
        }
        patched = await self.client.patch(self.resource, stored.metadata.name, body)
        self._wrote("patch", patched)
        return patched

    # --------------------------------------------------------------------------------- the way back

    async def _end(self, stored: C) -> Retry | None:
        """Release what was claimed, then the claim."""
        desired = self.desired(stored, stored)
        # Of a device that is gone, others of its group may still be there to be released.
        offered = not self.is_gone(stored) and self._is_offered(stored)
        if offered or self.settled(desired) is None:
            if consumer := await self._who_has(stored, desired):
                await self._record_result(stored, consumer)
                return Retry(self.context.timing.retry)
            if says(stored, "Advertised"):  # The manager waits for the end of that.
                stored = await self.write_status(stored, self.status(stored, _RELEASING))
            if wait := await self._wait_for_permission(stored):
                return Retry(wait)
        retry = None
        if self.settled(desired) is None:
            retry = await self._attempt(stored, desired)
            if self.settled(self.desired(stored, stored)) is None:
                return retry
        self._note(lambda _state: self.forget(desired))
        await self._remove_finalizer(stored)
        return None

    async def _carry_out(
        self, stored: C, desired: W, attempt: Attempt
    ) -> tuple[C, acting.FailedAttempt | None]:
        if not _is_going(stored):
            self._note(lambda state: state.claim(self.taken(desired)))
        return await super()._carry_out(stored, desired, attempt)

    def _note(self, what: Callable[[StateFolder], object]) -> None:
        """Remember on the node; where that fails, so does every plan, and says why."""
        state = self.context.hardware.state
        try:
            with state.lock(acting.ACTOR):
                what(state)
        except (BusyError, StateError, OSError) as error:
            log.warning("%s: not remembered on the node: %s", self.resource.kind, error)

    def device_status(self, stored: C) -> DeviceStatus:
        """How far the claimed device is on its way to VMs."""
        return self.device_plugin.device_status(self.device_kind, stored.metadata.name)

    async def _who_has(self, stored: C, desired: W) -> tuple[Refusal, ...]:
        """All holders of the device and of those released with it; there are no new ones."""
        names = dict.fromkeys((stored.metadata.name, *self.shares(desired)))
        found = [await self.device_plugin.withdrawn(self.device_kind, name) for name in names]
        return tuple(dict.fromkeys(one for consumer in found for one in consumer))

    def _is_offered(self, stored: C) -> bool:
        """Whether the device is, or was when the claim was last looked at, on its way to VMs."""
        device_status = self.device_status(stored)
        return device_status.advertised or device_status.owner is not None or says(stored, "Bound")

    async def _wait_for_permission(self, stored: C) -> float:
        """For how long KubeVirt's entry is still to be waited for."""
        name = stored.metadata.name
        now = asyncio.get_running_loop().time()
        since = self._withdrawn.setdefault(name, now)
        device_status = self.device_status(stored)
        resource = device_status.resource
        if not device_status.permitted or await self.needed_by_others(resource, stored):
            return 0.0
        if (left := since + UNPERMIT_SECONDS - now) > 0:
            return left
        text = (
            f"KubeVirt still permits {resource}, which no device has any more. The "
            "device is released anyway. Check that laneway manager runs."
        )
        self._say(stored, STILL_PERMITTED, text, warning=True)
        return 0.0

    async def _remove_finalizer(self, stored: C) -> None:
        if self.finalizer not in stored.metadata.finalizers:
            return
        # The attempt before has written to the claim, so its version is not to be insisted on.
        place = f"/metadata/finalizers/{stored.metadata.finalizers.index(self.finalizer)}"
        body = [
            {"op": "test", "path": place, "value": self.finalizer},
            {"op": "remove", "path": place},
        ]
        with contextlib.suppress(NotFoundError):
            patched = await self.client.patch(
                self.resource, stored.metadata.name, body, patch_type=PatchType.JSON
            )
            self._wrote("patch", patched)
            if deleted := stored.metadata.deletion_timestamp:
                name, origin = f"release {self.resource.kind}", self._origin(stored)
                tell(self.context.tracer, name, origin, self.node, nanoseconds(deleted))

    # -------------------------------------------------------------------------------------- answers

    def _shown(self, name: str) -> C:
        return self.informer.store.get(name) or self._blank

    async def _record_result(
        self, stored: C, refusals: tuple[Refusal, ...], *, emitted: bool = False
    ) -> None:
        name = stored.metadata.name
        if refusals:
            self._refused.add(name)
            if not emitted and not answered(stored, refusals):
                self._tell_refusals(stored, refusals)
            await self.write_status(stored, self.status(stored, refused(refusals)))
            return
        self._refused.discard(name)
        if not _is_going(stored):
            await self.write_status(stored, self.status(stored, None))

    def _with(self, name: str, condition: Condition) -> Status:
        return self.status(self._shown(name), condition)

    async def write_status(self, stored: C, status: Status, *, unchanged: bool = False) -> C:
        return await super().write_status(
            stored, self.remembering(stored, status), unchanged=unchanged
        )


_RELEASING = ready(
    RELEASING, "The claim is being deleted: the device is being released.", status=False
)


def says(stored: PCIDeviceClaim | USBDeviceClaim, what: str) -> bool:
    """Whether the stored answer is that something is so."""
    found = find_condition(stored.status.conditions, what)
    return found is not None and found.status == "True"


def _is_going(stored: PCIDeviceClaim | USBDeviceClaim) -> bool:
    return stored.metadata.deletion_timestamp is not None
