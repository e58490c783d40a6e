"""Which devices are reserved for whom: decided one at a time for each vCenter.

A reservation is a VSphereReservation, so it outlives its manager. It is written before the first
order to vCenter, and a finalizer keeps it until vCenter says that the VM is no more: what a machine
may still hold is not reserved for another, whatever is killed or deleted in between. Two
machines that race for the last device ask one after the other, and the second sees the first.

DRS may start a machine where devices are reserved for another one. The machine that lost its place
then gets the one that is left instead, before machines that ask later.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime
from weakref import WeakValueDictionary

from laneway.api.vsphere import VSphereReservation
from laneway.controllers.cluster.leading import Leading
from laneway.controllers.ledger.vsphere import server_of, spec_of
from laneway.core.refusals.base import Refusal
from laneway.core.refusals.vsphere import ResourcePoolUnresolved
from laneway.core.vsphere.inventory.hosts import Host
from laneway.core.vsphere.inventory.vms import Fault, VmState
from laneway.core.vsphere.placement.domain import Domain
from laneway.core.vsphere.placement.placing import choose_host, still_fits
from laneway.core.vsphere.placement.reservation import Reservation
from laneway.core.vsphere.provisioning.matching import parts_of
from laneway.core.vsphere.spec.requests import Requested
from laneway.kube.capv import VSPHERE_VMS, VSphereVM
from laneway.kube.client import Client
from laneway.kube.controller import Retry
from laneway.kube.errors import KubeError, NotFoundError, pause_after
from laneway.kube.resource import Key, key_of
from laneway.vsphere.fleet.caches import VsphereCaches
from laneway.vsphere.fleet.device_status import DevicesStatus, devices_status
from laneway.vsphere.fleet.failure_domains import domain_of, in_cluster, pool_of
from laneway.vsphere.fleet.fleet import Fleet
from laneway.vsphere.fleet.in_use import held, is_on
from laneway.vsphere.fleet.metrics import FleetMetrics
from laneway.vsphere.fleet.reservation_cache import ReservationCache
from laneway.vsphere.fleet.reservation_writer import ReservationWriter, is_owned, owner_uid
from laneway.vsphere.port import NotFoundInVCenterError, UnreachableVCenterError, VCenterError

log = logging.getLogger(__name__)

AGAIN_SECONDS = 30.0
"""How soon vCenter is asked again for a VM whose VSphereVM is gone."""
LOAD_SECONDS = 2.0
GONE_SECONDS = 300.0
"""How long a vCenter that nothing names any more may take to be named otherwise: until then what
was reserved there stays reserved, whether or not the VMs can be read."""


class Reservations(Leading[Key]):
    """The reservations. As a part of the manager it takes away those of machines that are gone."""

    def __init__(
        self,
        client: Client,
        caches: VsphereCaches,
        fleet: Fleet,
        metrics: FleetMetrics,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        super().__init__()
        self._client = client
        self._caches = caches
        self._fleet = fleet
        self._metrics = metrics
        self._known = ReservationCache(caches.reservations)
        self._writer = ReservationWriter(client, self._known, metrics, clock)
        self._loaded = asyncio.Event()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """Of the vCenters that VCenter objects name; the authors of other objects choose names."""
        self._stirred: set[str] = set()
        """The vCenters in which something has changed since reservations were last looked over."""
        self._unnamed: dict[str, float] = {}
        """The servers that nothing names, and since when that is known."""
        # Without the vCenters, what is kept in one of them would seem to be kept nowhere.
        self.needs = (
            caches.reservations,
            caches.vms,
            caches.vcenters,
            caches.vsphere_clusters,
        )
        metrics.watch(fleet.ages, lambda: self._known if self._loaded.is_set() else ())
        caches.vms.subscribe(lambda old, new: self.ask([key_of(old)] if old and not new else ()))
        caches.reservations.subscribe(lambda _, new: self.ask([key_of(new)] if new else ()))
        fleet.subscribe(self._inventory_changed)

    def _inventory_changed(self, name: str, _hosts: frozenset[str]) -> None:
        self._stirred.add(name)
        for server in [one for one in self._unnamed if self._fleet.name(one) == name]:
            del self._unnamed[server]
        self.ask(self._amiss(name))

    def of(self, namespace: str, name: str) -> Reservation | None:
        """What a machine has reserved."""
        return self._known.reservation(Key(namespace, name))

    def record(self, namespace: str, name: str) -> VSphereReservation | None:
        """The reservation of a machine, which need not reserve anything."""
        return self._known.get(Key(namespace, name))

    # ------------------------------------------------------------------------------- promising

    async def keep(
        self,
        vm: VSphereVM,
        requested: Requested,
        domain: Domain,
        *,
        excluded: Collection[str] = (),
    ) -> Reservation | Refusal:
        """What a machine has reserved, or why nothing; what it has reserved stays while it can.

        `excluded`: hosts on which vCenter could not start it. Raises VCenterError, KubeError.
        """
        await self._loaded.wait()
        name = self._fleet.name(vm.spec.server)
        async with self._lock(vm):
            self._fleet.called(name, vm.spec.server)
            await self._clear_of_others(vm)
            hosts, given = self._hosts(name), self._given(name)
            own = self._known.reservation(key_of(vm))
            if (
                own is not None
                and tuple(allocation.request for allocation in own.allocations) == requested.devices
            ):
                if own.host not in excluded and is_on(own.vm, hosts):
                    return own
                if still_fits(hosts, own, given, domain=domain, excluded=excluded):
                    return own
            try:
                domain = await self._narrowed(vm, name, domain)
            except NotFoundInVCenterError as error:
                unclear = ResourcePoolUnresolved(str(error))
                self._metrics.refused(unclear.reason)
                return unclear
            machine, hosts = str(key_of(vm)), self._hosts(name)
            if name in self._stirred:
                self._stirred.discard(name)  # before, as more may change while this is written
                try:
                    await self._rehouse(name, hosts, but=machine)
                except KubeError:
                    self._stirred.add(name)  # or those that it did not come to lose their turn
                    raise
            given = self._given(name)
            found = choose_host(
                hosts, requested, given, domain=domain, excluded=excluded, machine=machine
            )
            if own is not None and isinstance(found, Refusal):
                await self._write(vm, name, Reservation(machine, "", ()))
                # What became free meanwhile did not wake this machine: it did not wait yet.
                hosts, given = self._hosts(name), self._given(name)
                found = choose_host(
                    hosts, requested, given, domain=domain, excluded=excluded, machine=machine
                )
            if isinstance(found, Reservation):
                reservation = Reservation(
                    machine, found.host, found.allocations, own.vm if own else ""
                )
                await self._write(vm, name, reservation)
                return reservation
            self._metrics.refused(found.reason)
            return found

    async def _narrowed(self, vm: VSphereVM, name: str, domain: Domain) -> Domain:
        """To the cluster of the machine's resource pool: elsewhere it could not be made.

        For a new reservation only: an existing one stays, whatever the pool is called since.
        """
        pool = pool_of(vm, domain)
        if pool is None:
            return domain
        cluster = await self._fleet.called(name, vm.spec.server).cluster_of_pool(pool)
        return in_cluster(domain, cluster, self._fleet.inventory(name).values())

    def _hosts(self, name: str) -> Sequence[Host]:
        """Raises VCenterError while they are not known: no machine is refused for that."""
        if not self._fleet.complete(name):
            raise UnreachableVCenterError(
                f"vCenter {name} is not available: Laneway does not know its hosts yet"
            )
        return tuple(self._fleet.inventory(name).values())

    async def _rehouse(self, name: str, hosts: Sequence[Host], *, but: str) -> None:
        """Find another place for machines whose reservation cannot be kept any more where it is."""
        for one in self._at(name):
            key = key_of(one)
            reservation, vm = self._known.reservation(key), self._cached(key)
            if reservation is None or reservation.machine == but:
                continue
            if vm is None or not is_owned(one, vm) or is_on(reservation.vm, hosts):
                continue
            domain = domain_of(vm, self._caches)
            if still_fits(hosts, reservation, self._given(name), domain=domain):
                continue
            try:
                domain = await self._narrowed(vm, name, domain)
            except VCenterError:
                continue  # it gets this error when it requests devices itself
            reservation, given = self._known.reservation(key), self._given(name)
            if reservation is None:
                continue
            requested = Requested(
                tuple(allocation.request for allocation in reservation.allocations)
            )
            found = choose_host(hosts, requested, given, domain=domain, machine=reservation.machine)
            if isinstance(found, Reservation):
                moved = Reservation(
                    reservation.machine, found.host, found.allocations, reservation.vm
                )
                await self._write(vm, name, moved)

    async def release(self, namespace: str, name: str) -> None:
        """Take a reservation back: its VM is gone for certain. Raises KubeError."""
        await self._loaded.wait()
        if (found := self._known.get(Key(namespace, name))) is not None:
            await self._writer.remove(found)

    # --------------------------------------------------------------------------------- telling

    async def tell(
        self,
        vm: VSphereVM,
        requested: Requested,
        state: VmState | None,
        *,
        refusal: Refusal | None = None,
        fault: Fault | None = None,
    ) -> DevicesStatus:
        """Keep the reservation in step with the VM, and say how it stands. Raises KubeError.

        A machine that is on holds its devices wherever vCenter put it: the reservation follows it.
        """
        await self._loaded.wait()
        name, key = self._fleet.name(vm.spec.server), key_of(vm)
        hosts = self._fleet.inventory(name)
        reservation = self._known.reservation(key)
        if (
            state is not None
            and state.on
            and (reservation is None or reservation.host != state.host)
        ):
            allocations = held(requested, state, hosts.get(state.host))
            if allocations is not None:
                async with self._lock(vm):
                    reservation = Reservation(str(key), state.host, allocations, state.ref)
                    await self._write(vm, name, reservation)
        at = hosts.get(reservation.host) if reservation is not None else None
        result = devices_status(
            requested,
            reservation,
            state,
            host_name=at.name if at is not None else "",
            parts=parts_of(requested, hosts.values()),
            refusal=refusal,
            fault=fault,
        )
        found = self._known.get(key)
        if found is None and refusal is not None:
            async with self._lock(vm):
                await self._write(vm, name, Reservation(str(key), "", ()))
            found = self._known.get(key)
        if found is not None:
            await self._writer.say(found, result, state.ref if state is not None else "")
        return result

    async def _write(self, vm: VSphereVM, vcenter: str, reservation: Reservation) -> None:
        hosts = {ref: host.name for ref, host in self._fleet.inventory(vcenter).items()}
        await self._writer.write(vm, spec_of(vcenter, vm.spec.server, reservation, hosts))

    # ------------------------------------------------------------------------------ taking away

    def everything(self) -> Iterable[Key]:
        """All that is reserved."""
        return [key_of(one) for one in self._known]

    def _amiss(self, name: str) -> list[Key]:
        """Reservations at a vCenter whose VSphereVM is gone, or that call it otherwise."""
        return [
            key_of(one)
            for one in self._at(name)
            if one.spec.vcenter != name or not is_owned(one, self._cached(key_of(one)))
        ]

    def _cached(self, key: Key) -> VSphereVM | None:
        return self._caches.vms.store.get(key.name, key.namespace)

    async def reconcile(self, key: Key) -> Retry | None:
        """Take away a reservation whose VSphereVM and VM are gone; have the others name vCenter."""
        found = self._known.get(key)
        if found is None:
            return None
        orphan = not is_owned(found, self._cached(key))
        if orphan and await self._collect(found):
            return None
        name, found = self._fleet.name(found.spec.server), self._known.get(key)
        if found is not None and found.spec.vcenter != name and name in self._fleet.known():
            await self._writer.call(found, name)
        return Retry(AGAIN_SECONDS) if orphan else None

    async def _clear_of_others(self, vm: VSphereVM) -> None:
        """Nothing may be left of a machine of the same name that was there before."""
        found = self._known.get(key_of(vm))
        if found is not None and not is_owned(found, vm) and not await self._collect(found):
            raise VCenterError(
                f"an earlier VSphereVM {key_of(vm)} was deleted, and its VM is still in vCenter: "
                f"delete VM {found.status.vm or owner_uid(found)}, or wait until it is deleted"
            )

    async def _collect(self, found: VSphereReservation) -> bool:
        """Whether it is gone now: its VSphereVM is, and so is its VM, or no vCenter has that."""
        meta, uid = found.metadata, owner_uid(found)
        with contextlib.suppress(NotFoundError):
            vm = await self._client.get(VSPHERE_VMS, meta.name, meta.namespace)
            if is_owned(found, vm):
                return False
        name = self._fleet.name(found.spec.server)
        if name not in self._fleet.known():
            if self._may_be_named(found.spec.server):
                log.info("VSphereReservation %s is kept: nothing names its vCenter", key_of(found))
                return False
        else:
            try:
                vcenter = self._fleet.called(name)
                left = await vcenter.find(uid) if uid else None
                if left is None and found.status.vm:
                    left = (await vcenter.look([found.status.vm])).get(found.status.vm)
            except VCenterError as error:
                log.info("VSphereReservation %s is kept: %s", key_of(found), error)
                return False
            if left is not None:
                log.warning(
                    "VSphereReservation %s is kept: its VSphereVM is gone, but VM %s (%s) is still "
                    "there; delete it",
                    key_of(found),
                    left.name,
                    left.ref,
                )
                return False
        await self._writer.remove(found)
        log.info("VSphereReservation %s removed: its machine is gone", key_of(found))
        return True

    # ----------------------------------------------------------------------------- by vCenters

    def _given(self, name: str) -> list[Reservation]:
        """All that is reserved of one vCenter."""
        reservations = (self._known.reservation(key_of(one)) for one in self._at(name))
        return [one for one in reservations if one is not None]

    def _at(self, name: str) -> list[VSphereReservation]:
        return [one for one in self._known if self._fleet.name(one.spec.server) == name]

    def _may_be_named(self, server: str) -> bool:
        """Whether a vCenter that nothing names may be about to be named otherwise."""
        now = time.monotonic()
        return now < self._unnamed.setdefault(server, now) + GONE_SECONDS

    def _lock(self, vm: VSphereVM) -> asyncio.Lock:
        """Of its vCenter, whatever that is called meanwhile."""
        return self._locks.setdefault(server_of(vm.spec.server), asyncio.Lock())

    async def run(self) -> None:
        """Lead until cancelled."""
        try:
            while not self._loaded.is_set():
                try:
                    await self._known.load(self._client)
                    self._loaded.set()
                except KubeError as error:
                    log.warning("reservations are not known yet: %s", error)
                    await asyncio.sleep(pause_after(error, LOAD_SECONDS))
            await super().run()
        finally:
            self._loaded.clear()
            self._unnamed.clear()
