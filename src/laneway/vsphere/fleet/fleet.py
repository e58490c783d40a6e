"""All vCenters that Laneway manages: one connection each, each in a task of its own.

A connection is replaced when its configuration changes; a vCenter that does not answer does
not delay others. Only the manager that leads is logged in.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping

from laneway.controllers.cluster.leading import Leading
from laneway.controllers.ledger.vsphere import server_of, vcenter_of
from laneway.core.vsphere.inventory.hosts import Host
from laneway.kube.client import Client
from laneway.kube.controller import Retry
from laneway.vsphere.fleet.caches import VsphereCaches
from laneway.vsphere.fleet.connection import MISCONFIGURED, Connect, Link, State, Timing
from laneway.vsphere.fleet.secrets import credentials_of
from laneway.vsphere.fleet.sources import Source, sources
from laneway.vsphere.port import UnreachableVCenterError, VCenter

Listener = Callable[[str, frozenset[str]], None]
"""Called with a vCenter's name and the refs of its hosts that changed; none: the connection did."""

DUPLICATE = "Duplicate"
_NAMELESS = "no VCenter object and no VSphereCluster with a Secret refers to it"
_NAMES = 1024
"""Spellings of servers that are remembered; the authors of objects choose them."""


class Fleet(Leading[str]):
    """The vCenters by the names that objects call them."""

    def __init__(
        self,
        client: Client,
        caches: VsphereCaches,
        connect: Connect,
        *,
        timing: Timing | None = None,
    ) -> None:
        super().__init__()
        self._client = client
        self._caches = caches
        self._connect = connect
        self._timing = timing or Timing()
        self._links: dict[str, Link] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._listeners: list[Listener] = []
        self._names: dict[str, str] = {}
        """Of vCenters, by servers as they are written somewhere."""
        self.needs = (caches.vcenters,)
        caches.vcenters.subscribe(self._renamed)
        caches.vsphere_clusters.subscribe(lambda _old, _new: self.ask(self.everything()))

    def subscribe(self, listener: Listener) -> None:
        """Tell of every change from now on."""
        self._listeners.append(listener)

    def _renamed(self, _old: object, _new: object) -> None:
        self._names.clear()
        self.ask(self.everything())

    def name(self, server: str) -> str:
        """What objects call the vCenter at a server."""
        name = self._names.get(server)
        if name is None:
            if len(self._names) >= _NAMES:
                self._names.clear()
            name = self._names[server] = vcenter_of(server, self._caches.vcenters.store)
        return name

    def vcenter(self, server: str) -> VCenter:
        """The vCenter at a server, logged in. Raises UnreachableVCenterError: why it is not."""
        return self.called(self.name(server), server)

    def called(self, name: str, server: str = "") -> VCenter:
        """The same by its name."""
        link = self._link(name)
        if link is None:
            source = self.known().get(name)
            why = source.problem if source is not None else ""
            raise UnreachableVCenterError(
                f"vCenter {server or name} is not available: "
                + (why or ("not connected yet" if source is not None else _NAMELESS))
            )
        if link.vcenter is None:
            raise UnreachableVCenterError(
                f"vCenter {link.source.server} is not available: {link.state.message}"
            )
        return link.vcenter

    def _link(self, name: str) -> Link | None:
        """The connection to a vCenter; not to one that was called so until a moment ago."""
        link, named = self._links.get(name), self._caches.vcenters.store.get(name)
        if link is not None and named is not None:
            return link if link.source.server == server_of(named.spec.server) else None
        return link

    def hosts(self, server: str) -> tuple[Host, ...]:
        """The hosts of the vCenter at a server, as far as they are known."""
        return tuple(self.inventory(self.name(server)).values())

    def inventory(self, name: str) -> Mapping[str, Host]:
        """The hosts of a vCenter by their refs."""
        link = self._link(name)
        return link.hosts if link is not None else {}

    def complete(self, name: str) -> bool:
        """All hosts of a vCenter are known."""
        link = self._link(name)
        return link is not None and link.complete

    def version(self, name: str) -> str:
        """The version of a vCenter; empty: not known."""
        link = self._link(name)
        return link.about.version if link is not None else ""

    def ages(self) -> dict[str, float | None]:
        """For how many seconds each vCenter has reported nothing; None: it is not followed now."""
        now = time.monotonic()
        return {
            name: now - link.last_report if link.vcenter is not None else None
            for name, link in self._links.items()
        }

    def known(self) -> dict[str, Source]:
        """The vCenters that there are to be."""
        return self._sources()[0]

    def state(self, name: str) -> State:
        """How it stands with a vCenter, as its object is to say."""
        found, again = self._sources()
        if name in again:
            return State(False, DUPLICATE, again[name])
        source, link = found.get(name), self._link(name)
        if source is not None and source.problem:
            return State(False, MISCONFIGURED, source.problem)
        return link.state if link is not None else State(False, "Connecting", "Not connected yet")

    def _sources(self) -> tuple[dict[str, Source], dict[str, str]]:
        return sources(self._caches.vcenters.store, self._caches.vsphere_clusters.store)

    def everything(self) -> Iterable[str]:
        """The names of all vCenters that are or were."""
        found, again = self._sources()
        return found.keys() | again.keys() | self._links.keys()

    async def reconcile(self, key: str) -> Retry | None:
        """Have one connection to a vCenter that is desired, as it should be."""
        source = self.known().get(key)
        if source is not None and source.problem:
            source = None
        link = self._links.get(key)
        if link is not None and link.source != source:
            await self._leave(key)
            link = None
        if source is not None and link is None and self._group is not None:
            link = Link(
                source,
                self._connect,
                lambda source: credentials_of(self._client, source),
                self._hosts_changed,
                self._timing,
            )
            self._links[key] = link
            self._tasks[key] = self._group.create_task(link.run())
        self._notify(key, frozenset())
        return None

    async def _leave(self, name: str) -> None:
        task = self._tasks.pop(name)
        task.cancel()
        await asyncio.wait([task])
        del self._links[name]

    def _hosts_changed(self, link: Link, refs: frozenset[str]) -> None:
        self._notify(link.source.name, refs)

    def _notify(self, name: str, refs: frozenset[str]) -> None:
        for listener in self._listeners:
            listener(name, refs)

    async def run(self) -> None:
        """Be logged in until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                await super().run()
        finally:
            self._group = None
            self._links.clear()
            self._tasks.clear()
