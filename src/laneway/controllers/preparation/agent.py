"""Prepares the agent's own node, as its HostPreparation asks.

What is missing is written as soon as it is asked for: it takes effect at the next boot only, so it
harms nothing that runs. Whether the node may be rebooted is not decided here. Once the manager says
so, of this very boot, the configuration that the node will start from is verified once more, and so
is that no VM holds a device; then the node reboots. An agent of the boot after that finds that the
boot it was about is over, so no node is ever rebooted twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

import msgspec

from laneway.api import (
    Condition,
    HostPreparation,
    HostPreparationStatus,
    HostRequirement,
    replacing,
)
from laneway.controllers.acting import ACTOR
from laneway.controllers.devices.family import merge_conditions, ready
from laneway.controllers.metrics import AgentMetrics
from laneway.controllers.preparation.settings import digest, wanted_of
from laneway.controllers.publisher import timestamp
from laneway.controllers.written import Written
from laneway.core.inventory import Inventory
from laneway.core.passthrough.usability import VFIO_DRIVER
from laneway.core.phrases import sentences
from laneway.core.preparation.decide import Preparation, decide, stage_of
from laneway.core.preparation.facts import BootFacts
from laneway.core.requested import Origin, read
from laneway.core.rollout.node import Stage
from laneway.core.words import describe
from laneway.host.boot.facts import read_facts
from laneway.host.boot.prepare import prepare
from laneway.host.boot.reboot import reboot
from laneway.host.boot.verify import verify
from laneway.host.hardware import Hardware
from laneway.host.holders import read_holders, visibility_error
from laneway.host.plans.execute import StepError
from laneway.kube.client import Client
from laneway.kube.controller import Retry, run_workers
from laneway.kube.errors import ConflictError, NotFoundError
from laneway.kube.events import EventRecorder
from laneway.kube.informer import Informer
from laneway.kube.queue import WorkQueue
from laneway.kube.resource import served

log = logging.getLogger(__name__)

RECHECK_SECONDS = 600.0
"""Files of a node are changed by its administrators and by packages, and nothing announces it."""
RETRY_SECONDS = 60.0
REBOOTING_SECONDS = 5.0
"""How soon to look whether a reboot that was refused is possible now."""
STILL_SECONDS = 300.0
"""After a reboot that was accepted; services of a node may take their time to end."""
_CLOSED = (
    "The agent cannot see the files of its node. Install the chart with hosts.prepare=true, "
    "or run 'laneway host prepare --apply' on the node."
)
_RESOURCE = served(HostPreparation)


class Preparing:
    """The preparation of one node. Run `run` in a task."""

    def __init__(
        self,
        node: str,
        client: Client,
        files: Hardware | None,
        informer: Informer[HostPreparation],
        inventory: Callable[[], Inventory | None],
        *,
        metrics: AgentMetrics,
        recorder: EventRecorder,
    ) -> None:
        """`files`: the node with its own files; None where the agent does not see them.

        `inventory`: the latest, None before the first.
        """
        self._node = node
        self._client = client
        self._files = files
        self._informer = informer
        self._inventory = inventory
        self._metrics = metrics
        self._recorder = recorder
        self._queue: WorkQueue[str] = WorkQueue()
        self._written = Written()
        self._told = 0.0
        """When the node was told to reboot, by the loop's clock."""

    async def run(self) -> None:
        """Work until cancelled."""
        await self._informer.synced.wait()
        self._informer.subscribe(lambda _before, _after: self._queue.add(self._node))
        await run_workers(self._queue, self._reconcile)

    async def _reconcile(self, name: str) -> Retry | None:
        stored = self._informer.store.get(name)
        if stored is None or stored.metadata.deletion_timestamp:
            return None
        if lag := self._written.lag(name, stored.metadata):
            return Retry(lag)
        try:
            if self._files is None:
                closed = HostPreparationStatus(
                    stage=Stage.FAILED.value, message=_CLOSED, settings=digest(stored.spec)
                )
                await self._say(stored, closed)
                return None
            if self._is_to_reboot(stored, self._files):
                return await self._reboot(stored, self._files)
            self._told = 0.0
            return await self._prepare(stored, self._files)
        except NotFoundError:
            return None
        except ConflictError:
            return Retry(0.5)

    async def _prepare(self, stored: HostPreparation, files: Hardware) -> Retry | None:
        wanted = wanted_of(stored.spec)
        facts = await read_facts(files, wanted)
        found = decide(wanted, facts)
        again, failure = RECHECK_SECONDS, ""
        if found.plan.steps and not stored.spec.paused:
            meta = stored.metadata
            user = read(meta.annotations).user
            try:
                found = await prepare(
                    files,
                    wanted,
                    actor=ACTOR,
                    reason=f"HostPolicy {', '.join(stored.spec.policies)}",
                    origin=Origin(_RESOURCE.kind, meta.name, meta.uid, user, meta.generation),
                )
            except StepError as error:
                again, failure = RETRY_SECONDS, error.refusal.words
        await self._say(stored, _judged(stored, found, facts, failure))
        return Retry(again)

    # -------------------------------------------------------------------------------- the reboot

    @staticmethod
    def _is_to_reboot(stored: HostPreparation, files: Hardware) -> bool:
        rollout = stored.spec.rollout
        return rollout.stage == Stage.REBOOTING and rollout.boot_id == files.state.boot

    async def _reboot(self, stored: HostPreparation, files: Hardware) -> Retry:
        if why := await self._against(stored, files):
            status = msgspec.structs.replace(stored.status, reboot_refused=why)
            await self._say(stored, status)
            return Retry(REBOOTING_SECONDS)
        now = asyncio.get_running_loop().time()
        if self._told and now - self._told > STILL_SECONDS:
            why = "The node accepted the reboot, and still runs. Look at it: systemctl list-jobs"
            await self._say(stored, msgspec.structs.replace(stored.status, reboot_refused=why))
            return Retry(RECHECK_SECONDS)
        log.warning("node %s reboots, as its HostPreparation says", self._node)
        try:
            await reboot(files)
            self._told = self._told or now
        except OSError as error:
            why = f"The reboot did not begin: {error.strerror}"
            await self._say(stored, msgspec.structs.replace(stored.status, reboot_refused=why))
            return Retry(REBOOTING_SECONDS)
        return Retry(RETRY_SECONDS)  # we are ended before, or it did not come to that

    async def _against(self, stored: HostPreparation, files: Hardware) -> str:
        """Why the node must not reboot now; empty when it may."""
        if wrong := await verify(files, wanted_of(stored.spec)):
            return f"The node might not boot: {'; '.join(wrong)}."
        if stored.spec.rollout.stop_vms:
            return ""
        inventory = self._inventory()
        if inventory is None:
            return "The devices of the node are not known yet."
        if hidden := visibility_error(files.host):
            return f"VMs that hold devices may be hidden: {hidden}."
        held = await asyncio.to_thread(_vm_uses, files, inventory)
        return f"VMs hold devices of the node: {'; '.join(held)}." if held else ""

    # -------------------------------------------------------------------------------- the status

    async def _say(self, stored: HostPreparation, status: HostPreparationStatus) -> None:
        meta = stored.metadata
        conditions = merge_conditions(
            stored.status.conditions, [_condition(status)], meta.generation, timestamp()
        )
        status = msgspec.structs.replace(
            status, observed_generation=meta.generation, conditions=conditions
        )
        if status == stored.status:
            return
        body = {
            "metadata": {"resourceVersion": meta.resource_version},
            "status": replacing(status),
        }
        answer = await self._client.patch(_RESOURCE, meta.name, body, subresource="status")
        self._written.note(answer.metadata)
        self._metrics.wrote("patch status", _RESOURCE.kind)
        if status.stage != stored.status.stage:
            failed = status.stage == Stage.FAILED
            text = f"{status.stage}: {status.message}"
            self._recorder.record(_RESOURCE.ref(stored), "HostPrepared", text, warning=failed)


def _judged(
    stored: HostPreparation, found: Preparation, facts: BootFacts, failure: str
) -> HostPreparationStatus:
    """How far the node is. `failure`: why what it needs could not be written."""
    stage = Stage.FAILED if failure else Stage(stage_of(found))
    messages = {
        Stage.FAILED: failure or sentences(*(one.words for one in found.refusals)),
        Stage.PLANNED: "The roll-out is paused. The steps are what would be written.",
        Stage.STAGED: "Everything is written, and takes effect at the next boot.",
        Stage.READY: (
            "The node has everything that its policies request."
            if stored.spec.policies
            else "No HostPolicy selects the node. It keeps what was written for the last one."
        ),
    }
    requirements = [
        HostRequirement(name=one.name, state=one.state, message=one.message)
        for one in found.requirements
    ]
    return HostPreparationStatus(
        stage=stage.value,
        message=messages[stage],
        settings=digest(stored.spec),
        requirements=requirements,
        steps=[describe(step) for step in found.plan.steps],
        boot_id=facts.boot_id,
        boot_loader=facts.loader.name,
    )


def _condition(status: HostPreparationStatus) -> Condition:
    if status.reboot_refused:
        return ready("RebootRefused", status.reboot_refused, status=False)
    match status.stage:
        case Stage.READY:
            return ready("HostReady", status.message)
        case Stage.PLANNED:
            return ready("Planned", status.message, status=False)
        case Stage.STAGED:
            return ready("Staged", status.message, status=False)
        case _:
            return ready("HostNotPrepared", status.message, status=False)


def _vm_uses(files: Hardware, inventory: Inventory) -> Sequence[str]:
    """The processes that use what VMs are given: functions on vfio-pci, and vGPUs."""
    carrying = {one.address for one in inventory.vgpus}
    addresses = [
        one.address
        for one in inventory.functions
        if one.driver == VFIO_DRIVER or one.address in carrying
    ]
    found = read_holders(files.host, addresses, files.workloads)
    return list(dict.fromkeys(one.text for users in found.values() for one in users))
