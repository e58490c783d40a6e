"""Judges a layout's desired state of one GPU by a close look, and writes its next stage.

It runs while the GPU is locked. No hardware is ever written from here: a stage is what the objects
of the GPU are to request next.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import msgspec

from laneway.api import LAYOUT_DONE, LayoutGpu, VGPULayout
from laneway.controllers.acting import Context
from laneway.controllers.devices import layout as projection
from laneway.controllers.layouts.current import stands, terms
from laneway.controllers.layouts.lower_objects import LowerObjects, Stored
from laneway.controllers.layouts.ownership import Ownership
from laneway.controllers.layouts.status import LayoutStatus
from laneway.core.decision import Decision, refusals_of
from laneway.core.gpu.modes import GpuModes
from laneway.core.layout.desired import DesiredLayout, owner_words, plan_desired
from laneway.core.layout.forecast import fits_afterwards
from laneway.core.layout.objects import Objects
from laneway.core.layout.stages import Stage, next_stage
from laneway.core.pci import PciAddress, PciFunction
from laneway.core.plan import Plan
from laneway.core.refusals import UpdateRejected, processes_of
from laneway.core.situation import Holder, Situation, with_holder
from laneway.host.situation import observe
from laneway.kube.client import Client
from laneway.kube.controller import Retry
from laneway.kube.informer import Informer


class Key(NamedTuple):
    """One GPU of this node under one layout; without a GPU: the sum of the layout's entries."""

    layout: str
    gpu: str = ""

    def __str__(self) -> str:
        return f"{self.layout} on {self.gpu}" if self.gpu else self.layout


class Case(NamedTuple):
    """What a closer look is taken for."""

    key: Key
    layout: VGPULayout
    known: LayoutGpu | None
    """The entry that was written last."""
    stored: Stored
    blank: LayoutGpu
    """The new entry, without a judgement."""
    gpu: PciFunction


class Looked(NamedTuple):
    """What a close look ended in."""

    entry: LayoutGpu | None
    """The entry of the GPU; None where there is nothing new to say yet."""
    again: Retry | None
    processes: tuple[int, ...] = ()
    """Those that hold the GPU, as far as processes do."""


class StageWriter:
    """Looks closely at the GPUs of one node, one at a time each."""

    def __init__(
        self,
        node: str,
        client: Client,
        context: Context,
        lower: LowerObjects,
        *,
        layouts: Informer[VGPULayout],
        status: LayoutStatus,
        ownership: Ownership,
    ) -> None:
        self._node = node
        self._client = client
        self._context = context
        self._lower = lower
        self._layouts = layouts
        self._status = status
        self._ownership = ownership
        self._put_back: dict[Key, float] = {}

    def forget(self, layout: str) -> None:
        """A layout has been deleted."""
        for key in [key for key in self._put_back if key.layout == layout]:
            self._put_back.pop(key)

    async def look(self, case: Case, desired: DesiredLayout) -> Looked:
        """Judge the desired state by a closer look, and write the next stage of it."""
        layout, blank, address = case.layout, case.blank, desired.gpu.address
        situation = await observe(self._context.hardware, self._node, [address])
        decision = plan_desired(desired, situation)
        retry = Retry(self._context.timing.retry)
        if layout.spec.dry_run:
            return Looked(self._trial(case, desired, decision, situation), retry)
        if refusals := refusals_of(decision):
            entry = projection.refused(blank, refusals, layout)
            return Looked(entry, retry, processes_of(refusals))
        if blank.final:
            return Looked(projection.possible_now(blank, layout), retry)
        objects = self._lower.desired_states(case.stored)
        seen = projection.found(situation.inventory, address, situation.gpus.get(address))
        first: Looked | None = None
        while True:
            plan = decision if isinstance(decision, Plan) else None
            stage = next_stage(desired, plan, seen, objects)
            entry = projection.in_progress(
                accepted_entry(blank, layout),
                stage.waiting,
                projection.plan_steps(decision),
                objects,
            )
            if not stage.writes:
                if stage.waiting == "nothing":
                    self._context.observer.want()
                return Looked(entry, retry)
            looked, rejected = await self._write(case, stage, entry, seen.modes)
            first = first or looked
            kept = _kept(stage, objects, rejected)
            if kept is None:
                return first if rejected else looked
            # A VM that does not run keeps it, which no device shows: perhaps another can go.
            situation = with_holder(situation, kept, Holder("process", "a VM keeps it"))
            decision = plan_desired(desired, situation)
            if refusals_of(decision):
                return first

    def _trial(
        self, case: Case, desired: DesiredLayout, decision: Decision, situation: Situation
    ) -> LayoutGpu:
        """What would be done, and how much would fit afterwards."""
        has = self._ownership.owner(case.key.gpu)
        owning = has if self._ownership.is_owned(case.key.gpu, has) else ""
        entry = projection.planned(case.blank, decision, case.layout, owning)
        fits = fits_afterwards(desired.gpu, case.gpu, situation) if entry.steps else {}
        return msgspec.structs.replace(entry, fits_afterwards=fits)

    async def _write(
        self, case: Case, stage: Stage, entry: LayoutGpu, modes: GpuModes | None
    ) -> tuple[Looked, UpdateRejected | None]:
        """Write a stage, unless another client has just changed the GPU; why one was refused."""
        key, layout = case.key, case.layout
        if self._changed(key, layout, case.stored):
            return Looked(None, Retry(0.0)), None
        back = _was_done(case.known, layout)
        due = self._put_back.get(key, 0.0) + self._context.timing.put_back
        if back and due > _now():
            return Looked(None, Retry(due - _now())), None
        retry = Retry(self._context.timing.retry)
        if not await stands(self._client, layout, self._node):
            return Looked(None, retry), None  # The watch will show why.
        if back:
            self._put_back[key] = _now()
        ids = {one.name: one.id for one in modes.profiles} if modes else {}
        patches = self._lower.patches(case.stored, stage, ids)
        if not projection.is_accepted(layout, case.known):
            # Nothing is written of a layout of which a part is refused.
            if refusal := await self._lower.write(patches, layout, dry_run=True):
                return Looked(projection.refused(case.blank, (refusal,), layout), retry), refusal
            await self._status.tell(layout, key.gpu, entry)
        refusal = await self._lower.write(patches, layout, is_back=back)
        if refusal is None:
            return Looked(entry, None), None
        self._put_back.pop(key, None)  # It was not put back, and another vGPU may go at once.
        blank = accepted_entry(case.blank, layout)
        return Looked(projection.refused(blank, (refusal,), layout), retry), refusal

    def _changed(self, key: Key, layout: VGPULayout, stored: Stored) -> bool:
        """Whether anything was desired again while we looked."""
        return (
            is_outdated(layout, self._layouts)
            or self._ownership.owner(key.gpu) != key.layout
            or self._lower.desired_states(self._lower.stored(key.gpu))
            != self._lower.desired_states(stored)
        )


def _kept(stage: Stage, objects: Objects, rejected: UpdateRejected | None) -> PciAddress | None:
    """The function whose vGPU was to go and must not; None: it is something else, or nothing."""
    if rejected is None:
        return None
    going = {f"VGPUDevice {name}" for name, profile in stage.vgpus if profile is None}
    names = {f"VGPUDevice {one.name}": one.address for one in objects.vgpus}
    return names.get(rejected.changed) if rejected.changed in going else None


def is_outdated(layout: VGPULayout, layouts: Informer[VGPULayout]) -> bool:
    """Whether a layout has been changed or deleted since."""
    now = layouts.store.get(layout.metadata.name)
    return now is None or terms(now) != terms(layout)


def accepted_entry(entry: LayoutGpu, layout: VGPULayout) -> LayoutGpu:
    """An entry of a layout that is applied from now on."""
    return msgspec.structs.replace(
        entry,
        accepted_generation=layout.metadata.generation,
        final=False,
        owner=owner_words(layout.metadata.name, single=False),
    )


def _was_done(known: LayoutGpu | None, layout: VGPULayout) -> bool:
    """Whether a GPU was as the layout asks it to be now, so that another client changed it."""
    return (
        known is not None
        and known.state == LAYOUT_DONE
        and known.observed_generation == layout.metadata.generation
    )


def _now() -> float:
    return asyncio.get_running_loop().time()
