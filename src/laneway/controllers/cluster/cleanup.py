"""Takes away what a node leaves behind when it leaves the cluster.

A node is gone when the API server, asked at that moment, has no such Node, and it once had: this
manager saw it go, or the node's agent has noted its uid. Where an agent manages a VM that never
was a node of the cluster, nothing is touched. A desired state for a node that no agent ever wrote
about is its user's business. A Node that is only being deleted is still there: its agent may be at
work. Harvester holds such a Node by a finalizer until its own clean-up is over. A Node that still
carries that finalizer is released, since nothing here needs to hold it: what is left of a
node is found at any later look.

What can be removed is, whatever becomes of the rest; the rest is named and tried again. Claims are
released without their agent, which alone could have released the device. KubeVirt's entries follow
from the claims. If the node comes back, its agent makes its objects again.
"""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence

from laneway.api import CoreNode, PCIDeviceClaim, VGPULayout
from laneway.controllers.cluster.caches import Caches
from laneway.controllers.cluster.leading import Leading
from laneway.controllers.cluster.leftovers import (
    DEVICE_NODES,
    FINALIZERS,
    Leftover,
    layouts_with,
    leftovers,
)
from laneway.controllers.cluster.metrics import ManagerMetrics
from laneway.controllers.layouts.status import LayoutStatus
from laneway.core import allocation, keys
from laneway.kube.client import Client
from laneway.kube.controller import Retry
from laneway.kube.errors import KubeError, NotFoundError
from laneway.kube.kubevirt import VIRTUAL_MACHINES, VirtualMachine
from laneway.kube.resource import Key, Resource, T, key_of, served

log = logging.getLogger(__name__)

SHOWN = 5
"""So many objects are named of those that are left."""
AGAIN_SECONDS = 60.0
"""How soon after it was cleaned a node is cleaned again: an agent that still runs makes objects."""
_NODES = served(CoreNode)


class CleanUpError(KubeError):
    """Something of a node is left."""


class Cleanup(Leading[str]):
    """Removes objects of nodes that are gone."""

    def __init__(
        self,
        client: Client,
        caches: Caches,
        metrics: ManagerMetrics,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._client = client
        self._caches = caches
        self._metrics = metrics
        self._clock = clock
        self._cleaned: dict[str, float] = {}
        self._left: dict[str, int] = {}
        self._went: set[str] = set()
        self._never: set[str] = set()
        self.needs = (caches.nodes, caches.device_nodes, caches.claims, caches.vgpus)
        caches.nodes.subscribe(self._node_changed)
        caches.device_nodes.subscribe(lambda _, one: self._named(one.metadata.name if one else ""))
        caches.vgpus.subscribe(lambda _, one: self._named(one.spec.node_name if one else ""))
        caches.claims.subscribe(lambda _, one: self._named(_answered(one) if one else ""))

    async def run(self) -> None:
        """Lead until cancelled."""
        # A node's own object is the last to go, and its reservations are not looked at again.
        await self._caches.vms.answered.wait()
        self._left.clear()  # Others have led since.
        await super().run()

    def everything(self) -> Iterable[str]:
        """The nodes that objects name and that the cluster lacks, and those to release."""
        caches = self._caches
        known = {node.metadata.name: node for node in caches.nodes.store}
        named = {node.metadata.name for node in caches.device_nodes.store}
        named |= {vgpu.spec.node_name for vgpu in caches.vgpus.store}
        named |= {_answered(claim) for claim in caches.claims.store}
        held = {name for name, node in known.items() if _is_held(node)}
        return (named - known.keys() - {""}) | held

    def _node_changed(self, before: CoreNode | None, after: CoreNode | None) -> None:
        if after is None and before is not None:
            self._went.add(before.metadata.name)
            self.ask([before.metadata.name])
        elif after is not None:
            self._cleaned.pop(after.metadata.name, None)
            self._went.discard(after.metadata.name)
            if _is_held(after) or after.metadata.name in self._left:
                self.ask([after.metadata.name])

    def _named(self, node: str) -> None:
        if node and Key("", node) not in self._caches.nodes.store:
            self.ask([node])

    async def reconcile(self, key: str) -> Retry | None:
        """Remove what is left of a node, if it is gone; let it go, if it is on its way."""
        try:
            node = await self._client.get(_NODES, key)
        except NotFoundError:
            if not self._was_there(key):
                return None
            objects = await leftovers(self._client, key)
            again = self._cleaned.get(key, -math.inf) + AGAIN_SECONDS - self._clock()
            if objects and again > 0:
                log.warning("node %s is gone, but its agent still publishes devices", key)
                return Retry(again)
            await self._clean(key, objects)
            return None
        self._note_left(key, 0)
        if _is_held(node):
            await self._remove_finalizer(node)
        return None

    def _was_there(self, node: str) -> bool:
        """Whether the cluster has had this node; no agent manages one without a marker."""
        marker = self._caches.device_nodes.store.get(node)
        if node in self._went or marker is None or keys.LABEL_NODE_UID in marker.metadata.labels:
            return True
        if node not in self._never:
            self._never.add(node)
            log.warning(
                "the cluster has no record of a node %s: its objects are not changed; delete "
                "those that are not needed",
                node,
            )
        return False

    async def _remove_finalizer(self, node: CoreNode) -> None:
        rest = [one for one in node.metadata.finalizers if one != keys.FINALIZER_NODE]
        with contextlib.suppress(NotFoundError):
            await self._write_finalizers(_NODES, node, rest)
            log.info("released node %s, which is being deleted", node.metadata.name)

    async def _clean(self, node: str, objects: Sequence[Leftover]) -> None:
        failures: list[str] = []

        async def attempt(what: str, work: Awaitable[None]) -> None:
            try:
                await work
            except KubeError as error:
                failures.append(f"{what}: {error}")

        last = [one for one in objects if one.resource.kind == DEVICE_NODES.kind]
        for one in objects:
            if one not in last:
                await attempt(str(one), self._remove(one))
        for layout in await layouts_with(self._client, node):
            await attempt(f"VGPULayout {layout.metadata.name}", self._forget(layout, node))
        for vm in self._caches.vms.store:
            await attempt(f"VirtualMachine {key_of(vm)}", self._unreserve(vm, node))
        if not failures:
            for one in last:
                await attempt(str(one), self._remove(one))
        self._note_left(node, len(failures))
        if failures:
            raise CleanUpError(
                f"node {node} is gone, but {len(failures)} of its objects are left: "
                + "; ".join(failures[:SHOWN])
            )
        if objects:
            self._cleaned[node] = self._clock()
            self._metrics.cleaned()
            log.info("node %s is gone: removed its %d objects", node, len(objects))

    def _note_left(self, node: str, count: int) -> None:
        """So many objects could not be removed."""
        if count:
            self._left[node] = count
        else:
            self._left.pop(node, None)
        self._metrics.left(sum(self._left.values()))

    async def _remove(self, one: Leftover) -> None:
        """Delete exactly the object that was seen, without anybody whom it would wait for."""
        meta = one.obj.metadata
        try:
            if FINALIZERS & set(meta.finalizers):
                rest = [name for name in meta.finalizers if name not in FINALIZERS]
                await self._write_finalizers(one.resource, one.obj, rest)
            await self._client.delete(one.resource, meta.name, uid=meta.uid)
            self._metrics.wrote("delete", one.resource.kind)
        except NotFoundError:
            return

    async def _write_finalizers(
        self, resource: Resource[T], obj: T, finalizers: Sequence[str]
    ) -> None:
        """Only if they have not changed since. Raises ConflictError."""
        version = obj.metadata.resource_version
        body = {"metadata": {"resourceVersion": version, "finalizers": list(finalizers)}}
        await self._client.patch(resource, obj.metadata.name or "", body)
        self._metrics.wrote("patch", str(resource.kind))

    async def _forget(self, layout: VGPULayout, node: str) -> None:
        """Take the node's GPUs out of a layout, as its agent would."""
        status = LayoutStatus(node, self._client, self._metrics)
        with contextlib.suppress(NotFoundError):
            for gpu in [*status.entries(layout)]:
                await status.tell(layout, gpu, None)

    async def _unreserve(self, vm: VirtualMachine, node: str) -> None:
        """Take the node's devices off the record of a VM."""
        meta = vm.metadata
        try:
            before = allocation.devices_of(meta.annotations.get(keys.ANNOTATION_ALLOCATION, ""))
        except ValueError:
            return
        after = [device for device in before if not allocation.on_node(device, node)]
        if after == before:
            return
        text = allocation.text_of(after) or None
        version = {"resourceVersion": meta.resource_version}
        body = {"metadata": version | {"annotations": {keys.ANNOTATION_ALLOCATION: text}}}
        with contextlib.suppress(NotFoundError):
            await self._client.patch(VIRTUAL_MACHINES, meta.name, body, meta.namespace)
            self._metrics.wrote("patch", VIRTUAL_MACHINES.kind)


def _is_held(node: CoreNode) -> bool:
    """Whether only a clean-up as Harvester's was lets a node go."""
    meta = node.metadata
    return meta.deletion_timestamp is not None and keys.FINALIZER_NODE in meta.finalizers


def _answered(claim: PCIDeviceClaim) -> str:
    """The node of a claim about which its agent has said something."""
    said = claim.status.observed_generation or keys.FINALIZER_PCI_CLAIM in claim.metadata.finalizers
    return claim.spec.node_name if said else ""
