"""Publishes what a node offers to dynamic resource allocation: one pool of ResourceSlices.

This is in addition to the device plugins, which go on allocating devices. A device that a pod has
from them, or that cannot be allocated, is tainted, so that no claim is given it; and what claims
have is unhealthy for the plugins. What a slice says and when it is written is decided in
`core.dra`; here it is sent.

Many a server lacks something. One without `resource.k8s.io/v1` (before Kubernetes 1.34) is logged
once and asked again now and then. One that drops counters and taints, which are behind feature
gates, is found out by a trial that changes nothing, before anything is written that would say less
than it should; it gets only devices that need neither.

A node that does not publish takes away what it published before. What claims got of it they keep,
so that the plugins do not allocate it until the claims are gone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NamedTuple

from laneway.api import CoreNode
from laneway.controllers.claimed import Claimed
from laneway.controllers.metrics import AgentMetrics
from laneway.controllers.written import Written
from laneway.core.device_plugin.offer import Offer
from laneway.core.dra import slices
from laneway.core.dra.claims import published
from laneway.core.dra.device import DRIVER
from laneway.core.dra.slices import Owners, Pool, Stored
from laneway.core.inventory import Inventory
from laneway.kube.client import Client
from laneway.kube.controller import Retry, run_workers
from laneway.kube.errors import (
    ForbiddenError,
    InvalidError,
    KubeError,
    NotFoundError,
    pause_after,
)
from laneway.kube.informer import Informer
from laneway.kube.queue import WorkQueue
from laneway.kube.slices import SLICES, ResourceSlice

log = logging.getLogger(__name__)

MISSING_SECONDS = 600.0
"""How soon to ask again for an API that the server does not have."""
FAILED_SECONDS = 2.0
"""How soon to ask again after a failure: pods get no device before the answer."""


class _Seen(NamedTuple):
    """What a node offers, and the holders of its devices."""

    offers: tuple[Offer, ...]
    given_up: tuple[Offer, ...]
    inventory: Inventory
    owners: Owners


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
        self._claimed = Claimed(node, client)
        self.queue: WorkQueue[str] = WorkQueue()
        self._written = Written()
        self._sent = 0
        """Slices of the pool as it was written last."""
        self._deleted: set[str] = set()
        """Uids of slices that the cache may still show."""
        self._seen: _Seen | None = None
        self._full: bool | None = None
        """Whether the server keeps counters and taints; None until that matters."""
        self._doubted: Pool | None = None
        """What the server did not keep for the first time, and which may be sent once again."""
        self._refused: Pool | None = None
        """What the server did not keep as it was sent, and need not be sent again."""

    def offered(
        self,
        offers: Iterable[Offer],
        inventory: Inventory,
        owners: Owners,
        given_up: Iterable[Offer] = (),
    ) -> None:
        """Take what the node offers now, and its holders from the device plugins.

        `given_up`: no longer offered, but maybe still in use.
        """
        seen = _Seen(tuple(offers), tuple(given_up), inventory, owners)
        if self._seen is None or inventory is not self._seen.inventory or seen != self._seen:
            self._seen = seen
            self.queue.add(self._node)

    @property
    def known(self) -> asyncio.Event:
        """Set once it is known which devices claims have, or that none can have any."""
        return self._claimed.known

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Have a call when claims have other devices than before."""
        self._claimed.subscribe(listener)

    def without_claimed(self, offers: Iterable[Offer]) -> tuple[Offer, ...]:
        """The offers as device plugins may make them."""
        return self._claimed.without_claimed(offers)

    def claim_of(self, offer: Offer) -> str:
        """The ResourceClaim that has a device; empty where none has it."""
        return self._claimed.claim_of(offer)

    async def run(self) -> None:
        """Keep the node's slices in step until cancelled; or take them away."""
        if not self._publish:
            await self._withdraw()
            return
        await self._served()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._informer.run())
            tasks.create_task(self._claimed.run())
            await self._informer.synced.wait()
            await self._claimed.known.wait()
            self._informer.subscribe(self._changed)
            self._claimed.subscribe(lambda: self.queue.add(self._node))
            self.queue.add(self._node)
            tasks.create_task(run_workers(self.queue, self._reconcile))

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
                self._claimed.cannot_be()
                await self._sleep(MISSING_SECONDS)
            except KubeError as error:
                log.warning("cannot see whether the API server knows ResourceSlices: %s", error)
                await self._sleep(pause_after(error, FAILED_SECONDS))

    async def _withdraw(self) -> None:
        """Remove the slices; then follow what claims got of them, if they may have got any."""
        while True:
            try:
                async for page in self._client.list(SLICES, field_selector=self._own):
                    await self._delete(SLICES.decode(item) for item in page.items)
                held = await self._claimed.are_there()
            except (NotFoundError, ForbiddenError):
                break  # Without the API, or without rights to it, nothing was published.
            except KubeError as error:
                log.warning("cannot remove what was published for claims: %s", error)
                await self._sleep(pause_after(error, FAILED_SECONDS))
            else:
                if self._deleted or held:
                    await self._claimed.run()
                break
        self._claimed.cannot_be()

    def _changed(self, before: ResourceSlice | None, after: ResourceSlice | None) -> None:
        if before is not None and after is None:
            self._written.forget(before.metadata.name)
            self._deleted.discard(before.metadata.uid)
        self.queue.add(self._node)

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
        wanted = await self._pool(self._seen)
        if wanted == self._refused:
            return None
        known = [Stored(name, one.spec) for name, one in stored.items()]
        change = slices.writing(self._node, wanted, known)
        self._sent = len(change.write) or self._sent
        for name, spec in change.write:
            kept = await self._write(name, spec, stored.get(name))
            if not slices.alike(kept, spec):
                return self._not_kept(name, wanted)
        await self._delete(stored[name] for name in change.delete)
        return None

    def _not_kept(self, name: str, wanted: Pool) -> Retry | None:
        """Try again what the server keeps: it may have been replaced by another one."""
        if self._full and wanted != self._doubted:
            self._doubted, self._full = wanted, None
            return Retry(0.0)
        log.error(
            "the API server stores ResourceSlice %s differently from what was sent: it is not "
            "changed until this node's devices change",
            name,
        )
        self._refused = wanted
        return None

    async def _pool(self, seen: _Seen) -> Pool:
        claimed = self._claimed.devices.keys()
        offers = published(seen.offers, seen.given_up, claimed, seen.owners)
        wanted = slices.pool(offers, seen.inventory, seen.owners, full=True)
        if not slices.needs_more(wanted):
            return wanted
        if self._full is None:
            self._full = await self._keeps_all()
        if self._full:
            return wanted
        return slices.pool(offers, seen.inventory, seen.owners, full=False, claimed=claimed)

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
