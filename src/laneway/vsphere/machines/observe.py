"""Everything that one decision about a VSphereVM is made from, looked up at one moment.

The task is read before the VM: so what an ended task has done is seen. The VM is read by its ref
where that is known, which is one request less than to search for it.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from laneway.api import find_condition
from laneway.core.vsphere.inventory.hosts import Host
from laneway.core.vsphere.inventory.vms import TaskState, VmState
from laneway.core.vsphere.placement.domain import Domain
from laneway.core.vsphere.placement.reservation import Reservation
from laneway.core.vsphere.provisioning.matching import parts_of
from laneway.core.vsphere.provisioning.steps import DesiredVm, PowerOffMode
from laneway.core.vsphere.spec.parsing import Problem
from laneway.core.vsphere.spec.parsing import read as read_devices
from laneway.core.vsphere.spec.requests import Requested
from laneway.kube.capv import VSphereVM
from laneway.vsphere.fleet.caches import VsphereCaches
from laneway.vsphere.fleet.failure_domains import domain_of, zone_of
from laneway.vsphere.fleet.fleet import Fleet
from laneway.vsphere.fleet.reservations import Reservations
from laneway.vsphere.machines.bootstrap import need_no_addresses
from laneway.vsphere.machines.conditions import CLONING, PROVISIONED
from laneway.vsphere.port import Place, VCenter, VCenterError

_LINKED = "linkedClone"
_REF = "VirtualMachine:"


class Observed(NamedTuple):
    """What is desired, and what there is."""

    desired: DesiredVm
    domain: Domain
    place: Place
    """Where it is to be; the host is for the step to say."""
    problems: tuple[Problem, ...]
    """Of the list of devices, which cannot be understood then."""
    reservation: Reservation | None
    host: Host | None
    """The reserved one."""
    state: VmState | None
    task: tuple[str, TaskState] | None
    made: bool
    """There has been a VM."""
    ordered: bool
    """A clone may be under way of which no task is known."""

    @property
    def requested(self) -> Requested:
        return self.desired.requested


class VCenterView(NamedTuple):
    """What vCenter says of a machine."""

    task: tuple[str, TaskState] | None
    there: VmState | None


async def ask(vm: VSphereVM, last: str, vcenter: VCenter) -> VCenterView:
    """Ask vCenter; `last` is the last task, if its end is not known.

    Raises VCenterError, also for a VM of which vCenter cannot tell the configuration.
    """
    # A task that vCenter has forgotten has ended, one way or the other: the VM tells.
    task = (last, await vcenter.task(last) or TaskState(done=True)) if last else None
    ref = vm.status.vm_ref.removeprefix(_REF) or (task[1].result if task is not None else "")
    there = (await vcenter.look([ref])).get(ref) if ref else None
    if there is None or there.instance_uuid not in {"", vm.metadata.uid}:
        there = await vcenter.find(vm.metadata.uid, vm.spec.bios_uuid)
    if there is not None and not there.instance_uuid:
        # It may run, with its devices: nothing must be concluded from what is not reported.
        raise VCenterError(
            f"vCenter cannot read VM {there.name!r} ({there.ref}) now: bring back its datastore, "
            "or remove the VM from the inventory once it is off"
        )
    return VCenterView(task, there)


def look(
    vm: VSphereVM,
    answers: VCenterView,
    *,
    caches: VsphereCaches,
    fleet: Fleet,
    reservations: Reservations,
) -> Observed:
    """Look up everything else."""
    task, there = answers
    if there is not None and not _is_ours(vm, there, caches):
        there = None
    if there is not None and there.on and vm.status.ready and not there.addresses:
        # A guest that restarts reports none for a while, and keeps those that it had.
        there = replace(there, addresses=tuple(vm.status.addresses))
    reservation = reservations.of(vm.metadata.namespace, vm.metadata.name)
    if reservation is not None and not reservation.host:
        reservation = None
    hosts = {host.ref: host for host in fleet.hosts(vm.spec.server)}
    host = hosts.get(reservation.host) if reservation is not None else None
    domain = domain_of(vm, caches)
    requested, problems = read_devices(
        vm.spec.pci_devices,
        pcidevices=vm.spec.pcidevices,
        vgpudevices=vm.spec.vgpudevices,
        peer_to_peer=vm.spec.peer_to_peer,
    )
    desired = DesiredVm(
        requested=requested,
        parts=parts_of(requested, hosts.values()),
        hardware_version=_hardware(vm.spec.hardware_version),
        metadata_set=not need_no_addresses(
            [(one.mac_addr, one.device_name) for one in vm.spec.network.devices]
        ),
        group=_vm_group(vm, caches),
        placed=host is not None and not host.drs,
        power_off=_power_off(vm.spec.power_off_mode),
        deleted=vm.metadata.deletion_timestamp is not None,
    )
    said = find_condition(vm.status.conditions, PROVISIONED)
    cloning = said is not None and said.reason == CLONING
    return Observed(
        desired=desired,
        domain=domain,
        place=_place(vm, caches, host),
        problems=tuple(one for one in problems if not one.works),
        reservation=reservation,
        host=host,
        state=there,
        task=task,
        made=bool(vm.status.vm_ref or vm.spec.bios_uuid) or there is not None,
        ordered=cloning and task is None,
    )


def _is_ours(vm: VSphereVM, there: VmState, caches: VsphereCaches) -> bool:
    """Whether a VM was made for a VSphereVM.

    The instance UUID is for vCenter's operators alone to change. The BIOS UUID is what a user
    wrote into the object, and is needed where the object was moved to another cluster and has
    another uid since: so it counts for a VM of the object's name only, which no other VSphereVM
    has by its instance UUID.
    """
    if there.instance_uuid == vm.metadata.uid:
        return True
    others = {one.metadata.uid for one in caches.vms.store}
    return there.name == vm.metadata.name and there.instance_uuid not in others


def ref_text(ref: str) -> str:
    """`VirtualMachine:vm-42`, as `status.vmRef` has it."""
    return _REF + ref


def _hardware(text: str) -> int:
    number = text.removeprefix("vmx-")
    return int(number) if number.isdecimal() and len(number) < 4 else 0


def _power_off(text: str) -> PowerOffMode:
    return PowerOffMode(text) if text in {*PowerOffMode} else PowerOffMode.HARD


def _topology_cluster(vm: VSphereVM, caches: VsphereCaches) -> str:
    zone = zone_of(vm, caches)
    domain = caches.domains.store.get(zone.spec.failure_domain) if zone is not None else None
    return domain.spec.topology.compute_cluster if domain is not None else ""


def _vm_group(vm: VSphereVM, caches: VsphereCaches) -> str:
    zone = zone_of(vm, caches)
    domain = caches.domains.store.get(zone.spec.failure_domain) if zone is not None else None
    hosts = domain.spec.topology.hosts if domain is not None else None
    return hosts.vm_group_name if hosts is not None else ""


def _place(vm: VSphereVM, caches: VsphereCaches, host: Host | None) -> Place:
    """Without a resource pool it is the cluster's, and without a failure domain the reserved one.

    Without a datastore it is the template's, by vCenter's own rule.
    """
    cluster = _topology_cluster(vm, caches)
    if host is not None and not cluster and not vm.spec.resource_pool:
        cluster = host.cluster_ref
    return Place(
        datacenter=vm.spec.datacenter,
        folder=vm.spec.folder,
        resource_pool=vm.spec.resource_pool,
        datastore=vm.spec.datastore,
        cluster=cluster,
    )


def is_linked(vm: VSphereVM) -> bool:
    """CAPV's default."""
    return vm.spec.clone_mode in {"", _LINKED}
