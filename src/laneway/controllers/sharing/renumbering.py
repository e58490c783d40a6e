"""Has desired states follow their cards to other addresses, before anybody acts on them.

A node boots with a card in another slot: its objects speak of the old address. What is desired
there is written to the objects of the new names, and what nothing takes the place of is removed;
GPU and vGPUs then come back by their own controllers. This is done at the start, between the first
scan and the first decision, and again whenever a scan shows such a move, which it first can once
the driver has been loaded. Meanwhile nothing is done about the GPUs concerned.

All writes are journalled on the node before the first one, and struck out card by card. Each can be
repeated, so an agent that was killed between any two does those of that card once more.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import assert_never

import msgspec

from laneway.api import MigConfiguration, SRIOVGPUDevice, VGPUDevice
from laneway.controllers.acting import ACTOR, Context
from laneway.controllers.written import PATIENCE_SECONDS, Written
from laneway.core import keys, names
from laneway.core.inventory import Inventory
from laneway.core.pci import PciAddress
from laneway.core.raw import JsonObject
from laneway.core.renumbering import DesiredState, Gone, Kind, Move, Renumbering, carry
from laneway.host.attributes import describe
from laneway.host.plans import moved
from laneway.host.plans.files import StateError
from laneway.host.plans.state import BusyError
from laneway.kube.client import Client
from laneway.kube.errors import AlreadyExistsError, ConflictError, KubeError, NotFoundError
from laneway.kube.informer import Informer
from laneway.kube.resource import KubeObject, Resource, served

log = logging.getLogger(__name__)

_TYPES: dict[Kind, type[SRIOVGPUDevice | VGPUDevice | MigConfiguration]] = {
    "SRIOVGPUDevice": SRIOVGPUDevice,
    "VGPUDevice": VGPUDevice,
    "MigConfiguration": MigConfiguration,
}
_ORDER: tuple[Kind, ...] = ("VGPUDevice", "MigConfiguration", "SRIOVGPUDevice")
"""The GPU's own object comes last: with it the rest counts."""


class Renumberer:
    """Owns the moves of one node. `settle` once, then run `run` in a task."""

    def __init__(
        self,
        node: str,
        client: Client,
        context: Context,
        informers: dict[Kind, Informer[KubeObject]],
    ) -> None:
        self._node = node
        self._client = client
        self._state = context.hardware.state
        self._recorder = context.recorder
        self._identity = context.identity
        self._pause = context.timing.renumber
        self._informers = informers
        self._written: dict[Kind, Written] = {kind: Written() for kind in _TYPES}
        self._wanted = asyncio.Event()
        self._shown = asyncio.Event()
        for informer in informers.values():
            informer.subscribe(self._changed)

    def observed(self, inventory: Inventory) -> None:
        """Take a new inventory. Must be called before the controllers that act."""
        self._identity.observed(inventory)
        self._look()

    async def settle(self) -> None:
        """Have all desired states where their cards are, as far as that can be now."""
        try:
            begun = moved.read(self._state)
            if begun is not None:
                await self._finish(begun)
            while moves := self._identity.moves():
                await self._finish(self._begin(moves))
        except KubeError as error:
            # What is written half stays journalled, and held.
            log.warning("configuration cannot follow its cards yet: %s", error)
            self._wanted.set()
            return
        except (OSError, StateError) as error:
            text = describe(error) if isinstance(error, OSError) else str(error)
            log.error("configuration cannot follow its cards: %s", text)  # noqa: TRY400 - its text says it all
        except BusyError as error:
            log.warning("configuration cannot follow its cards: %s", error.refusal.words)
        self._identity.moving = frozenset()

    async def run(self) -> None:
        """Settle whenever a move shows, until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            await self.settle()
            if self._wanted.is_set() or self._identity.moves():
                await asyncio.sleep(self._pause)
                self._wanted.set()

    def _changed(self, _before: object, _after: object) -> None:
        self._shown.set()
        self._look()

    def _look(self) -> None:
        if moves := self._identity.moves():
            self._identity.moving |= _concerned(moves)
            self._wanted.set()

    # ------------------------------------------------------------------------------------- writing

    def _begin(self, moves: tuple[Move, ...]) -> Renumbering:
        """Journal what is to be done."""
        carried = carry(moves, self._identity.desired_states())
        gone = []
        for desired in carried.gone:
            stored = self._informers[desired.kind].store.get(self._name(desired.address))
            if stored is not None:
                gone.append(Gone(desired.kind, stored.metadata.name, stored.metadata.uid))
        renumbering = Renumbering(moves, carried.put, tuple(gone), self._given_up(moves))
        with self._state.lock(ACTOR):
            moved.begin(self._state, renumbering)
        return renumbering

    def _given_up(self, moves: tuple[Move, ...]) -> dict[str, str]:
        sources = {move.before for move in moves}
        found = {}
        for move in moves:
            stored = self._informers["SRIOVGPUDevice"].store.get(self._name(move.after))
            if not isinstance(stored, SRIOVGPUDevice) or move.after in sources:
                continue
            if self._identity.is_desired(stored):
                found[str(move.after)] = stored.status.gpu_uuid
        return found

    async def _finish(self, renumbering: Renumbering) -> None:
        """Do all that is journalled, and strike out what is complete."""
        self._identity.moving |= _concerned(renumbering.moves)
        left = renumbering
        for move in renumbering.moves:
            mine = [desired for desired in renumbering.put if desired.gpu == move.after]
            for desired in sorted(mine, key=lambda desired: _ORDER.index(desired.kind)):
                await self._put(desired)
            # What a user changes from now on is not to be changed back.
            rest = tuple(desired for desired in left.put if desired.gpu != move.after)
            left = msgspec.structs.replace(left, put=rest)
            moved.begin(self._state, left)
        for gone in sorted(renumbering.gone, key=lambda gone: _ORDER.index(gone.kind)):
            await self._remove(gone)
        await self._until_shown(renumbering)
        moved.end(self._state)
        for move in renumbering.moves:
            self._tell(move, renumbering)

    async def _put(self, desired: DesiredState) -> None:
        """Make an object that requests this, or change the one that is there."""
        resource, name = served(_TYPES[desired.kind]), self._name(desired.address)
        spec = desired.spec | self._place(desired)
        try:
            stored = await self._client.get(resource, name)
        except NotFoundError:
            body = {
                "apiVersion": resource.api_version,
                "kind": desired.kind,
                "metadata": {
                    "name": name,
                    "labels": self._labels(desired),
                    "annotations": _noted(desired) if desired.note else {},
                },
                "spec": spec,
            }
            try:
                stored = await self._client.create(resource, body)
            except AlreadyExistsError:
                stored = await self._client.get(resource, name)
        if _is_going(stored):
            raise KubeError(f"{desired.kind} {name} is still being deleted")
        if _plain(stored.spec) != _plain(msgspec.convert(spec, type(stored.spec))):
            # So that admission does not take what has happened to the card for a user's desired
            # state.
            moved_from = {keys.ANNOTATION_MOVED: stored.metadata.resource_version}
            body = {"metadata": {"annotations": {**moved_from, **_noted(desired)}}, "spec": spec}
            stored = await self._client.patch(resource, name, body)
        status = dict.fromkeys(_plain(stored.status)) | desired.status
        if {field: value for field, value in status.items() if value} != _plain(stored.status):
            body = {"status": status}
            stored = await self._client.patch(resource, name, body, subresource="status")
        self._written[desired.kind].note(stored.metadata)

    async def _remove(self, gone: Gone) -> None:
        """Delete the object that was seen, and none that has come in its place."""
        try:
            await self._client.delete(served(_TYPES[gone.kind]), gone.name, uid=gone.uid)
        except (NotFoundError, ConflictError):
            return

    async def _until_shown(self, renumbering: Renumbering) -> None:
        """Wait until the caches, by which everybody decides, show all of it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not self._is_shown(renumbering):
                    self._shown.clear()
                    await self._shown.wait()

    def _is_shown(self, renumbering: Renumbering) -> bool:
        for desired in renumbering.put:
            name = self._name(desired.address)
            stored = self._informers[desired.kind].store.get(name)
            if self._written[desired.kind].lag(name, stored.metadata if stored else None):
                return False
        for gone in renumbering.gone:
            stored = self._informers[gone.kind].store.get(gone.name)
            if stored and stored.metadata.uid == gone.uid and not _is_going(stored):
                return False
        return True

    # --------------------------------------------------------------------------------------- words

    def _name(self, address: PciAddress) -> str:
        return names.pci_object_name(self._node, address)

    def _place(self, desired: DesiredState) -> dict[str, str]:
        match desired.kind:
            case "SRIOVGPUDevice":
                return {"address": str(desired.address), "nodeName": self._node}
            case "VGPUDevice":
                return {
                    "address": str(desired.address),
                    "nodeName": self._node,
                    "parentGPUDeviceAddress": str(desired.gpu),
                }
            case "MigConfiguration":
                return {"gpuAddress": str(desired.address), "nodeName": self._node}
            case _:
                assert_never(desired.kind)

    def _labels(self, desired: DesiredState) -> dict[str, str]:
        parent = (
            {keys.LABEL_PARENT_GPU: self._name(desired.gpu)} if desired.kind == "VGPUDevice" else {}
        )
        return {keys.LABEL_NODE: self._node, **parent}

    def _tell(self, move: Move, renumbering: Renumbering) -> None:
        vgpus = sum(w.kind == "VGPUDevice" and w.gpu == move.after for w in renumbering.put)
        text = (
            f"Card {move.card} has moved from {move.before} to {move.after}. Its configuration "
            f"followed, with the vGPUs of {vgpus} virtual functions. Done by {ACTOR}."
        )
        if gone := renumbering.given_up.get(str(move.after)):
            text += f" The configuration of {gone}, which is gone, is deleted."
        log.warning("%s", text)
        gpus: Resource[SRIOVGPUDevice] = served(SRIOVGPUDevice)
        stored = self._informers["SRIOVGPUDevice"].store.get(self._name(move.after))
        if stored is not None:
            self._recorder.record(gpus.ref(stored), "Renumbered", text)


def _is_going(stored: KubeObject) -> bool:
    return bool(stored.metadata.deletion_timestamp)


def _noted(desired: DesiredState) -> dict[str, str | None]:
    """Who requested what a card brings along."""
    return {keys.ANNOTATION_REQUESTED_BY: desired.note}


def _concerned(moves: tuple[Move, ...]) -> frozenset[PciAddress]:
    return frozenset(address for move in moves for address in (move.before, move.after))


def _plain(part: msgspec.Struct) -> JsonObject:
    """What an object says, without what equals a default."""
    plain: JsonObject = msgspec.to_builtins(part)
    return {field: value for field, value in plain.items() if value}
