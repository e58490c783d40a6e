"""The inventory, followed: all of it at first, then what changes, by the property collector.

The collector waits on a connection of its own; what else has to be asked (configuration targets)
goes over the others. Changes are reported when they are whole: all pages of an update have come,
the vGPUs of VMs that have appeared on boards are known, changed hosts have been asked what they
offer.

Whatever breaks it off ends it with an error of the port. It is then called again, after a pause,
and begins again with everything: an interruption may have hidden anything.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from laneway.vsphere.port import (
    Changed,
    FaultError,
    NotFoundInVCenterError,
    UnreachableVCenterError,
    VCenterError,
)
from laneway.vsphere.vcenter.config_targets import NOTHING, Target, target_of
from laneway.vsphere.vcenter.http import WAIT_S
from laneway.vsphere.vcenter.inventory import DEVICES, WATCHED, Inventory
from laneway.vsphere.vcenter.properties import Collector, bound, in_view, properties, read, ref_of
from laneway.vsphere.vcenter.pyvmomi import vim, vmodl
from laneway.vsphere.vcenter.session import Session
from laneway.vsphere.vcenter.stub import Stub
from laneway.vsphere.vcenter.threads import Workers

log = logging.getLogger(__name__)


LIMIT_S = 120.0
"""For a page of the inventory."""

PAGE = 25
"""Objects of one page: a host with all its PCI devices is a hundred kilobytes of XML."""

AT_ONCE = 4
"""Configuration targets asked at once; the other threads stay free for orders."""


async def follow(session: Session, askers: Workers) -> AsyncIterator[Changed]:
    """Each call follows by itself, and begins with one `Changed` that is complete."""
    follower = _Follower(session, askers)
    try:
        async for changed in follower.run():
            yield changed
    except NotFoundInVCenterError as error:
        raise UnreachableVCenterError(f"the inventory is not told any more: {error}") from error
    finally:
        await follower.close()


class _Follower:
    def __init__(self, session: Session, askers: Workers) -> None:
        self._session = session
        self._askers = askers
        self._waiter = Workers(session, 1)
        self._inventory = Inventory()
        self._collector = ""
        self._views: list[Any] = []
        self._users: frozenset[str] = frozenset()
        self._asking = asyncio.Semaphore(AT_ONCE)

    async def run(self) -> AsyncIterator[Changed]:
        await self._waiter.run(self._open_in_thread, limit=LIMIT_S)
        version, first = "", True
        while True:
            version, more = await self._waiter.run(
                partial(self._wait_in_thread, version=version),
                limit=WAIT_S + LIMIT_S,
                again=False,  # the collector is of the session that would be gone
            )
            if more:
                continue
            await self._settle()
            changed = self._inventory.changes(complete=first)
            if changed is not None:
                first = False
                yield changed

    async def close(self) -> None:
        with contextlib.suppress(VCenterError):
            await self._waiter.run(self._close_in_thread, limit=5.0, again=False)
        self._waiter.close()

    async def _settle(self) -> None:
        """Ask what the update does not tell by itself."""
        users = self._inventory.users()
        if users != self._users:
            await self._waiter.run(partial(self._watch_in_thread, users=users), limit=LIMIT_S)
            self._users = users
        unread = self._inventory.unread_targets()
        targets = await asyncio.gather(*(self._target(*each) for each in unread))
        for (host, _), target in zip(unread, targets, strict=True):
            self._inventory.take_target(host, target)

    async def _target(self, host: str, browser: str) -> Target:
        def ask(stub: Stub) -> Target:
            request = vim.EnvironmentBrowser(browser, stub)
            return target_of(request.QueryConfigTarget(vim.HostSystem(host, stub)))

        async with self._asking:
            try:
                return await self._askers.run(ask, limit=LIMIT_S)
            except (FaultError, NotFoundInVCenterError) as error:
                # As of a host that has just gone: it is asked again when it changes again.
                log.warning("a host does not tell what it offers: %s", error, extra={"host": host})
                return NOTHING

    def _open_in_thread(self, stub: Stub) -> None:
        content = self._session.content
        manager = bound(content.viewManager, stub)
        everything = manager.CreateContainerView(
            bound(content.rootFolder, stub), list(WATCHED), True
        )
        users = manager.CreateListView(None)
        collector = bound(content.propertyCollector, stub).CreatePropertyCollector()
        self._collector = ref_of(collector)
        self._views = [everything, users]
        hosts = [properties(kind, paths) for kind, paths in WATCHED.items()]
        devices = [properties(vim.VirtualMachine, [DEVICES])]
        for view, paths in ((everything, hosts), (users, devices)):
            spec = Collector.FilterSpec(objectSet=[in_view(view)], propSet=paths)
            collector.CreateFilter(spec, False)

    def _wait_in_thread(self, stub: Stub, *, version: str) -> tuple[str, bool]:
        options = Collector.WaitOptions(maxWaitSeconds=WAIT_S, maxObjectUpdates=PAGE)
        update = Collector(self._collector, stub).WaitForUpdatesEx(version or None, options)
        if update is None:
            return version, False
        self._inventory.take(update.filterSet)
        return update.version, bool(update.truncated)

    def _watch_in_thread(self, stub: Stub, *, users: frozenset[str]) -> None:
        """Their devices are read now, and reported by the collector when they change."""
        came = [vim.VirtualMachine(ref, stub) for ref in sorted(users - self._users)]
        left = [vim.VirtualMachine(ref, stub) for ref in sorted(self._users - users)]
        with contextlib.suppress(vmodl.fault.ManagedObjectNotFound):
            bound(self._views[1], stub).ModifyListView(came, left)
        by_ref = read(self._session.content, stub, came, {vim.VirtualMachine: [DEVICES]})
        for ref, props in by_ref.items():
            self._inventory.take_devices(ref, props.get(DEVICES))

    def _close_in_thread(self, stub: Stub) -> None:
        for view in self._views:
            bound(view, stub).DestroyView()
        if self._collector:
            Collector(self._collector, stub).DestroyPropertyCollector()
