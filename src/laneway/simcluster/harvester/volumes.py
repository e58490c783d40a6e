"""The volumes of VMs, as Harvester's VM controller makes and deletes them.

A VM lists in an annotation the claims that are to be made for it. When it is deleted, those go that
another annotation names; the others stay.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import msgspec

from laneway.api import ObjectMeta
from laneway.kube.client import Client
from laneway.kube.controller import run_workers
from laneway.kube.errors import AlreadyExistsError, ConflictError, NotFoundError
from laneway.kube.informer import Informer
from laneway.kube.kubevirt import VIRTUAL_MACHINES, VirtualMachine
from laneway.kube.queue import WorkQueue
from laneway.kube.resource import Key, Resource, key_of
from laneway.simcluster.clusterapi.writing import hold, let_go

ANNOTATION_TEMPLATES = "harvesterhci.io/volumeClaimTemplates"
ANNOTATION_REMOVED = "harvesterhci.io/removedPersistentVolumeClaims"
FINALIZER = "harvesterhci.io/simulated-volumes"
"""Harvester's own finalizer has the name of its controller's handler."""


class _Claim(msgspec.Struct, frozen=True):
    """A claim, as far as it is read back."""

    metadata: ObjectMeta = ObjectMeta()


CLAIMS = Resource("", "v1", "persistentvolumeclaims", True, _Claim, "PersistentVolumeClaim")


class Volumes:
    """The controller. Run `run` in a task."""

    def __init__(self, client: Client) -> None:
        self.queue: WorkQueue[Key] = WorkQueue(cap=10.0)
        self._client = client
        self._vms = Informer(client, VIRTUAL_MACHINES)
        self._vms.follow(lambda vm: self.queue.add(key_of(vm)))

    async def run(self) -> None:
        """Make and delete claims until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._vms.run())
            await run_workers(self.queue, self._reconcile)

    async def _reconcile(self, key: Key) -> None:
        vm = self._vms.store.get(key.name, key.namespace)
        if vm is None:
            return
        with contextlib.suppress(ConflictError):  # the watch shows the newer one
            if vm.metadata.deletion_timestamp:
                await self._delete(vm)
            else:
                await self._make(vm)

    async def _make(self, vm: VirtualMachine) -> None:
        meta = vm.metadata
        templates = _decode(meta.annotations.get(ANNOTATION_TEMPLATES) or "[]")
        if not templates:
            return
        await hold(self._client, VIRTUAL_MACHINES, meta, FINALIZER)
        for one in templates:
            with contextlib.suppress(AlreadyExistsError):
                body = {"apiVersion": "v1", "kind": CLAIMS.kind, **one}
                await self._client.create(CLAIMS, body, meta.namespace)

    async def _delete(self, vm: VirtualMachine) -> None:
        meta = vm.metadata
        for name in meta.annotations.get(ANNOTATION_REMOVED, "").split(","):
            if name.strip():
                with contextlib.suppress(NotFoundError):
                    await self._client.delete(CLAIMS, name.strip(), meta.namespace)
        await let_go(self._client, VIRTUAL_MACHINES, meta, FINALIZER)


_decode = msgspec.json.Decoder(list[dict[str, Any]]).decode
