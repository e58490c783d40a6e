"""Carries out the wishes of VGPUDevices: observation, decision, plan, steps, new observation.

Plans of one GPU run one after the other, because each changes what the others may do. What the
driver did is never assumed: the host is scanned again after every plan, which also tells every
sibling what it can become now. A refusal is kept in the object until the hardware or the wish
changes; a write that failed is tried again, since what held the device may let go of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict

from laneway.api import SRIOVGPUDevice, VGPUDevice, VGPUDeviceStatus
from laneway.controllers.devices import vgpu as projection
from laneway.controllers.devices.family import Family
from laneway.controllers.metrics import AgentMetrics
from laneway.controllers.observer import Observer
from laneway.controllers.publisher import Publisher
from laneway.core import keys
from laneway.core.inventory import Inventory
from laneway.core.pci import PciAddress
from laneway.core.plan import Plan, describe
from laneway.core.refusals import Refusal, WriteFailed, explain
from laneway.core.vgpu import Decision, VgpuWish, decide
from laneway.host.port import Host
from laneway.host.steps import StepError, execute
from laneway.kube.client import Client
from laneway.kube.controller import Retry
from laneway.kube.events import EventRecorder
from laneway.kube.informer import Informer

log = logging.getLogger(__name__)

RETRY_SECONDS = 30.0
"""After a write that the kernel refused. Held devices are let go by people, not by computers."""


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
        host: Host,
        observer: Observer,
        gpus: Informer[SRIOVGPUDevice],
        recorder: EventRecorder,
    ) -> None:
        family = Family(VGPUDevice, projection.wanted, self._status, self._keep)
        super().__init__(family, node, client, informer, metrics)
        self._host = host
        self._observer = observer
        self._gpus = gpus
        self._recorder = recorder
        self._refusals: dict[str, Refusal] = {}
        self._locks: defaultdict[PciAddress, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def reconcile(self, name: str) -> Retry | None:
        """Act on the object's wish if it has one that hardware does not meet, then report."""
        refusal: Refusal | None = None
        stored = self.informer.store.get(name)
        if stored is not None and not stored.metadata.deletion_timestamp:
            refusal = await self._act(stored)
        if refusal is None:
            self._refusals.pop(name, None)
        else:
            self._refusals[name] = refusal
        if name not in self.wanted and stored is not None and self._keep(stored, self.inventory):
            await self.write_status(stored, projection.status(stored, None, refusal))
        else:
            await super().reconcile(name)
        return Retry(RETRY_SECONDS) if isinstance(refusal, WriteFailed) else None

    async def _act(self, stored: VGPUDevice) -> Refusal | None:
        """Do what the object asks for; what stands in the way, if anything does."""
        try:
            wish = projection.wish(stored)
            parent = PciAddress.parse(stored.spec.parent_gpu_device_address)
        except ValueError:
            log.warning("VGPUDevice %s has no valid address; left alone", stored.metadata.name)
            return None
        async with self._locks[parent]:
            decision = self._decide(wish)
            if isinstance(decision, Plan):
                return await self._execute(stored, wish, decision)
        if not isinstance(decision, Refusal):
            return None
        if decision != self._refusals.get(stored.metadata.name):
            self._say(stored, decision.reason, explain(decision), warning=True)
        return decision

    def _decide(self, wish: VgpuWish) -> Decision:
        vgpus = self.inventory.vgpus
        function = next((vgpu for vgpu in vgpus if vgpu.address == wish.address), None)
        siblings = [v for v in vgpus if function is not None and v.parent == function.parent]
        return decide(wish, self.node, function, siblings)

    async def _execute(self, stored: VGPUDevice, wish: VgpuWish, plan: Plan) -> Refusal | None:
        try:
            await execute(self._host, plan)
        except StepError as error:
            self.metrics.plan("failed")
            self._say(stored, error.refusal.reason, explain(error.refusal), warning=True)
            return error.refusal
        else:
            self.metrics.plan("done")
            reason = "Configured" if wish.enabled else "Removed"
            steps = "; ".join(describe(step) for step in plan.steps)
            self._say(stored, reason, f"Done: {steps}.")
            return None
        finally:
            await self._observer.rescan()

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
        refusal = self._refusals.get(stored.metadata.name)
        return projection.status(stored, wanted, refusal)

    def _keep(self, stored: VGPUDevice, inventory: Inventory) -> bool:
        gpu = self._gpus.store.get(stored.metadata.labels.get(keys.LABEL_PARENT_GPU, ""))
        enabled = gpu is not None and gpu.spec.enabled
        return projection.keep(stored, inventory, gpu_enabled=enabled)
