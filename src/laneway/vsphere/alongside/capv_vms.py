"""Manages the devices of CAPV's VSphereVMs, and leaves everything else to CAPV.

Devices are reserved for a VSphereVM that requests them, so that what Laneway calls free is
free; where they cannot be had, its condition says why before CAPV's clone fails. What CAPV attached
is followed by the VM's instance UUID, which is the uid of the VSphereVM. `PCIDevicesReady` is the
only condition written, on the VSphereVM and its VSphereMachine: a node that lost a device is not
ready by it. The reservation is taken back when the VSphereVM and its VM are gone (`Reservations`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from laneway.api.vsphere import VSphereReservation
from laneway.controllers.cluster.leading import Leading
from laneway.core.refusals.base import Refusal
from laneway.core.vsphere.inventory.hosts import Host
from laneway.core.vsphere.spec import parsing
from laneway.core.vsphere.spec.requests import Requested
from laneway.kube.capv import VSphereVM
from laneway.kube.client import Client
from laneway.kube.controller import Retry
from laneway.kube.errors import NotFoundError
from laneway.kube.events import EventRecorder
from laneway.kube.resource import Key, key_of
from laneway.vsphere.alongside.reporting import Report, Reporting
from laneway.vsphere.fleet.caches import VsphereCaches
from laneway.vsphere.fleet.failure_domains import domain_of
from laneway.vsphere.fleet.fleet import Fleet
from laneway.vsphere.fleet.reservations import Reservations
from laneway.vsphere.machines.ownership import cluster_of, is_paused
from laneway.vsphere.port import VCenterError

log = logging.getLogger(__name__)

REST_SECONDS = 300.0
"""How soon a machine is reconciled again without news from vCenter."""
SOON_SECONDS = 0.5
"""How soon those are looked at who may have use of what has changed."""
UNREADABLE = "InvalidPCIDevices"
UNREACHABLE = "VCenterUnreachable"
_SHOWN = 5
"""The most problems of a spec that are reported."""


class CapvVms(Leading[Key]):
    """One VSphereVM after the other, several at a time."""

    workers = 8

    def __init__(
        self,
        client: Client,
        caches: VsphereCaches,
        fleet: Fleet,
        reservations: Reservations,
        recorder: EventRecorder,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        super().__init__()
        self._caches = caches
        self._fleet = fleet
        self._reservations = reservations
        self._reporting = Reporting(client, caches, recorder, clock)
        self.needs = (
            caches.vcenters,
            caches.reservations,
            caches.vms,
            caches.vsphere_machines,
            caches.machines,
            caches.zones,
            caches.domains,
            caches.clusters,
        )
        caches.vms.subscribe(lambda _, new: self.ask([key_of(new)] if new else ()))
        caches.reservations.subscribe(self._reserved)
        fleet.subscribe(self._host_changed)

    def everything(self) -> Iterable[Key]:
        """All VSphereVMs."""
        return [key_of(vm) for vm in self._caches.vms.store]

    def _reserved(self, old: VSphereReservation | None, new: VSphereReservation | None) -> None:
        if old is None or (new is not None and new.spec == old.spec):
            return
        # What it kept is free: for the machine itself, or for those who wait.
        self.ask([key_of(old)])
        self._host_changed(self._fleet.name(old.spec.server), frozenset())

    def _is_at(self, key: Key, name: str) -> bool:
        vm = self._caches.vms.store.get(key.name, key.namespace)
        return vm is not None and self._fleet.name(vm.spec.server) == name

    def _host_changed(self, name: str, refs: frozenset[str]) -> None:
        if not self.leading:
            return
        there = self._fleet.inventory(name)
        on_them = {vm for ref in refs if ref in there for vm in users_of(there[ref])}
        for key in self.everything():
            if not self._is_at(key, name):
                continue
            reservation = self._reservations.of(key.namespace, key.name)
            if reservation is None or not refs:
                # Those who wait are many at times, and changes come in swarms.
                self.queue.add_after(key, SOON_SECONDS)
            elif reservation.host in refs or reservation.vm in on_them:
                self.ask([key])

    async def reconcile(self, key: Key) -> Retry | None:
        """Reconcile one machine: what it requests, what it has, and what can be reserved for it."""
        vm = self._caches.vms.store.get(key.name, key.namespace)
        if vm is None:
            self._reporting.forget(key)
            return None
        if vm.metadata.deletion_timestamp is not None:
            return None
        if is_paused(vm.metadata, cluster_of(vm.metadata, self._caches)):
            return None
        spec = vm.spec
        requested, problems = parsing.read(
            spec.pci_devices,
            pcidevices=spec.pcidevices,
            vgpudevices=spec.vgpudevices,
            peer_to_peer=spec.peer_to_peer,
        )
        # What CAPV attaches all the same holds devices, so it is counted.
        if stopping := [one for one in problems if not one.works]:
            words = "; ".join(f"spec.{one.path}: {one.message}" for one in stopping[:_SHOWN])
            await self._report(vm, Report(False, UNREADABLE, words))
            return None
        if not requested.devices:
            return None
        try:
            report = await self._look(vm, requested)
        except VCenterError as error:
            log.info("VSphereVM %s: %s", key, error)
            # What was true stays said: an outage of vCenter takes no device away.
            if not self._reporting.has_said(vm):
                await self._report(vm, Report(False, UNREACHABLE, str(error)))
            return Retry(REST_SECONDS)
        await self._report(vm, report)
        return Retry(REST_SECONDS)

    async def _look(self, vm: VSphereVM, requested: Requested) -> Report:
        vcenter = self._fleet.vcenter(vm.spec.server)
        state = await vcenter.find(vm.metadata.uid, vm.spec.bios_uuid)
        refusal = None
        if state is None or not state.on:
            found = await self._reservations.keep(vm, requested, domain_of(vm, self._caches))
            refusal = found if isinstance(found, Refusal) else None
        now = await self._reservations.tell(vm, requested, state, refusal=refusal)
        return Report(now.ready, now.reason, now.message, now.devices)

    async def _report(self, vm: VSphereVM, report: Report) -> None:
        try:
            await self._reporting.report(vm, report)
        except NotFoundError:
            log.debug("VSphereVM %s is gone", key_of(vm))


def users_of(host: Host) -> set[str]:
    """The VMs that are on with devices of a host."""
    found = {device.holder for device in host.devices if device.holder}
    return found | {user.vm for gpu in host.shared_gpus for user in gpu.users}
