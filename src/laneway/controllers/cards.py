"""Carries out the wishes of SRIOVGPUDevices and SRIOVNetworkDevices: virtual functions of cards.

Users of a device show in no inventory, so a wish that asks for a change is judged by a closer look,
taken when it is the card's turn. A GPU keeps its virtual functions as long as a vGPU is wished on
one of them, whether or not there is room for it now.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TypeVar

from laneway.api import SRIOVGPUDevice, SRIOVNetworkDevice, VGPUDevice
from laneway.controllers.acting import ActingController, Circumstances, Deed, Means
from laneway.controllers.devices import gpu, network
from laneway.controllers.devices.vgpu import parent_name
from laneway.core import names
from laneway.core.decision import Decision, conclude, refusals_of, steps_of
from laneway.core.pci import PciAddress
from laneway.core.plan import Satisfied
from laneway.core.refusals import Refusal, VgpusEnabled, WrongDevice
from laneway.core.situation import Situation
from laneway.core.sriov import set_vfs, switch_gpu
from laneway.core.vf_wish import VfWish, facts, judge, undriven
from laneway.host.situation import observe
from laneway.kube.client import Client
from laneway.kube.controller import Retry
from laneway.kube.informer import Informer

C = TypeVar("C", bound=SRIOVGPUDevice | SRIOVNetworkDevice)


class CardController(ActingController[C, VfWish]):
    """What the two kinds of cards have in common."""

    @abstractmethod
    def decide(self, wish: VfWish, situation: Situation) -> Decision:
        """What is to be done, by a closer look."""

    async def report(self, stored: C) -> Retry | None:
        """Nothing is done or answered about a card that cannot be read."""
        return await super().report(stored) if stored.metadata.name in self.wanted else None

    def wrong_device(self, stored: C) -> WrongDevice | None:
        name, spec = stored.metadata.name, stored.spec
        if spec.address == self.wanted[name].spec.address and spec.node_name in ("", self.node):
            return None
        return WrongDevice(name, spec.address, spec.node_name)

    def card(self, wish: VfWish) -> PciAddress:
        return wish.address

    def circumstances(self, wish: VfWish) -> Circumstances:
        return facts(wish, self.inventory)

    def settled(self, wish: VfWish) -> Satisfied | tuple[Refusal, ...] | None:
        functions = self.inventory.functions
        return judge(wish, next((one for one in functions if one.address == wish.address), None))

    async def plan(self, wish: VfWish) -> Decision:
        situation = await observe(self.means.hardware, self.node, [wish.address])
        return self.decide(wish, situation)


class GpuController(CardController[SRIOVGPUDevice]):
    """The publisher of SRIOVGPUDevices, which also acts on them."""

    def __init__(
        self,
        node: str,
        client: Client,
        informer: Informer[SRIOVGPUDevice],
        means: Means,
        *,
        vgpus: Informer[VGPUDevice],
    ) -> None:
        super().__init__(gpu.FAMILY, node, client, informer, means)
        self._vgpus = vgpus

    async def run(self) -> None:
        self._vgpus.subscribe(self._vgpu_changed)
        await super().run()

    def wish(self, stored: SRIOVGPUDevice, shown: SRIOVGPUDevice) -> VfWish:
        return gpu.wish(stored, shown)

    def settled(self, wish: VfWish) -> Satisfied | tuple[Refusal, ...] | None:
        settled = super().settled(wish)
        if isinstance(settled, Satisfied) and (wrong := undriven(wish, self.inventory)):
            return (wrong,)
        return settled

    def circumstances(self, wish: VfWish) -> Circumstances:
        return *super().circumstances(wish), self._enabled(wish.address)

    def decide(self, wish: VfWish, situation: Situation) -> Decision:
        enable = wish.count != 0
        decision = switch_gpu(wish.address, enable, situation)
        wished = () if enable else self._enabled(wish.address)
        against = (VgpusEnabled(str(wish.address), wished),) if wished else ()
        return conclude((*against, *refusals_of(decision)), steps_of(decision))

    def deed(self, name: str, wish: VfWish) -> Deed:
        if wish.count != 0:
            return Deed("enable-gpu", "Enabled", f"SRIOVGPUDevice {name} is enabled")
        return Deed("disable-gpu", "Disabled", f"SRIOVGPUDevice {name} is disabled")

    def _enabled(self, address: PciAddress) -> tuple[str, ...]:
        """The VGPUDevices of a GPU on which a vGPU is wished."""
        name = names.pci_object_name(self.node, address)
        stored = (one for one in self._vgpus.store if one.spec.enabled)
        return tuple(
            sorted(one.metadata.name for one in stored if parent_name(one, self.node) == name)
        )

    def _vgpu_changed(self, before: VGPUDevice | None, after: VGPUDevice | None) -> None:
        if (before is not None and before.spec.enabled) != (
            after is not None and after.spec.enabled
        ):
            self.ask_again()


class NetworkController(CardController[SRIOVNetworkDevice]):
    """The publisher of SRIOVNetworkDevices, which also acts on them."""

    def __init__(
        self,
        node: str,
        client: Client,
        informer: Informer[SRIOVNetworkDevice],
        means: Means,
    ) -> None:
        super().__init__(network.FAMILY, node, client, informer, means)

    def wish(self, stored: SRIOVNetworkDevice, shown: SRIOVNetworkDevice) -> VfWish:
        return network.wish(stored, shown)

    def decide(self, wish: VfWish, situation: Situation) -> Decision:
        return set_vfs(wish.address, wish.count or 0, situation)

    def deed(self, name: str, wish: VfWish) -> Deed:
        why = f"SRIOVNetworkDevice {name} asks for {wish.count} virtual functions"
        return Deed("set-vfs", "Enabled" if wish.count else "Disabled", why)
