"""Carries out the wishes of VGPUDevices.

All vGPUs of a GPU share its room, so each wish is judged with all functions of the GPU, and plans
of one GPU, its own switch included, take turns.
"""

from __future__ import annotations

from laneway.api import SRIOVGPUDevice, VGPUDevice
from laneway.controllers.acting import ActingController, Circumstances, Deed, Means
from laneway.controllers.devices import vgpu as projection
from laneway.controllers.devices.family import Family
from laneway.core.decision import Decision
from laneway.core.inventory import Inventory, VgpuFunction
from laneway.core.pci import PciAddress
from laneway.core.plan import Plan, Satisfied
from laneway.core.refusals import Refusal, WrongDevice
from laneway.core.vgpu import VgpuWish, decide, mdev_uuid
from laneway.kube.client import Client
from laneway.kube.informer import Informer


class VgpuController(ActingController[VGPUDevice, VgpuWish]):
    """The publisher of VGPUDevices, which also acts on them."""

    def __init__(
        self,
        node: str,
        client: Client,
        informer: Informer[VGPUDevice],
        means: Means,
        *,
        gpus: Informer[SRIOVGPUDevice],
    ) -> None:
        family = Family(VGPUDevice, projection.wanted, projection.status, self._keep)
        super().__init__(family, node, client, informer, means)
        self._gpus = gpus

    async def run(self) -> None:
        self._gpus.subscribe(self._gpu_changed)
        await super().run()

    def rank(self, name: str) -> tuple[bool, str]:
        """After a reboot, what ran before comes before what never fitted."""
        stored = self.informer.store.get(name)
        return stored is None or not stored.status.configure_vgpu_type_name, name

    def wrong_device(self, stored: VGPUDevice) -> WrongDevice | None:
        return projection.wrong_device(stored, self.node)

    def wish(self, stored: VGPUDevice, shown: VGPUDevice) -> VgpuWish:
        function = self._function(PciAddress.parse(stored.spec.address))
        our_uuid = mdev_uuid(self.node, function) if function else ""
        return projection.wish(stored, shown, our_uuid)

    def card(self, wish: VgpuWish) -> PciAddress:
        function = self._function(wish.address)
        return function.parent if function else wish.address

    def circumstances(self, wish: VgpuWish) -> Circumstances:
        def vgpu(one: VgpuFunction) -> tuple[str, str] | None:
            return (one.configured.type_id, one.configured.uuid) if one.configured else None

        seen = tuple((v.address, v.creatable, vgpu(v)) for v in self._siblings(wish))
        return wish.enabled, wish.profile, seen

    def settled(self, wish: VgpuWish) -> Satisfied | tuple[Refusal, ...] | None:
        decision = self._decide(wish)
        return None if isinstance(decision, Plan) else decision

    async def plan(self, wish: VgpuWish) -> Decision:
        return self._decide(wish)

    def deed(self, name: str, wish: VgpuWish) -> Deed:
        if wish.enabled:
            why = f"VGPUDevice {name} asks for {wish.profile}"
            return Deed("configure-vgpu", "Configured", why)
        return Deed("remove-vgpu", "Removed", f"VGPUDevice {name} is disabled")

    def _decide(self, wish: VgpuWish) -> Decision:
        return decide(wish, self.node, self._function(wish.address), self._siblings(wish))

    def _function(self, address: PciAddress) -> VgpuFunction | None:
        return next((vgpu for vgpu in self.inventory.vgpus if vgpu.address == address), None)

    def _siblings(self, wish: VgpuWish) -> tuple[VgpuFunction, ...]:
        """All functions of the GPU, the one of the wish included."""
        gpu = self.card(wish)
        return tuple(vgpu for vgpu in self.inventory.vgpus if vgpu.parent == gpu)

    def _gpu_changed(self, _before: SRIOVGPUDevice | None, _after: SRIOVGPUDevice | None) -> None:
        for stored in self.informer.store:
            if stored.metadata.name not in self.wanted:
                self.queue.add(stored.metadata.name)

    def _keep(self, stored: VGPUDevice, inventory: Inventory) -> bool:
        gpu = self._gpus.store.get(projection.parent_name(stored, self.node))
        enabled = gpu is not None and gpu.spec.enabled
        return projection.wrong_device(stored, self.node) is not None or projection.keep(
            stored, inventory, gpu_enabled=enabled
        )
