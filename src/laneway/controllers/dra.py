"""Publishes what a node offers to dynamic resource allocation: one pool of ResourceSlices.

This is in addition to the device plugins, which go on allocating devices. A device that a pod has
from them, or that cannot be allocated, is tainted, so that no claim is given it; and what claims
have is unhealthy for the plugins. What a slice says and when it is written is decided in
`core.dra`; here it is sent.

Many a server lacks something. One without `resource.k8s.io/v1` (before Kubernetes 1.34) is logged
once and asked again now and then. One that drops counters and taints, which are behind feature
gates, is found out by a trial that changes nothing, before anything is written that would say less
than it should; it gets only devices that need neither.

A node that does not publish takes away what it published before.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from laneway.api import CoreNode
from laneway.controllers.metrics import AgentMetrics
from laneway.controllers.written import Written
from laneway.core.device_plugin.offer import Offer
from laneway.core.dra import slices
from laneway.core.dra.claims import allocated, without_claimed
from laneway.core.dra.device import DRIVER, device_name
from laneway.core.dra.slices import Owners, Pool, Stored
from laneway.core.inventory import Inventory
from laneway.kube.client import Client
from laneway.kube.controller import Retry, run_workers
from laneway.kube.errors import ForbiddenError, InvalidError, KubeError, NotFoundError
from laneway.kube.informer import Informer
from laneway.kube.queue import WorkQueue
from laneway.kube.slices import CLAIMS, SLICES, ResourceClaim, ResourceSlice

log = logging.getLogger(__name__)

MISSING_SECONDS = 600.0
"""How soon to ask again for an API that the server does not have."""
FAILED_SECONDS = 10.0


class Slices:
    """The one writer of a node's slices."""

    def __init__(
        self,
        node: str,
        client: Client,
        nodes: Informer[CoreNode],
        metrics: AgentMetrics,
        *,
        publish: bool,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._node = node
        self._client = client
        self._nodes = nodes
        self._metrics = metrics
        self._publish = publish
        self._sleep = sleep
        self._own = f"spec.driver={DRIVER},spec.nodeName={node}"
        self._informer = Informer(client, SLICES, field_selector=self._own)
        self._claims = Informer(client, CLAIMS)
        self._claimed: dict[str, str] = {}
        """Whose a device is, by its name."""
        self.known = asyncio.Event()
        """Set once it is known which devices claims have, or that none can have any."""
        if not publish:
            self.known.set()
        self._listeners: list[Callable[[], None]] = []
        self._queue: WorkQueue[str] = WorkQueue()
        self._written = Written()
        self._sent = 0
        """Slices of the pool as it was written last."""
        self._deleted: set[str] = set()
        """Uids of slices that the cache may still show."""
        self._seen: tuple[tuple[Offer, ...], Inventory, Owners] | None = None
        self._full: bool | None = None
        """Whether the server keeps counters and taints; None until that matters."""
        self._refused: Pool | None = None
        """What the server did not keep as it was sent, and need not be sent again."""

    def offered(self, offers: Iterable[Offer], inventory: Inventory, owners: Owners) -> None:
        """Take what the node offers now, and its holders from the device plugins."""
        seen = tuple(offers), inventory, owners
        if self._seen is None or seen[1] is not self._seen[1] or seen != self._seen:
            self._seen = seen
            self._queue.add(self._node)

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Have a call when claims have other devices than before."""
        self._listeners.append(listener)

    def without_claimed(self, offers: Iterable[Offer]) -> tuple[Offer, ...]:
        """The offers as device plugins may make them."""
        return without_claimed(offers, self._claimed)

    def claim_of(self, offer: Offer) -> str:
        """The ResourceClaim that has a device; empty where none has it."""
        return self._claimed.get(device_name(offer), "")

    async def run(self) -> None:
        """Keep the node's slices in step until cancelled; or take them away, and return."""
        if not self._publish:
            await self._withdraw()
            return
        await self._served()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._informer.run())
            tasks.create_task(self._claims.run())
            self._claims.subscribe(self._claim_changed)
            tasks.create_task(self._know())
            await self._informer.synced.wait()
            self._informer.subscribe(self._changed)
            self._queue.add(self._node)
            tasks.create_task(run_workers(self._queue, self._reconcile))

    async def _know(self) -> None:
        await self._claims.synced.wait()
        self.known.set()

    async def _served(self) -> None:
        """Wait until the server has the API."""
        reported = False
        while True:
            try:
                async for _ in self._client.list(SLICES, limit=1):
                    return
            except NotFoundError:
                if not reported:
                    log.warning(
                        "the API server does not serve resource.k8s.io/v1, which needs Kubernetes "
                        "1.34: devices are not published for claims; device plugins continue"
                    )
                reported = True
                self.known.set()
                await self._sleep(MISSING_SECONDS)
            except KubeError as error:
                log.warning("cannot see whether the API server knows ResourceSlices: %s", error)
                await self._sleep(FAILED_SECONDS)

    async def _withdraw(self) -> None:
        while True:
            try:
                async for page in self._client.list(SLICES, field_selector=self._own):
                    await self._delete(SLICES.decode(item) for item in page.items)
            except (NotFoundError, ForbiddenError):
                return  # Without the API, or without rights to it, nothing was published.
            except KubeError as error:
                log.warning("cannot remove what was published for claims: %s", error)
                await self._sleep(FAILED_SECONDS)
            else:
                return

    def _changed(self, before: ResourceSlice | None, after: ResourceSlice | None) -> None:
        if before is not None and after is None:
            self._written.forget(before.metadata.name)
            self._deleted.discard(before.metadata.uid)
        self._queue.add(self._node)

    def _claim_changed(self, before: ResourceClaim | None, after: ResourceClaim | None) -> None:
        found = [
            () if one is None else allocated(one.status, self._node) for one in (before, after)
        ]
        if found[0] == found[1]:
            return
        self._claimed = {
            device: f"{one.metadata.namespace}/{one.metadata.name}"
            for one in self._claims.store
            for device in allocated(one.status, self._node)
        }
        for call in self._listeners:
            call()

    async def _reconcile(self, _: str) -> Retry | None:
        stored = {
            one.metadata.name: one
            for one in self._informer.store
            if one.metadata.uid not in self._deleted
        }
        if self._seen is None:
            return None
        sent = {slices.slice_name(self._node, index) for index in range(self._sent)}
        for name in stored.keys() | sent:
            found = stored.get(name)
            if lag := self._written.lag(name, found.metadata if found else None):
                return Retry(lag)
        wanted = await self._pool(*self._seen)
        if wanted == self._refused:
            return None
        known = [Stored(name, one.spec) for name, one in stored.items()]
        change = slices.writing(self._node, wanted, known)
        self._sent = len(change.write) or self._sent
        for name, spec in change.write:
            kept = await self._write(name, spec, stored.get(name))
            if not slices.alike(kept, spec):
                log.error(
                    "the API server stores ResourceSlice %s differently from what was sent: it is "
                    "not changed until this node's devices change",
                    name,
                )
                self._refused = wanted
                return None
        await self._delete(stored[name] for name in change.delete)
        return None

    async def _pool(self, offers: tuple[Offer, ...], inventory: Inventory, owners: Owners) -> Pool:
        wanted = slices.pool(offers, inventory, owners, full=True)
        if not slices.needs_more(wanted):
            return wanted
        if self._full is None:
            self._full = await self._keeps_all()
        return wanted if self._full else slices.pool(offers, inventory, owners, full=False)

    async def _keeps_all(self) -> bool:
        """Whether counters and taints come through, tried without a change."""
        for name, spec in slices.trial(self._node):
            body = {**_object(name), "spec": spec}
            try:
                made = await self._client.create(SLICES, body, dry_run=True)
            except InvalidError as error:
                kept, why = False, str(error)
            else:
                kept, why = slices.alike(made.spec, spec), "they are dropped"
            if not kept:
                log.warning(
                    "the API server takes no counters and taints of devices (feature gates "
                    "DRAPartitionableDevices and DRADeviceTaints; %s): of devices that exclude "
                    "each other one is published, and none that is in use",
                    why,
                )
                return False
        return True

    async def _write(
        self, name: str, spec: slices.Body, stored: ResourceSlice | None
    ) -> slices.Body:
        """Send one slice; gives what the server made of it."""
        if stored is None:
            body = {**_object(name), "spec": spec}
            if (node := self._nodes.store.get(self._node)) is not None:
                body["metadata"]["ownerReferences"] = [
                    {
                        "apiVersion": "v1",
                        "kind": "Node",
                        "name": self._node,
                        "uid": node.metadata.uid,
                    }
                ]
            verb, written = "create", await self._client.create(SLICES, body)
        else:
            gone = {field: None for field in slices.CONTENTS if field not in spec}
            patch = {"spec": {**spec, **gone}}
            verb, written = "patch", await self._client.patch(SLICES, name, patch)
        self._written.note(written.metadata)
        self._metrics.wrote(verb, "ResourceSlice")
        return written.spec

    async def _delete(self, found: Iterable[ResourceSlice]) -> None:
        for one in found:
            try:
                await self._client.delete(SLICES, one.metadata.name, uid=one.metadata.uid)
            except NotFoundError:
                continue
            self._deleted.add(one.metadata.uid)
            self._metrics.wrote("delete", "ResourceSlice")


def _object(name: str) -> dict[str, Any]:
    return {"apiVersion": SLICES.api_version, "kind": "ResourceSlice", "metadata": {"name": name}}
