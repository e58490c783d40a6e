"""Carries out VGPULayouts on the GPUs of one node, through the desired states of the lower objects.

Every GPU is a matter of its own: one that is refused holds up no other. As long as inventory and
objects are as a layout asks, or only the controllers of the lower objects have something to do,
nothing is done; else users are looked for when it is the card's turn, everything is judged
again, and the next stage is written. No hardware is ever written from here, and a layout that is
deleted, or means a GPU no more, changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from typing import NamedTuple

import msgspec

from laneway.api import (
    LAYOUT_DONE,
    LAYOUT_IN_PROGRESS,
    LAYOUT_REFUSED,
    CoreNode,
    LayoutGpu,
    PCIDeviceClaim,
    VGPULayout,
)
from laneway.controllers.acting import ACTOR, Context
from laneway.controllers.devices import gpu as gpu_device
from laneway.controllers.devices import layout as projection
from laneway.controllers.devices.vgpu import parent_name
from laneway.controllers.layouts.current import terms
from laneway.controllers.layouts.lower_objects import LowerObjects, origin_of
from laneway.controllers.layouts.ownership import Ownership
from laneway.controllers.layouts.stage_writer import (
    Case,
    Key,
    StageWriter,
    accepted_entry,
    is_outdated,
)
from laneway.controllers.layouts.status import LAYOUTS, LayoutStatus
from laneway.controllers.tracing import tell
from laneway.core.gpu.modes import GpuModes
from laneway.core.inventory import Inventory
from laneway.core.layout.desired import (
    DesiredLayout,
    owner_words,
)
from laneway.core.layout.objects import Objects
from laneway.core.layout.stages import is_asked, is_met
from laneway.core.vgpu.capacity import still_fits
from laneway.core.vgpu.spelling import named
from laneway.host.holders import have_ended
from laneway.kube.client import Client
from laneway.kube.controller import Retry, run_workers
from laneway.kube.errors import ConflictError, NotFoundError
from laneway.kube.informer import Informer
from laneway.kube.queue import WorkQueue

log = logging.getLogger(__name__)

PROGRESS_SECONDS = 1.0
"""How often at most an entry is written that only shows progress, because all agents see it."""


class _Look(NamedTuple):
    """What a closer look ended in, which stands as long as nothing that it depends on changes."""

    retry_fingerprint: tuple[object, ...]
    entry: LayoutGpu
    again: float
    """When to look again all the same: who holds a device lets it go without a word."""
    processes: tuple[int, ...] = ()
    """Those that hold it, as far as processes do: the look stands until one of them has ended."""


Outcome = tuple[LayoutGpu | None, Retry | None]
"""The entry of a GPU, None where there is nothing new to say yet; and when to look again."""


class LayoutController:
    """The layouts of one node's GPUs."""

    workers = 4

    def __init__(
        self,
        node: str,
        client: Client,
        context: Context,
        lower: LowerObjects,
        *,
        layouts: Informer[VGPULayout],
        nodes: Informer[CoreNode],
        claims: Informer[PCIDeviceClaim],
    ) -> None:
        self.queue: WorkQueue[Key] = WorkQueue()
        self._node = node
        self._client = client
        self._context = context
        self._lower = lower
        self._layouts = layouts
        self._nodes = nodes
        self._claims = claims
        self._status = LayoutStatus(node, client, context.metrics)
        self._ownership = Ownership(node, layouts, nodes, self._status)
        self._writer = StageWriter(
            node,
            client,
            context,
            lower,
            layouts=layouts,
            status=self._status,
            ownership=self._ownership,
        )
        self._looks: dict[Key, _Look] = {}
        self._began: dict[Key, float] = {}
        self._reported: dict[Key, float] = {}
        """When progress was written last."""

    # ------------------------------------------------------------------------- what triggers

    def observed(self, inventory: Inventory) -> None:
        """Take a new inventory; layouts of the GPUs that changed in it are looked at."""
        before = self._ownership.found
        self._ownership.found = projection.gpus(inventory, self._node)
        for name in before.keys() | self._ownership.found.keys():
            if before.get(name) != self._ownership.found.get(name):
                self._ask(name)

    async def run(self) -> None:
        """Work until cancelled. All caches but that of the layouts must be synced."""
        await self._layouts.synced.wait()
        self._layouts.subscribe(self._layout_changed)
        self._nodes.subscribe(self._node_changed)
        self._lower.gpus.follow(lambda gpu: self._ask(gpu.metadata.name))
        self._lower.migs.follow(lambda gpu: self._ask(gpu.metadata.name))
        self._lower.vgpus.follow(lambda vgpu: self._ask(parent_name(vgpu, self._node)))
        self._claims.follow(lambda claim: self._ask(claim.metadata.name))
        await run_workers(self.queue, self._reconcile, self.workers)

    def _layout_changed(self, before: VGPULayout | None, after: VGPULayout | None) -> None:
        if after is None and before is not None:
            self._forget(before.metadata.name)
        if before is None or after is None or terms(before) != terms(after):
            self.ask_all()  # Whose GPU it is may be another for every layout.
        if after is not None:
            self.queue.add_after(Key(after.metadata.name), self._context.timing.sum * _spread())

    def _node_changed(self, before: CoreNode | None, after: CoreNode | None) -> None:
        if before is None or after is None or before.metadata.labels != after.metadata.labels:
            self.ask_all()

    def ask_all(self) -> None:
        for layout in self._layouts.store:
            self._status.entries(layout)
        for gpu in self._ownership.found.keys() | self._status.gpus():
            self._ask(gpu)

    def _ask(self, gpu: str) -> None:
        """Look at a GPU under every layout that it matters to."""
        for layout in self._layouts.store:
            if self._ownership.selects(layout, gpu) or gpu in self._status.entries(layout):
                self.queue.add(Key(layout.metadata.name, gpu))

    def _forget(self, layout: str) -> None:
        self._status.forget(layout)
        self._writer.forget(layout)
        for known in (self._looks, self._began, self._reported):
            for key in [key for key in known if key.layout == layout]:
                known.pop(key)

    # --------------------------------------------------------------------------- one GPU

    async def _reconcile(self, key: Key) -> Retry | None:
        layout = self._layouts.store.get(key.layout)
        if layout is None or layout.metadata.deletion_timestamp:
            return None
        try:
            if not key.gpu:
                return await self._status.keep(layout)
            return await self._serve(key, layout)
        except (ConflictError, NotFoundError) as error:
            log.debug("%s: another client changed it first: %s", key, error)
            return Retry(0.25 * _spread())

    async def _serve(self, key: Key, layout: VGPULayout) -> Retry | None:
        """Have one GPU be as the layout asks, and tell how far that is."""
        known = self._status.entries(layout).get(key.gpu)
        if not self._ownership.selects(layout, key.gpu):
            # A GPU that could not be read keeps its object, and what was said about it.
            if key.gpu in self._ownership.found or self._lower.gpus.store.get(key.gpu) is None:
                await self._status.tell(layout, key.gpu, None)
            return None
        began = self._began.setdefault(key, _now())
        entry, again = await self._decide(key, layout, known)
        if entry is None:
            return again
        if entry.state == LAYOUT_IN_PROGRESS:
            reported = self._reported.get(key, -PROGRESS_SECONDS)
            if _judgement(known) == _judgement(entry) and reported + PROGRESS_SECONDS > _now():
                return Retry(reported + PROGRESS_SECONDS - _now())
            self._reported[key] = _now()
        else:
            self._began.pop(key, None)
            if _judgement(known) != _judgement(entry):
                self._say(layout, entry, _now() - began)
        await self._status.tell(layout, key.gpu, entry)
        if is_outdated(layout, self._layouts) or not self._ownership.selects(layout, key.gpu):
            # A GPU that is meant no more is not read, as long as nothing is reported about it.
            return Retry(0.0)
        return again

    async def _decide(self, key: Key, layout: VGPULayout, known: LayoutGpu | None) -> Outcome:
        """Do what can be done now."""
        found, stored = self._ownership.found[key.gpu], self._lower.stored(key.gpu)
        if lag := self._lower.lag(stored):
            return None, Retry(lag)
        objects, has = self._lower.desired_states(stored), self._ownership.owner(key.gpu)
        blank = self._blank(key, layout, known, objects, has)
        names = named(found.gpu, found.functions)
        desired = projection.desired(layout, found.gpu.address, names)
        if not isinstance(desired, DesiredLayout):
            return projection.refused(blank, desired, layout), None
        against = self._ownership.against(key.gpu, layout, desired, objects, has)
        if not against and desired.shared:
            claims, gpu = self._claims.store, found.gpu
            claimed = gpu_device.claimed_whole(claims, self._node, gpu)
            against = (claimed,) if claimed else ()
        if against:
            return projection.refused(blank, against, layout), None
        if not layout.spec.dry_run and is_asked(desired, found, objects):
            accepted = accepted_entry(blank, layout)
            if is_met(desired, found):
                return projection.done(accepted, desired), None
            if not objects.refused:
                return projection.handed_over(accepted, desired, found), None
        retry_fingerprint = (terms(layout), has, found, objects, blank.owner)
        look = self._looks.get(key)
        stands = (
            look is not None and look.retry_fingerprint == retry_fingerprint and _now() < look.again
        )
        if look and stands and not have_ended(self._context.hardware.host, look.processes):
            same = msgspec.structs.replace(look.entry, fits=blank.fits)
            return same, self._again(look.again - _now(), look.processes)
        caller = "VGPULayout", str(key)
        address = found.gpu.address
        with self._context.locks.on(address, caller, lambda: self.queue.add(key)) as acquired:
            if not acquired:
                return None, None
            case = Case(key, layout, known, stored, blank, found.gpu)
            entry, again, held_by = await self._writer.look(case, desired)
        if entry is not None and again is not None:
            self._looks[key] = _Look(retry_fingerprint, entry, _now() + again.after, held_by)
            again = self._again(again.after, held_by)
        return entry, again

    def _blank(
        self, key: Key, layout: VGPULayout, known: LayoutGpu | None, objects: Objects, has: str
    ) -> LayoutGpu:
        """A new entry, without a judgement."""
        found = self._ownership.found[key.gpu]
        accepted = 0
        # A dry run releases what it was applied to: others may change that meanwhile.
        if known is not None and not layout.spec.dry_run:
            accepted = known.accepted_generation
            if projection.is_accepted(layout, known):
                accepted = layout.metadata.generation
            elif projection.owns(known):
                accepted = accepted or known.observed_generation
        single = any(one.asks is not None for one in objects.vgpus)
        return LayoutGpu(
            name=key.gpu,
            node_name=self._node,
            observed_generation=layout.metadata.generation,
            accepted_generation=accepted,
            final=_is_final(known, layout),
            owner=owner_words(has if self._ownership.is_owned(key.gpu, has) else "", single=single),
            fits=still_fits(found.gpu, found.functions, found.modes or GpuModes()),
        )

    def _say(self, layout: VGPULayout, entry: LayoutGpu, seconds: float) -> None:
        """An event on the layout when a GPU is done or refused.

        A dry run has its answer in its status. One is made for each change of a form that shows
        what would happen, and nothing has happened.
        """
        if layout.spec.dry_run or entry.state not in (LAYOUT_DONE, LAYOUT_REFUSED):
            return
        warning = entry.state == LAYOUT_REFUSED
        tell(
            self._context.tracer,
            "reconcile VGPULayout",
            origin_of(layout),
            self._node,
            time.time_ns() - round(seconds * 1e9),
            error=entry.message if warning else "",
            gpu=entry.name,
            reason=entry.reason,
        )
        how = "Tried" if warning else "Done"
        text = f"{entry.name}: {entry.message} {how} by {ACTOR} in {seconds:.2f} s."
        self._context.recorder.record(LAYOUTS.ref(layout), entry.reason, text, warning=warning)
        log.log(
            logging.WARNING if warning else logging.INFO,
            "%s %s: %s",
            LAYOUTS.kind,
            layout.metadata.name,
            text,
            extra={"reason": entry.reason},
        )

    def _again(self, after: float, processes: tuple[int, ...]) -> Retry:
        """When to look again; soon where a process is in the way, which is seen at little cost."""
        return Retry(min(after, self._context.timing.holder) if processes else after)


# ------------------------------------------------------------------------------------------ parts


def _is_final(known: LayoutGpu | None, layout: VGPULayout) -> bool:
    """Whether the present desired state of a layout was refused for good."""
    generation = layout.metadata.generation
    return known is not None and known.final and known.observed_generation == generation


def _judgement(entry: LayoutGpu | None) -> tuple[object, ...]:
    """What an event says only once, and what is more than progress."""
    return (entry.observed_generation, entry.state, entry.reason) if entry else ()


def _spread() -> float:
    return random.uniform(1, 2)  # noqa: S311 - spreads agents, is no secret


def _now() -> float:
    return asyncio.get_running_loop().time()
