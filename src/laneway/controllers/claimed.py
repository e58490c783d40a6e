"""Which devices of a node ResourceClaims have, for the device plugins and for the node's slices.

A scheduler allocates devices that were published, whatever became of the slices since: so claims
are followed not only as long as a node publishes, but as long as one may have a device of it.
Until they have been listed any device may be a claim's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping

from laneway.core.device_plugin.offer import Offer
from laneway.core.dra.claims import allocated, without_claimed
from laneway.core.dra.device import device_name
from laneway.kube.client import Client
from laneway.kube.informer import Informer
from laneway.kube.slices import CLAIMS, ResourceClaim


class Claimed:
    """Of one node."""

    def __init__(self, node: str, client: Client) -> None:
        self.devices: Mapping[str, str] = {}
        """The claim that has a device, by the device's name."""
        self.known = asyncio.Event()
        """Set once it is known which devices claims have, or that none can have any."""
        self._node = node
        self._client = client
        self._claims = Informer(client, CLAIMS)
        self._listeners: list[Callable[[], None]] = []

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Have a call when claims have other devices than before, and once that is known."""
        self._listeners.append(listener)

    def without_claimed(self, offers: Iterable[Offer]) -> tuple[Offer, ...]:
        """The offers as device plugins may make them."""
        return without_claimed(offers, self.devices if self.known.is_set() else None)

    def claim_of(self, offer: Offer) -> str:
        """The ResourceClaim that has a device; empty where none has it."""
        return self.devices.get(device_name(offer), "")

    def cannot_be(self) -> None:
        """There are no claims of this node's devices."""
        self._know()

    async def are_there(self) -> bool:
        """Whether a claim has a device of this node. Raises KubeError."""
        async for page in self._client.list(CLAIMS):
            if any(allocated(CLAIMS.decode(one).status, self._node) for one in page.items):
                return True
        return False

    async def run(self) -> None:
        """Follow the claims until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._claims.run())
            self._claims.subscribe(self._changed)
            await self._claims.synced.wait()
            self._know()

    def _changed(self, before: ResourceClaim | None, after: ResourceClaim | None) -> None:
        found = [
            () if one is None else allocated(one.status, self._node) for one in (before, after)
        ]
        if found[0] == found[1]:
            return
        self.devices = {
            device: f"{one.metadata.namespace}/{one.metadata.name}"
            for one in self._claims.store
            for device in allocated(one.status, self._node)
        }
        self._tell()

    def _know(self) -> None:
        self.known.set()
        self._tell()

    def _tell(self) -> None:
        for call in self._listeners:
            call()
