"""Carries out the wishes of VGPUDevices: observation, decision, plan, steps, new observation.

Plans of one GPU run one after the other, because each changes what the others may do; objects that
must wait for their turn hold up no worker, so a device that blocks in the kernel delays only its
own GPU. Before a plan begins the object's status says so, which tells a restarted agent that what
it finds was asked for. What the driver did is never assumed: the host is scanned again after every
plan, which also tells every sibling what it can become now.

A plan that failed is not tried again until the hardware or the wish changes, with one exception:
where nothing had to be taken back it is tried now and then, for what held the device may let go.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import defaultdict
from dataclasses import dataclass

from laneway.api import SRIOVGPUDevice, VGPUDevice, VGPUDeviceStatus
from laneway.controllers.devices import vgpu as projection
from laneway.controllers.devices.family import Family, read_failed
from laneway.controllers.metrics import AgentMetrics
from laneway.controllers.observer import Observer
from laneway.controllers.publisher import Publisher
from laneway.core.decision import Decision, refusals_of
from laneway.core.inventory import Inventory, VgpuFunction
from laneway.core.pci import PciAddress
from laneway.core.plan import Plan
from laneway.core.refusals import Refusal
from laneway.core.vgpu import VgpuWish, decide, mdev_uuid
from laneway.core.words import describe, explain
from laneway.host.hardware import Hardware
from laneway.host.plans.execute import StepError, execute
from laneway.kube.client import Client
from laneway.kube.controller import Retry
from laneway.kube.events import EventRecorder
from laneway.kube.informer import Informer

log = logging.getLogger(__name__)

RETRY_SECONDS = 30.0
"""After a write that the kernel refused. Held devices are let go by people, not by computers."""

ACTOR = "laneway agent"
"""Whom the audit record names."""

Circumstances = tuple[object, ...]
"""Everything that an attempt depends on, so that a failure is repeated only in another one."""


@dataclass(frozen=True)
class _Failure:
    circumstances: Circumstances
    refusal: Refusal
    again: float
    """When to try again in the same circumstances, by the loop's clock."""


def _reason(name: str, wish: VgpuWish) -> str:
    """Why a plan is carried out, for the audit record."""
    return f"VGPUDevice {name} {f'asks for {wish.profile}' if wish.enabled else 'is disabled'}"


class VgpuController(Publisher[VGPUDevice]):
    """The publisher of VGPUDevices, which also acts on them."""

    workers = 4

    def __init__(
        self,
        node: str,
        client: Client,
        informer: Informer[VGPUDevice],
        metrics: AgentMetrics,
        *,
        hardware: Hardware,
        observer: Observer,
        gpus: Informer[SRIOVGPUDevice],
        recorder: EventRecorder,
    ) -> None:
        family = Family(VGPUDevice, projection.wanted, self._status, self._keep)
        super().__init__(family, node, client, informer, metrics)
        self._hardware = hardware
        self._observer = observer
        self._gpus = gpus
        self._recorder = recorder
        self._refused: set[str] = set()
        self._failures: dict[str, _Failure] = {}
        self._unreadable: dict[str, str] = {}
        """What nothing can be decided about now, and why. Its last answer stays, as a journal."""
        self._busy: set[PciAddress] = set()
        """GPUs on which a plan is being carried out."""
        self._waiting: defaultdict[PciAddress, dict[str, None]] = defaultdict(dict)
        """Objects whose plans wait for their GPU, in the order in which they came."""

    async def run(self) -> None:
        self._gpus.subscribe(self._gpu_changed)
        await super().run()

    def observed(self, inventory: Inventory) -> None:
        super().observed(inventory)
        # What is possible depends on siblings, and so do the facts of a refusal.
        for name in sorted(self._refused):
            self.queue.add(name)

    def rank(self, name: str) -> tuple[bool, str]:
        """After a reboot, what ran before comes before what never fitted."""
        stored = self.informer.store.get(name)
        return stored is None or not stored.status.configure_vgpu_type_name, name

    def _gpu_changed(self, _before: SRIOVGPUDevice | None, _after: SRIOVGPUDevice | None) -> None:
        for stored in self.informer.store:
            if stored.metadata.name not in self.wanted:
                self.queue.add(stored.metadata.name)

    async def report(self, stored: VGPUDevice) -> Retry | None:
        """Act on the object's wish if it has one that hardware does not meet, then answer it."""
        name = stored.metadata.name
        if wrong := projection.wrong_device(stored, self.node):
            await self._answer(stored, wrong)
            return None
        failure = self._failures.get(name)
        if failure is not None and failure.again <= asyncio.get_running_loop().time():
            await self._observer.rescan()  # What was held may be gone by now.
        address = PciAddress.parse(stored.spec.address)
        if error := read_failed(self.inventory, address):
            if self._unreadable.get(name) != error:
                self._unreadable[name] = error
                self._say(stored, "ReadFailed", f"Left alone meanwhile: {error}.", warning=True)
            return None
        self._unreadable.pop(name, None)
        function = self._function(address)
        our_uuid = mdev_uuid(self.node, function) if function else ""
        wish = projection.wish(stored, projection.observed_of(self.wanted.get(name)), our_uuid)
        decision = self._decide(wish)
        if isinstance(decision, Plan) and function is not None:
            return await self._attempt(stored, wish, function, decision)
        self._failures.pop(name, None)
        await self._answer(stored, next(iter(refusals_of(decision)), None))
        return None

    def _function(self, address: PciAddress) -> VgpuFunction | None:
        return next((vgpu for vgpu in self.inventory.vgpus if vgpu.address == address), None)

    def _decide(self, wish: VgpuWish) -> Decision:
        function = self._function(wish.address)
        siblings = self._siblings(function) if function else ()
        return decide(wish, self.node, function, siblings)

    def _siblings(self, function: VgpuFunction) -> tuple[VgpuFunction, ...]:
        return tuple(v for v in self.inventory.vgpus if v.parent == function.parent)

    def _circumstances(self, wish: VgpuWish, function: VgpuFunction) -> Circumstances:
        def vgpu(one: VgpuFunction) -> tuple[str, str] | None:
            return (one.configured.type_id, one.configured.uuid) if one.configured else None

        seen = tuple((v.address, v.creatable, vgpu(v)) for v in self._siblings(function))
        return wish.enabled, wish.profile, seen

    async def _attempt(
        self, stored: VGPUDevice, wish: VgpuWish, function: VgpuFunction, plan: Plan
    ) -> Retry | None:
        """Carry out a plan, unless it is another's turn or it has just failed."""
        name, gpu = stored.metadata.name, function.parent
        if gpu in self._busy:
            self._waiting[gpu][name] = None
            return None
        now = asyncio.get_running_loop().time()
        failure = self._failures.get(name)
        if (
            failure is None
            or failure.again <= now
            or (failure.circumstances != self._circumstances(wish, function))
        ):
            self._busy.add(gpu)
            try:
                stored, failure = await self._carry_out(stored, wish, function, plan)
            finally:
                self._busy.discard(gpu)
                for waiting in self._waiting.pop(gpu, ()):
                    self.queue.add(waiting)
        if failure is not None:
            await self._answer(stored, failure.refusal, told=True)
            return Retry(failure.again - now) if failure.again < math.inf else None
        after = self._decide(wish)
        if isinstance(after, Plan):
            return Retry(RETRY_SECONDS)  # Done, and undone by somebody else.
        await self._answer(stored, next(iter(refusals_of(after)), None))
        return None

    async def _carry_out(
        self, stored: VGPUDevice, wish: VgpuWish, function: VgpuFunction, plan: Plan
    ) -> tuple[VGPUDevice, _Failure | None]:
        name = stored.metadata.name
        if not projection.begun(stored):
            status = projection.in_progress(self.wanted.get(name), plan)
            stored = await self.write_status(stored, status, unchanged=True)
        try:
            await execute(self._hardware, plan, actor=ACTOR, reason=_reason(name, wish))
        except StepError as error:
            self.metrics.plan("failed")
            self._say(stored, error.refusal.reason, explain(error.refusal), warning=True)
            await self._observer.rescan()
            taken_back = error.undone and not error.left_over
            failure = self._failures[name] = _Failure(
                self._circumstances(wish, function),
                error.refusal,
                math.inf if taken_back else asyncio.get_running_loop().time() + RETRY_SECONDS,
            )
            return stored, failure
        self._failures.pop(name, None)
        self.metrics.plan("done")
        steps = "; ".join(describe(step) for step in plan.steps)
        self._say(stored, "Configured" if wish.enabled else "Removed", f"Done: {steps}.")
        await self._observer.rescan()
        return stored, None

    async def _answer(
        self, stored: VGPUDevice, refusal: Refusal | None, *, told: bool = False
    ) -> None:
        """Write what is, and why it is not as wished; an event once per wish and reason."""
        name = stored.metadata.name
        if refusal is None:
            self._refused.discard(name)
        else:
            self._refused.add(name)
            if not told and not projection.answered(stored, refusal):
                self._say(stored, refusal.reason, explain(refusal), warning=True)
        await self.write_status(stored, projection.status(stored, self.wanted.get(name), refusal))

    def _say(self, stored: VGPUDevice, reason: str, text: str, *, warning: bool = False) -> None:
        self._recorder.record(self.resource.ref(stored), reason, text, warning=warning)
        log.log(
            logging.WARNING if warning else logging.INFO,
            "VGPUDevice %s: %s",
            stored.metadata.name,
            text,
            extra={"reason": reason},
        )

    def _status(self, stored: VGPUDevice, wanted: VGPUDevice) -> VGPUDeviceStatus:
        return projection.status(stored, wanted, None)

    def _keep(self, stored: VGPUDevice, inventory: Inventory) -> bool:
        gpu = self._gpus.store.get(projection.parent_name(stored, self.node))
        enabled = gpu is not None and gpu.spec.enabled
        return projection.wrong_device(stored, self.node) is not None or projection.keep(
            stored, inventory, gpu_enabled=enabled
        )
