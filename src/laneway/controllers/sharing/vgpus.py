"""Carries out the desired states of VGPUDevices.

All vGPUs of a GPU share its room, so each desired state is judged with all functions of the GPU,
and plans of one GPU, its own switch included, take turns. The GPU comes first: nothing is made on
it before it is as its own objects request it. Then desired vGPUs are made in an order in which all
fit, if there is one; what cannot be made now has no place in it and delays no other.

A vGPU is taken away, also for another profile, only when the kubelet cannot allocate it any more,
no pod has it, and no process has it open.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping

import msgspec

from laneway.api import (
    MigConfiguration,
    SRIOVGPUDevice,
    Status,
    VGPUDevice,
    VGPUDeviceStatus,
)
from laneway.controllers.acting import (
    ActingController,
    Context,
    OperationNames,
    Pending,
    RetryFingerprint,
)
from laneway.controllers.device_plugin.controller import DevicePluginController, DeviceStatus
from laneway.controllers.devices import vgpu as projection
from laneway.controllers.devices.family import Family, read_failed
from laneway.controllers.gpu_workloads import GpuWorkloads
from laneway.controllers.layouts.owners import Owners
from laneway.core import names
from laneway.core.decision import Decision
from laneway.core.inventory import Inventory, VgpuFunction
from laneway.core.pci import PciAddress, PciFunction
from laneway.core.plan import Plan, Satisfied
from laneway.core.refusals import (
    DeviceNotFound,
    GpuDisabled,
    GpuNotReady,
    NameMismatch,
    ProfileExhausted,
    ProfileNotListed,
    Refusal,
    VfNotFound,
)
from laneway.core.situation import Situation
from laneway.core.sriov.vfs import held
from laneway.core.vgpu.desired import DesiredVgpu, SharedGpu, changes, decide, own_uuids
from laneway.core.vgpu.making_order import Wanted, making_order
from laneway.core.vgpu.offer import lacking
from laneway.host.holders import visibility_error
from laneway.host.leaving import read_users
from laneway.kube.client import Client
from laneway.kube.controller import Retry
from laneway.kube.informer import Informer

_NONE = SharedGpu(())


class VgpuController(ActingController[VGPUDevice, DesiredVgpu]):
    """The publisher of VGPUDevices, which also acts on them."""

    def __init__(
        self,
        node: str,
        client: Client,
        informer: Informer[VGPUDevice],
        context: Context,
        *,
        gpus: Informer[SRIOVGPUDevice],
        migs: Informer[MigConfiguration],
        device_plugin: DevicePluginController,
        owners: Owners,
        workloads: GpuWorkloads,
        pending: Pending = lambda _gpu: "",
    ) -> None:
        family = Family(VGPUDevice, self._wanted, projection.status, self._keep)
        super().__init__(family, node, client, informer, context)
        self._gpus = gpus
        self._migs = migs
        self._device_plugin = device_plugin
        self._owners = owners
        self._workloads = workloads
        self._pending = pending
        self._again: set[PciAddress] = set()
        """GPUs that the last inventory shows otherwise than the one before."""
        self._shared: dict[PciAddress, SharedGpu] = {}
        """What the last inventory shows, by GPU."""
        self._gpu_of: dict[PciAddress, PciAddress] = {}
        self._gpu_named: dict[str, PciAddress] = {}
        self._waiting: defaultdict[PciAddress, set[str]] = defaultdict(set)
        """Objects that come after others of their GPU."""
        self._failed_objects: set[str] = set()
        """Objects that could not be worked on, so that nothing waits for them."""

    async def run(self) -> None:
        self._gpus.follow(self._gpu_changed)
        self._migs.follow(self._gpu_changed)
        self._device_plugin.subscribe(self._status_changed)
        self._owners.subscribe(self._owner_changed)
        self._workloads.subscribe(self.ask_again)
        await super().run()

    def observed(self, inventory: Inventory) -> None:
        shared = {
            gpu: SharedGpu(there, inventory.function(gpu), inventory.modes.get(gpu))
            for gpu, there in inventory.by_gpu().items()
        }
        otherwise = inventory.nvidia_driver != self.inventory.nvidia_driver
        gpus = shared.keys() | self._shared.keys()
        self._again = {one for one in gpus if otherwise or shared.get(one) != self._shared.get(one)}
        if self._again:
            self._shared = shared
            self._gpu_of = {vgpu.address: vgpu.parent for vgpu in inventory.vgpus}
            self._gpu_named = {
                names.pci_object_name(self.node, function): gpu
                for function, gpu in self._gpu_of.items()
            }
        super().observed(inventory)

    def _wanted(self, inventory: Inventory, node: str) -> Mapping[str, VGPUDevice]:
        """The objects as they were, but for those of GPUs that an inventory shows otherwise."""
        if not self._again:
            return self.wanted
        kept = {
            name: one
            for name, one in self.wanted.items()
            if (gpu := self._gpu_named.get(name)) is not None and gpu not in self._again
        }
        return {**kept, **projection.wanted(inventory, node, self._again)}

    def _gpu_changed(self, gpu: SRIOVGPUDevice | MigConfiguration) -> None:
        """What a GPU itself is desired to be decides about the vGPUs that are not there."""
        for stored in self.informer.store:
            name = stored.metadata.name
            depends = name in self._refused or name not in self.wanted
            parent = projection.parent_name(stored, self.node)
            if depends and gpu.metadata.name == parent:
                self.queue.add(name)

    def _owner_changed(self, gpu: str) -> None:
        for stored in self.informer.store:
            name = stored.metadata.name
            if name in self.wanted and gpu in ("", projection.parent_name(stored, self.node)):
                self.queue.add(name)

    def _status_changed(self, kind: str, name: str) -> None:
        if kind == "VGPUDevice" and name in self.wanted:
            self.queue.add(name)

    def rank(self, name: str) -> tuple[bool, str]:
        """After a reboot, what ran before comes before what never fitted."""
        stored = self.informer.store.get(name)
        return stored is None or not _ran(stored), name

    # ------------------------------------------------------------------------------- the desired
    # state

    def wrong_device(self, stored: VGPUDevice) -> NameMismatch | None:
        return projection.wrong_device(stored, self.node)

    def desired(self, stored: VGPUDevice, shown: VGPUDevice) -> DesiredVgpu:
        address = PciAddress.parse(stored.spec.address)
        function = self._shared_with(address).function(address)
        ours = own_uuids(self.node, function) if function else ()
        return projection.desired(stored, shown, ours)

    def card(self, desired: DesiredVgpu) -> PciAddress:
        return self._gpu_of.get(desired.address, desired.address)

    def retry_fingerprint(self, desired: DesiredVgpu) -> RetryFingerprint:
        def vgpu(one: VgpuFunction) -> tuple[str, str] | None:
            return (one.configured.type_id, one.configured.uuid) if one.configured else None

        shared = self._shared_with(desired.address)
        seen = tuple((one.address, one.creatable, vgpu(one)) for one in shared.functions)
        has = self._standing(desired.address).owner
        return desired.enabled, desired.profile, seen, shared.modes, self._changing(desired), has

    def decide(self, desired: DesiredVgpu, situation: Situation) -> Decision:
        decision = self._decide(desired, self._changing(desired))
        if desired.enabled and isinstance(decision, Plan):
            kept = self._workloads.refusal([desired.address], self.inventory)
            if kept is not None:
                return (kept,)
        if not situation.at_a_glance or isinstance(decision, Satisfied):
            return decision
        function = self._shared_with(desired.address).function(desired.address)
        if desired.enabled and (
            isinstance(decision, Plan) or not (function and function.configured)
        ):
            gpu = function.parent if function else self._parent(desired)
            if gpu and (what := self._pending(gpu)):
                return (GpuNotReady(str(gpu), what),)
        return decision if isinstance(decision, Plan) else self._explained(desired, decision)

    async def look(self, _desired: DesiredVgpu) -> Situation:
        """The inventory tells enough, but for the holders of what changes: `plan` reads them."""
        return Situation(node=self.node, inventory=self.inventory)

    async def plan(self, desired: DesiredVgpu) -> Decision:
        others = self._changing(desired)
        decision = await super().plan(desired)
        function = self._shared_with(desired.address).function(desired.address)
        if isinstance(decision, Plan) and function and function.configured:
            if against := await self._device_plugin.withdrawn(
                "VGPUDevice", self._name(desired.address)
            ):
                return against
            look = await asyncio.to_thread(
                self._users, [desired.address, *(one.address for one in others)]
            )
            if open_in := held(desired.address, look):
                return tuple(open_in)
            # Without those in use it may still be done, or it is clear what is in the way.
            in_use = {one: await self._in_use(one, look) for one in others}
            decision = self._decide(desired, [one for one in others if not in_use[one]])
            if not isinstance(decision, Plan | Satisfied):
                return (*decision, *(refusal for one in others for refusal in in_use[one]))
        return decision

    async def _in_use(self, other: DesiredVgpu, look: Situation) -> tuple[Refusal, ...]:
        """Why another vGPU cannot become something else now."""
        against = await self._device_plugin.withdrawn("VGPUDevice", self._name(other.address))
        return (*against, *held(other.address, look))

    def operation_names(self, name: str, desired: DesiredVgpu) -> OperationNames:
        if desired.enabled:
            why = f"VGPUDevice {name} requests {desired.profile}"
            return OperationNames("configure-vgpu", "Configured", why)
        return OperationNames("remove-vgpu", "Removed", f"VGPUDevice {name} is disabled")

    def _decide(self, desired: DesiredVgpu, others: Iterable[DesiredVgpu]) -> Decision:
        return decide(desired, self.node, self._shared_with(desired.address), others)

    def _changing(self, desired: DesiredVgpu) -> tuple[DesiredVgpu, ...]:
        """The other vGPUs of the GPU that are to change their profile, as this one is."""
        shared = self._shared_with(desired.address)
        if not changes(desired, shared):
            return ()
        found = []
        for function in shared.functions:
            stored = self._object(function.address)
            if stored and function.address != desired.address and self._is_able(stored):
                other = self.desired(stored, self._shown(stored.metadata.name))
                if changes(other, shared):
                    found.append(other)
        return tuple(found)

    def _users(self, addresses: list[PciAddress]) -> Situation:
        """Who uses these functions now."""
        host, workloads = self.context.hardware.host, self.context.hardware.workloads
        users, _ = read_users(host, self.inventory, addresses, workloads)
        return Situation(
            node=self.node,
            inventory=self.inventory,
            holders=users,
            visibility_error=visibility_error(host),
        )

    def _explained(
        self, desired: DesiredVgpu, refusals: tuple[Refusal, ...]
    ) -> tuple[Refusal, ...]:
        """What is wrong with the GPU, where that is why nothing can be made on it."""
        why: Refusal | None = None
        match refusals:
            case (VfNotFound(),):
                why = self._missing(desired)
            case (ProfileNotListed() | ProfileExhausted(),):
                shared = self._shared_with(desired.address)
                if shared.gpu:
                    driver = self.inventory.nvidia_driver
                    why = lacking(shared.gpu, shared.functions, shared.modes, driver)
        return (why,) if why else refusals

    def _missing(self, desired: DesiredVgpu) -> Refusal | None:
        """Why there is no such function, and will be none by itself; None where it comes back."""
        parent = self._parent(desired)
        gpu = self._physical(parent)
        if parent is None or gpu is None or (gpu.vfs and desired.address not in gpu.vfs):
            return DeviceNotFound(str(desired.address))
        name = names.pci_object_name(self.node, parent)
        stored = self._gpus.store.get(name)
        return GpuDisabled(name) if stored and not stored.spec.enabled else None

    # ----------------------------------------------------------------------------- who is next

    async def reconcile(self, name: str) -> Retry | None:
        """Work on one object, and then on the next that may have waited for it."""
        stored = self.informer.store.get(name)
        if stored is not None and (wrong := self._misplaced(stored)):
            await self._record_result(stored, (wrong,))
            return None
        try:
            result = await super().reconcile(name)
        except Exception:
            self._failed_objects.add(name)
            raise
        else:
            self._failed_objects.discard(name)
            return result
        finally:
            self._go_on(self._gpu_named.get(name))

    def _misplaced(self, stored: VGPUDevice) -> NameMismatch | None:
        """What is wrong with an object of another node that is not that node's either."""
        name, node = stored.metadata.name, stored.spec.node_name
        if name in self.wanted or node in ("", self.node) or stored.metadata.deletion_timestamp:
            return None
        return projection.wrong_device(stored, node)

    async def _attempt(self, stored: VGPUDevice, desired: DesiredVgpu) -> Retry | None:
        name, gpu = stored.metadata.name, self.card(desired)
        order = self._order(gpu) if desired.enabled else ()
        if order and order[0] != name:
            self._waiting[gpu].add(name)
            return None
        return await super()._attempt(stored, desired)

    def _go_on(self, gpu: PciAddress | None) -> None:
        """Have the object worked on that waited for others of the GPU and is next now."""
        waiting = self._waiting.get(gpu) if gpu else None
        if gpu and waiting:
            order = self._order(gpu)
            for name in sorted(waiting.intersection(order[:1]) if order else waiting):
                waiting.discard(name)
                self.queue.add(name)

    def _order(self, gpu: PciAddress) -> tuple[str, ...]:
        """The objects whose vGPUs can be made now, in the order to make them in."""
        shared = self._shared.get(gpu)
        if shared is None or shared.gpu is None or self._pending(gpu):
            return ()
        free = (one.address for one in shared.functions if one.configured is None)
        desired_states = [
            stored for one in free if (stored := self._object(one)) and stored.spec.enabled
        ]
        wanted = [
            Wanted(
                PciAddress.parse(stored.spec.address),
                stored.spec.vgpu_type_name,
                projection.last(stored)[1] if _ran(stored) else None,
            )
            for stored in sorted(desired_states, key=lambda one: self.rank(one.metadata.name))
            if self._is_able(stored) and not self._has_failed(stored)
        ]
        order = making_order(shared.gpu, shared.functions, shared.modes, wanted)
        return tuple(names.pci_object_name(self.node, one.function) for one in order)

    def _is_able(self, stored: VGPUDevice) -> bool:
        """Whether an object is to be worked on at all."""
        return not (
            stored.metadata.name in self._failed_objects
            or stored.metadata.deletion_timestamp
            or self.wrong_device(stored)
            or read_failed(self.inventory, PciAddress.parse(stored.spec.address))
        )

    def _has_failed(self, stored: VGPUDevice) -> bool:
        """Whether an object's attempt is not to be repeated yet."""
        failure = self._failures.get(stored.metadata.name)
        if failure is None:
            return False
        desired = self.desired(stored, self._shown(stored.metadata.name))
        return failure.due(self.retry_fingerprint(desired)) > asyncio.get_running_loop().time()

    # ------------------------------------------------------------------------------- look-ups

    def _shared_with(self, address: PciAddress) -> SharedGpu:
        gpu = self._gpu_of.get(address)
        return self._shared[gpu] if gpu else _NONE

    def _name(self, address: PciAddress) -> str:
        return names.pci_object_name(self.node, address)

    def _standing(self, address: PciAddress) -> DeviceStatus:
        return self._device_plugin.device_status("VGPUDevice", self._name(address))

    def _object(self, address: PciAddress) -> VGPUDevice | None:
        return self.informer.store.get(self._name(address))

    def _physical(self, address: PciAddress | None) -> PciFunction | None:
        function = self.inventory.function(address) if address else None
        return function if function and function.sriov_gpu else None

    def _parent(self, desired: DesiredVgpu) -> PciAddress | None:
        """The GPU that an object without a function names."""
        stored = self._object(desired.address)
        try:
            return PciAddress.parse(stored.spec.parent_gpu_device_address) if stored else None
        except ValueError:
            return None

    def _keep(self, stored: VGPUDevice, inventory: Inventory) -> bool:
        gpu = self._gpus.store.get(projection.parent_name(stored, self.node))
        enabled = gpu is not None and gpu.spec.enabled
        return projection.wrong_device(stored, self.node) is not None or projection.keep(
            stored, inventory, gpu_enabled=enabled
        )

    # ------------------------------------------------------------------------------- answers

    async def write_status(
        self, stored: VGPUDevice, status: Status, *, unchanged: bool = False
    ) -> VGPUDevice:
        """Send what is different, and what is to be remembered."""
        if isinstance(status, VGPUDeviceStatus):
            device_status = self._device_plugin.device_status("VGPUDevice", stored.metadata.name)
            status = projection.on_its_way(
                stored, projection.remembering(stored, status), device_status
            )
            gpu, single = projection.parent_name(stored, self.node), stored.spec.enabled
            owner = self._owners.words(gpu, single=single, stored=stored.status.owner)
            status = msgspec.structs.replace(status, owner=owner)
        return await super().write_status(stored, status, unchanged=unchanged)


def _ran(stored: VGPUDevice) -> bool:
    """Whether what is desired is here, or was."""
    profile, _ = projection.last(stored)
    return bool(profile) and profile == stored.spec.vgpu_type_name
