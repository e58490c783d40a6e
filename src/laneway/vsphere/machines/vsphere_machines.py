"""VSphereMachine → VSphereVM, and back: what became of the VM is what became of the machine.

A VSphereVM is made once the cluster's infrastructure and the machine's bootstrap data are there. It
has the machine's name in Cluster API, so that one that was made before a restart is found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from laneway.api import find_condition, timestamp
from laneway.controllers.cluster.leading import Leading
from laneway.core.vsphere.spec.vm_names import NamingError
from laneway.kube.capv import VSPHERE_MACHINES, VSPHERE_VMS, CloneSpec, VSphereMachine, VSphereVM
from laneway.kube.client import Client
from laneway.kube.clusterapi import Cluster, Machine
from laneway.kube.controller import Retry
from laneway.kube.errors import AlreadyExistsError, ConflictError, NotFoundError
from laneway.kube.events import EventRecorder
from laneway.kube.resource import Key, key_of
from laneway.vsphere.fleet.caches import VsphereCaches
from laneway.vsphere.machines import finalizers
from laneway.vsphere.machines.changes import needs_reconcile
from laneway.vsphere.machines.conditions import (
    DELETING,
    NOT_PROVISIONED,
    PROVISIONED,
    Fact,
    conditions,
    with_summary,
)
from laneway.vsphere.machines.full_spec import MACHINES_WITH_SPEC
from laneway.vsphere.machines.latest import Latest
from laneway.vsphere.machines.mirror import is_under_way, mirrored, shown
from laneway.vsphere.machines.ownership import Owners, is_paused, of_cluster, owner_name, owners_of
from laneway.vsphere.machines.preconditions import WAITING_FOR_OWNER, unmet_precondition
from laneway.vsphere.machines.rejection import unusable_name
from laneway.vsphere.machines.vm_spec import changes, labels_of, vm_name, vm_spec
from laneway.vsphere.status import Statuses, as_json

CONFLICT_SECONDS = 0.2
STEP_SECONDS = 1.0
"""How long what a VM says on its way may wait to be said of its machine, with what follows."""
NAME_TAKEN = "NameTaken"


class VsphereMachines(Leading[Key]):
    """The machines of Cluster API on vSphere."""

    workers = 8

    def __init__(
        self,
        client: Client,
        caches: VsphereCaches,
        recorder: EventRecorder,
        *,
        clock: Callable[[], datetime],
    ) -> None:
        super().__init__()
        self._client = client
        self._caches = caches
        self._recorder = recorder
        self._clock = clock
        self._latest = Latest(caches.vsphere_machines, self._read)
        self._statuses = Statuses(client)
        self._made: dict[str, Key] = {}
        """Where the VSphereVM of each machine was found last, by the machine's uid."""
        self.needs = (
            caches.vsphere_machines,
            caches.vms,
            caches.machines,
            caches.clusters,
            caches.vsphere_clusters,
            caches.zones,
            caches.domains,
        )
        caches.vsphere_machines.subscribe(self._changed)
        caches.vms.subscribe(self._vm_changed)
        caches.machines.subscribe(self._machine_changed)
        caches.clusters.subscribe(self._cluster_changed)
        caches.zones.subscribe(lambda _old, _new: self.ask(self.everything()))
        caches.domains.subscribe(lambda _old, _new: self.ask(self.everything()))

    def everything(self) -> Iterable[Key]:
        return self._caches.vsphere_machines.store.keys()

    def _changed(self, before: VSphereMachine | None, after: VSphereMachine | None) -> None:
        if after is None and before is not None:
            self._made.pop(before.metadata.uid, None)
        if needs_reconcile(before, after):
            self.ask(key_of(one) for one in (after or before,) if one is not None)

    def _vm_changed(self, before: VSphereVM | None, after: VSphereVM | None) -> None:
        vm = after or before
        name = owner_name(vm.metadata, "VSphereMachine") if vm is not None else ""
        if vm is None or not name:
            return
        key = Key(vm.metadata.namespace, name)
        if before is not None and after is not None and shown(before) == shown(after):
            return
        if after is None or not is_under_way(after):
            self.ask([key])
        elif self.leading:
            self.queue.add_after(key, STEP_SECONDS)

    def _machine_changed(self, _before: Machine | None, after: Machine | None) -> None:
        if after is not None and (name := after.spec.infrastructure_ref.name):
            self.ask([Key(after.metadata.namespace, name)])

    def _cluster_changed(self, _before: Cluster | None, after: Cluster | None) -> None:
        if after is not None:
            owner = key_of(after)
            self.ask(
                key_of(one)
                for one in self._caches.vsphere_machines.store
                if of_cluster(one.metadata) == owner
            )

    async def reconcile(self, key: Key) -> Retry | None:
        """Bring one machine to what it should be."""
        try:
            machine = await self._latest.get(key)
        except NotFoundError:
            return None
        owners = owners_of(machine, self._caches)
        if is_paused(machine.metadata, owners.cluster):
            return None
        try:
            if machine.metadata.deletion_timestamp is not None:
                await self._delete(machine)
            else:
                await self._provide(machine, owners)
        except ConflictError:
            self._latest.invalidate(key)
            return Retry(CONFLICT_SECONDS)
        return None

    # ------------------------------------------------------------------------------------- making

    async def _provide(self, machine: VSphereMachine, owners: Owners) -> None:
        above, cluster, infrastructure = owners.machine, owners.cluster, owners.infrastructure
        if above is None or cluster is None or infrastructure is None:
            await self._wait(
                machine,
                WAITING_FOR_OWNER,
                "The Machine or Cluster of this object does not exist yet",
            )
            return
        spec: Mapping[str, Any] | None = None
        if finalizers.MACHINE not in machine.metadata.finalizers:
            machine, spec = await self._held(machine)
        vm = self._vm_of(machine)
        bootstrap = above.spec.bootstrap.data_secret_name or ""
        waits = None if vm is not None else unmet_precondition(machine, above, cluster, owners)
        if waits is not None:
            await self._wait(machine, *waits)
            return
        if vm is None:
            if spec is None:
                meta = machine.metadata
                spec = (await self._client.get(MACHINES_WITH_SPEC, meta.name, meta.namespace)).spec
            try:
                name = vm_name(above.metadata.name, spec)
            except NamingError as error:
                await self._wait(machine, *unusable_name(error))
                return
            spec = vm_spec(spec, infrastructure, owners.zone, owners.domain, bootstrap)
            await self._make(machine, name, spec)
            return
        if vm.metadata.deletion_timestamp is None:
            await self._adjust(vm, machine.spec)
        await self._reflect(machine, vm, owners.zone.metadata.name if owners.zone else "")

    async def _held(self, machine: VSphereMachine) -> tuple[VSphereMachine, Mapping[str, Any]]:
        """It waits for us from now on; with all of its spec, of which a VM is made most often."""
        whole = await finalizers.held(self._client, MACHINES_WITH_SPEC, machine, finalizers.MACHINE)
        self._latest.wrote(whole.known)
        return whole.known, whole.spec

    async def _read(self, key: Key) -> VSphereMachine:
        return await self._client.get(VSPHERE_MACHINES, key.name, key.namespace)

    def _vm_of(self, machine: VSphereMachine) -> VSphereVM | None:
        uid, store = machine.metadata.uid, self._caches.vms.store
        key = self._made.get(uid)
        vm = store.get(key.name, key.namespace) if key is not None else None
        if vm is None or not _is_owned(vm, uid):
            vm = next((one for one in store if _is_owned(one, uid)), None)
            if vm is not None:
                self._made[uid] = key_of(vm)
        return vm

    async def _make(self, machine: VSphereMachine, name: str, spec: Mapping[str, Any]) -> None:
        meta = machine.metadata
        body = {
            "apiVersion": VSPHERE_VMS.api_version,
            "kind": "VSphereVM",
            "metadata": {
                "name": name,
                "namespace": meta.namespace,
                "labels": labels_of(meta.labels),
                "finalizers": [finalizers.VM],
                "ownerReferences": [
                    {
                        "apiVersion": VSPHERE_MACHINES.api_version,
                        "kind": "VSphereMachine",
                        "name": meta.name,
                        "uid": meta.uid,
                        "controller": True,
                        "blockOwnerDeletion": True,
                    }
                ],
            },
            "spec": spec,
        }
        try:
            await self._client.create(VSPHERE_VMS, body, meta.namespace)
        except AlreadyExistsError:
            there = await self._client.get(VSPHERE_VMS, name, meta.namespace)
            if not _is_owned(there, meta.uid):
                await self._wait(
                    machine, NAME_TAKEN, f"VSphereVM {name} belongs to another object; delete it"
                )

    async def _adjust(self, vm: VSphereVM, spec: CloneSpec) -> None:
        if changed := changes(spec, vm.spec):
            meta = vm.metadata
            await self._client.patch(VSPHERE_VMS, meta.name, {"spec": changed}, meta.namespace)

    # ------------------------------------------------------------------------------------ telling

    async def _reflect(self, machine: VSphereMachine, vm: VSphereVM, zone: str) -> None:
        """Say of the machine what is true of its VM."""
        provisioned = machine.status.initialization.provisioned or vm.status.ready
        if vm.status.ready and vm.spec.bios_uuid and not machine.spec.provider_id:
            meta = machine.metadata
            body = {
                "metadata": {"resourceVersion": meta.resource_version},
                "spec": {"providerID": f"vsphere://{vm.spec.bios_uuid}"},
            }
            machine = await self._client.patch(VSPHERE_MACHINES, meta.name, body, meta.namespace)
            self._latest.wrote(machine)
        facts = mirrored(vm)
        if not any(one.type == PROVISIONED for one in facts):
            facts.insert(
                0, Fact(PROVISIONED, False, NOT_PROVISIONED, "Laneway reads the state of the VM")
            )
        addresses = [{"type": "ExternalIP", "address": one} for one in vm.status.addresses]
        if addresses:
            addresses.append({"type": "InternalDNS", "address": vm.metadata.name})
        await self._write(
            machine, facts, addresses, vm.status.pci_devices, zone, provisioned=provisioned
        )

    async def _wait(self, machine: VSphereMachine, reason: str, message: str) -> None:
        await self._write(machine, [Fact(PROVISIONED, False, reason, message)])

    async def _write(
        self,
        machine: VSphereMachine,
        facts: list[Fact],
        addresses: Sequence[Mapping[str, str]] = (),
        devices: Sequence[Any] | None = None,
        zone: str = "",
        *,
        provisioned: bool = False,
    ) -> None:
        """`devices`: how each stands; None: what was said of them still holds, as of the zone."""
        before = machine.status.conditions
        now = timestamp(self._clock())
        new = conditions(before, with_summary(facts), machine.metadata.generation, now)
        listed = machine.status.pci_devices
        devices = listed if devices is None else devices
        zone = zone or machine.status.failure_domain
        there = list(machine.status.addresses), machine.status.initialization.provisioned
        same = there == ([*addresses], provisioned) and listed == devices
        same = same and (
            machine.status.failure_domain == zone or self._statuses.is_plain(VSPHERE_MACHINES)
        )
        if same and {one.type: one for one in before} == {one.type: one for one in new}:
            return
        status: dict[str, Any] = {"addresses": [*addresses], "conditions": as_json(new)}
        if provisioned:
            status["initialization"] = {"provisioned": True}
        self._latest.wrote(
            await self._statuses.apply(VSPHERE_MACHINES, machine, status, devices, zone)
        )

    # ----------------------------------------------------------------------------------- deleting

    async def _delete(self, machine: VSphereMachine) -> None:
        if finalizers.MACHINE not in machine.metadata.finalizers:
            return
        vm = self._vm_of(machine)
        if vm is None and (vm := await self._there(machine)) is None:
            await finalizers.remove_finalizer(
                self._client, VSPHERE_MACHINES, machine, finalizers.MACHINE
            )
            return
        meta = vm.metadata
        if meta.deletion_timestamp is None:
            await self._client.delete(VSPHERE_VMS, meta.name, meta.namespace, uid=meta.uid)
        said = find_condition(vm.status.conditions, PROVISIONED)
        message = said.message if said is not None else ""
        await self._write(machine, [Fact(PROVISIONED, False, DELETING, message)])

    async def _there(self, machine: VSphereMachine) -> VSphereVM | None:
        """Its VSphereVM, should the cache not know it yet."""
        pages = self._client.list(VSPHERE_VMS, machine.metadata.namespace)
        async for page in pages:
            for raw in page.items:
                vm = VSPHERE_VMS.decode(raw)
                if _is_owned(vm, machine.metadata.uid):
                    return vm
        return None

    async def run(self) -> None:
        """Lead until cancelled."""
        try:
            await super().run()
        finally:
            self._latest.forget()
            self._made.clear()


def _is_owned(vm: VSphereVM, uid: str) -> bool:
    return any(one.uid == uid for one in vm.metadata.owner_references)
