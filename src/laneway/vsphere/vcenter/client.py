"""`connect`, and the connection that it gives: every method of the port on one vCenter.

What a method has to say to vCenter it says in one job on one thread, names first and the order
last, so that a session that has ended is noticed where repeating does no harm.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import AsyncIterator, Callable, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from laneway.core.vsphere.inventory.vms import TaskState, VmState
from laneway.vsphere.port import (
    About,
    Changed,
    Clone,
    Credentials,
    LoginRefusedError,
    NotFoundInVCenterError,
    Place,
    Reconfiguration,
    UnreachableVCenterError,
    VCenterError,
)
from laneway.vsphere.vcenter import requests, tasks, vms
from laneway.vsphere.vcenter.escaping import escaped
from laneway.vsphere.vcenter.http import trust
from laneway.vsphere.vcenter.lookup import Places, Target
from laneway.vsphere.vcenter.properties import bound, read, ref_of
from laneway.vsphere.vcenter.property_collector import follow
from laneway.vsphere.vcenter.pyvmomi import vim, vmodl
from laneway.vsphere.vcenter.session import Session
from laneway.vsphere.vcenter.stub import Stub
from laneway.vsphere.vcenter.threads import Workers

log = logging.getLogger(__name__)

T = TypeVar("T")

THREADS = 6
"""Connections for requests; two more wait for updates of the inventory and of tasks."""

LIMIT_S = 60.0
"""A request that vCenter has not answered by then is given up."""

ALIVE_S = 300.0
"""How often an idle session is used, that vCenter would end after half an hour."""

_SERVER = re.compile(
    r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9_.-]+))(?::(?P<port>\d{1,5}))?"
)


async def connect(server: str, credentials: Credentials) -> Connection:
    """Log in at `host` or `host:port`.

    The certificate is checked before anything is sent. Raises LoginRefusedError for what only
    other credentials can mend, UnreachableVCenterError for what may pass.
    """
    found = _SERVER.fullmatch(server)
    if not found or not 0 < int(found["port"] or 443) < 1 << 16:
        raise LoginRefusedError(f"{server!r} is no server: give host or host:port")
    session = Session(
        server,
        found["six"] or found["name"],
        int(found["port"] or 443),
        await asyncio.to_thread(trust, server, credentials.thumbprint, credentials.ca),
        credentials,
    )
    connection = Connection(session)
    try:
        await connection.about()
    except BaseException:
        await connection.close()
        raise
    return connection


class Connection:
    """One vCenter, logged in; also a context that closes it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._workers = Workers(session, THREADS)
        self._places = Places()
        self._watch = tasks.Watch(session, self._workers)
        self._known = vms.Known(lambda task: self._watch.ended(task) is not None)
        self._joined: dict[tuple[str, str], str] = {}
        self._joining = asyncio.Lock()
        self._alive = asyncio.create_task(self._stay_alive(), name="vcenter-alive")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Log out."""
        self._alive.cancel()
        await asyncio.gather(self._alive, return_exceptions=True)
        await self._watch.close()
        self._workers.close()
        leaver = Workers(self._session, 1)  # those may all be at something that does not end
        with contextlib.suppress(VCenterError):
            await leaver.leave(limit=5.0)
        leaver.close()

    async def about(self) -> About:
        def ask(stub: Stub) -> About:
            about = vim.ServiceInstance("ServiceInstance", stub).RetrieveContent().about
            return About(about.version, about.apiVersion, about.instanceUuid or "")

        return await self._ask(ask)

    def follow(self) -> AsyncIterator[Changed]:
        """See `following`."""
        return follow(self._session, self._workers)

    async def find(self, instance_uuid: str, bios_uuid: str = "") -> VmState | None:
        def ask(stub: Stub) -> VmState | None:
            search = bound(self._content.searchIndex, stub)
            for uuid, instance in ((instance_uuid, True), (bios_uuid, False)):
                found = uuid and search.FindByUuid(None, uuid, True, instance)
                if isinstance(found, vim.VirtualMachine):
                    ref = ref_of(found)
                    return vms.look(self._content, stub, [ref], self._known).get(ref)
            return None

        return await self._ask(ask)

    async def look(self, refs: Sequence[str]) -> dict[str, VmState]:
        if not refs:
            return {}
        return await self._ask(lambda stub: vms.look(self._content, stub, refs, self._known))

    async def named(self, name: str, place: Place) -> VmState | None:
        def ask(stub: Stub) -> VmState | None:
            folder = self._places.folder(self._content, stub, place)
            search = bound(self._content.searchIndex, stub)
            found = search.FindChild(folder, escaped(name))
            if not isinstance(found, vim.VirtualMachine):
                return None
            ref = ref_of(found)
            return vms.look(self._content, stub, [ref], self._known).get(ref)

        return await self._ask(ask)

    async def cluster_of_pool(self, place: Place) -> str:
        # Asked again and again for a name that is wrong, which must not read all names each time.
        return await self._ask(
            lambda stub: self._places.cluster_of_pool(self._content, stub, place)
        )

    async def at_work(self, template: str, place: Place) -> tuple[str, ...]:
        def ask(stub: Stub) -> tuple[str, ...]:
            found = self._places.template(self._content, stub, template, place.datacenter)
            return vms.at_work(self._content, stub, found)

        return await self._prepared(ask)

    async def clone(self, clone: Clone) -> str:
        def prepare(stub: Stub) -> tuple[str, Target, Any]:
            content = self._content
            target = self._places.target(content, stub, clone.place, clone.networks)
            template = self._places.template(content, stub, clone.template, clone.place.datacenter)
            props = read(content, stub, [template], {vim.VirtualMachine: requests.TEMPLATE_PATHS})
            if ref_of(template) not in props:
                raise NotFoundInVCenterError(f"there is no template {clone.template!r} any more")
            cards = _card_backings(content, stub, target.networks)
            spec = requests.clone_spec(clone, target, props[ref_of(template)], cards)
            return ref_of(template), target, spec

        template, target, spec = await self._prepared(prepare)
        return await self._order(
            vim.VirtualMachine,
            template,
            lambda vm: vm.CloneVM_Task(target.folder, escaped(clone.name), spec),
        )

    async def reconfigure(self, vm: str, change: Reconfiguration) -> str:
        spec = requests.config_spec(change)
        return await self._order(vim.VirtualMachine, vm, lambda each: each.ReconfigVM_Task(spec))

    async def upgrade(self, vm: str, hardware_version: int) -> str:
        version = f"vmx-{hardware_version}"
        return await self._order(vim.VirtualMachine, vm, lambda each: each.UpgradeVM_Task(version))

    async def relocate(self, vm: str, host: str) -> str:
        pool = await self._prepared(
            lambda stub: self._places.pool_to_move_to(self._content, stub, vm, host)
        )
        spec = vim.vm.RelocateSpec(host=vim.HostSystem(host), pool=pool)
        return await self._order(vim.VirtualMachine, vm, lambda each: each.RelocateVM_Task(spec))

    async def power_on(self, vm: str) -> str:
        return await self._order(vim.VirtualMachine, vm, lambda each: each.PowerOnVM_Task(None))

    async def power_off(self, vm: str) -> str:
        return await self._order(vim.VirtualMachine, vm, lambda each: each.PowerOffVM_Task())

    async def shut_down_guest(self, vm: str) -> None:
        await self._ask(lambda stub: vim.VirtualMachine(vm, stub).ShutdownGuest(), again=False)

    async def destroy(self, vm: str) -> str:
        return await self._order(vim.VirtualMachine, vm, lambda each: each.Destroy_Task())

    async def join_group(self, vm: str, cluster: str, group: str) -> str:
        try:
            async with asyncio.timeout(LIMIT_S):
                return await self._join(vm, cluster, group)
        except TimeoutError:
            raise UnreachableVCenterError(
                f"VM group {group!r}: an earlier change of it has not ended for {LIMIT_S:.0f} s"
            ) from None

    async def _join(self, vm: str, cluster: str, group: str) -> str:
        """Members are replaced as a whole: one after the other, each when the last has ended."""
        async with self._joining:
            if before := self._joined.get((cluster, group)):
                with contextlib.suppress(NotFoundInVCenterError):  # it has ended, and is forgotten
                    await self._watch.finished(before)

            def prepare(stub: Stub) -> tuple[str, Any]:
                found = self._places.cluster(self._content, stub, cluster)
                kind = vim.ClusterComputeResource
                props = read(self._content, stub, [found], {kind: ["name", "configurationEx"]})
                spec = requests.group_spec(
                    props.get(ref_of(found), {}), group, vim.VirtualMachine(vm, stub)
                )
                return ref_of(found), spec

            ref, spec = await self._prepared(prepare)
            task = await self._order(
                vim.ClusterComputeResource,
                ref,
                lambda each: each.ReconfigureComputeResource_Task(spec, True),
            )
            self._joined[cluster, group] = task
            return task

    async def task(self, task: str) -> TaskState | None:
        if (ended := self._watch.ended(task)) is not None:
            return ended
        return await self._ask(lambda stub: tasks.look(self._content, stub, task))

    async def finished(self, task: str) -> TaskState:
        return await self._watch.finished(task)

    async def cancel(self, task: str) -> None:
        def ask(stub: Stub) -> None:
            with contextlib.suppress(vmodl.fault.NotSupported, vim.fault.InvalidState):
                vim.Task(task, stub).CancelTask()

        await self._ask(ask)

    @property
    def _content(self) -> Any:
        return self._session.content

    async def _ask(self, ask: Callable[[Stub], T], *, again: bool = True) -> T:
        return await self._workers.run(ask, limit=LIMIT_S, again=again)

    async def _prepared(self, prepare: Callable[[Stub], T]) -> T:
        """Names are looked up once more if they may have changed since they were read."""
        try:
            return await self._ask(prepare)
        except NotFoundInVCenterError:
            self._places.forget()
            return await self._ask(prepare)

    async def _order(self, kind: Any, ref: str, order: Callable[[Any], Any]) -> str:
        """Never repeated."""
        try:
            return await self._ask(lambda stub: ref_of(order(kind(ref, stub))), again=False)
        except NotFoundInVCenterError:
            self._places.forget()
            raise

    async def _stay_alive(self) -> None:
        while True:
            await asyncio.sleep(ALIVE_S)
            with contextlib.suppress(VCenterError):
                await self._ask(
                    lambda stub: vim.ServiceInstance("ServiceInstance", stub).CurrentTime()
                )


def _card_backings(content: Any, stub: Stub, networks: Sequence[Any]) -> list[Any]:
    by_ref = read(
        content,
        stub,
        networks,
        {
            vim.Network: ["name"],
            vim.OpaqueNetwork: ["summary"],
            vim.dvs.DistributedVirtualPortgroup: ["key", "config"],
        },
    )
    switches = [
        props["config"].distributedVirtualSwitch for props in by_ref.values() if "config" in props
    ]
    of_switches = read(content, stub, switches, {vim.DistributedVirtualSwitch: ["uuid"]})
    return [requests.card_backing(each, by_ref[ref_of(each)], of_switches) for each in networks]
