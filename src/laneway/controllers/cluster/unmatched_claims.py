"""Answers claims that no agent will ever answer: of nodes that are not, of devices that are not.

A claim is its node's agent's to answer, and says nothing before that has. One whose node does not
exist, or that is named like no USB device, would say nothing for ever. Here that is reported, only
in the place of an agent: once there is one, its answer follows. A claim that waits for the agent of
a node that goes is not looked at again: it goes with its node.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable

from laneway.api import (
    Condition,
    CoreNode,
    DeviceNode,
    PCIDeviceClaim,
    USBDevice,
    USBDeviceClaim,
    find_condition,
    to_builtins,
)
from laneway.controllers.cluster.caches import Caches
from laneway.controllers.cluster.leading import Leading
from laneway.controllers.cluster.metrics import ManagerMetrics
from laneway.controllers.devices.family import merge_conditions
from laneway.controllers.devices.outcome import refused
from laneway.controllers.publisher import timestamp
from laneway.core.refusals import ClaimNodeNotFound, Refusal, UsbDeviceNotFound
from laneway.kube.client import Client
from laneway.kube.controller import Retry
from laneway.kube.errors import ConflictError, NotFoundError
from laneway.kube.resource import KubeObject, Resource, served

PATIENCE_SECONDS = 10.0
"""An agent answers in less, also one that has just found the device."""
Claim = PCIDeviceClaim | USBDeviceClaim


class Unanswered(Leading[tuple[str, str]]):
    """Works on kinds and names of claims."""

    def __init__(self, client: Client, caches: Caches, metrics: ManagerMetrics) -> None:
        super().__init__()
        self._client = client
        self._caches = caches
        self._metrics = metrics
        self._seen: dict[str, float] = {}
        """When each claim was first looked at, by its uid and the loop's clock."""
        self.needs = (caches.nodes, caches.device_nodes, caches.claims, caches.usb_claims)
        caches.claims.subscribe(self._changed)
        caches.usb_claims.subscribe(self._changed)

    def everything(self) -> Iterable[tuple[str, str]]:
        claims = (*self._caches.claims.store, *self._caches.usb_claims.store)
        return [_key(claim) for claim in claims if _is_open(claim)]

    def _changed(self, before: Claim | None, after: Claim | None) -> None:
        if before is not None and (after is None or after.metadata.uid != before.metadata.uid):
            self._seen.pop(before.metadata.uid, None)
        if after is not None and _is_open(after):
            self.ask([_key(after)])

    async def reconcile(self, key: tuple[str, str]) -> Retry | None:
        """Report why a claim has no answer, if no agent can give it one."""
        kind, name = key
        pci = kind == PCIDeviceClaim.__name__
        store = self._caches.claims.store if pci else self._caches.usb_claims.store
        claim = store.get(name)
        if claim is None or not _is_open(claim):
            return None
        now = asyncio.get_running_loop().time()
        left = self._seen.setdefault(claim.metadata.uid, now) + PATIENCE_SECONDS - now
        if left > 0:
            return Retry(left)
        if isinstance(claim, PCIDeviceClaim):
            if await self._is_node(claim.spec.node_name):
                return None
            await self._record_result(claim, ClaimNodeNotFound(name, claim.spec.node_name))
        elif not await self._exists(served(USBDevice), name):
            await self._record_result(claim, UsbDeviceNotFound(name))
        return None

    async def _is_node(self, name: str) -> bool:
        """Whether there is a node, or an agent that has written about it."""
        kinds: tuple[Resource[KubeObject], ...] = served(CoreNode), served(DeviceNode)
        return bool(name) and any([await self._exists(one, name) for one in kinds])

    async def _exists(self, resource: Resource[KubeObject], name: str) -> bool:
        try:
            await self._client.get(resource, name)
        except NotFoundError:
            return False
        return True

    async def _record_result(self, claim: Claim, refusal: Refusal) -> None:
        meta = claim.metadata
        conditions: list[Condition] = merge_conditions(
            claim.status.conditions, [refused((refusal,))], meta.generation, timestamp()
        )
        body = {
            "metadata": {"resourceVersion": meta.resource_version},  # an agent's answer stands
            "status": {"conditions": [to_builtins(one) for one in conditions]},
        }
        with contextlib.suppress(NotFoundError, ConflictError):
            await self._client.patch(served(type(claim)), meta.name, body, subresource="status")
            self._metrics.wrote("patch status", claim.kind)


def _key(claim: Claim) -> tuple[str, str]:
    return type(claim).__name__, claim.metadata.name


def _is_open(claim: Claim) -> bool:
    """Whether nothing was reported of the claim as it is now."""
    answer = find_condition(claim.status.conditions, "Ready")
    return answer is None and not claim.metadata.deletion_timestamp
