"""What carries out the desired states about cards, and so those of SRIOVNetworkDevices.

Users of a device show in no inventory, so a desired state that requests a change is judged by a
closer look, taken when it is the card's turn.
"""

from __future__ import annotations

from typing import TypeVar

from msgspec.structs import replace

from laneway.api import SRIOVGPUDevice, SRIOVNetworkDevice
from laneway.controllers.acting import ActingController, Context, OperationNames, RetryFingerprint
from laneway.controllers.devices import network
from laneway.core.decision import Decision
from laneway.core.gpu.desired import DesiredMode
from laneway.core.inventory import Inventory
from laneway.core.pci import PciAddress
from laneway.core.refusals import NameMismatch
from laneway.core.situation import Situation
from laneway.core.sriov.desired import DesiredVfs, decide, facts
from laneway.host.situation import observe
from laneway.kube.client import Client
from laneway.kube.controller import Retry
from laneway.kube.informer import Informer

C = TypeVar("C", bound=SRIOVGPUDevice | SRIOVNetworkDevice)
W = TypeVar("W", bound=DesiredVfs | DesiredMode)


class CardController(ActingController[C, W]):
    """What the two kinds of cards have in common."""

    async def report(self, stored: C) -> Retry | None:
        """Nothing is done or answered about a card that cannot be read."""
        return await super().report(stored) if stored.metadata.name in self.wanted else None

    def wrong_device(self, stored: C) -> NameMismatch | None:
        name, spec = stored.metadata.name, stored.spec
        if spec.address == self.wanted[name].spec.address and spec.node_name in ("", self.node):
            return None
        return NameMismatch(name, spec.address, spec.node_name)

    def card(self, desired: W) -> PciAddress:
        return desired.address

    def retry_fingerprint(self, desired: W) -> RetryFingerprint:
        return replace(desired, explicit=False), *facts(desired.address, self.inventory)

    async def look(self, desired: W) -> Situation:
        return await observe(self.context.hardware, self.node, [desired.address])

    async def plan(self, desired: W) -> Decision:
        situation = await self.look(desired)
        if _vfs(desired, situation.inventory) != _vfs(desired, self.inventory):
            # The spec speaks of what the last scan shows, and so of none of these.
            desired = replace(desired, explicit=False)
        return self.decide(desired, situation)


def _vfs(desired: DesiredVfs | DesiredMode, inventory: Inventory) -> tuple[PciAddress, ...]:
    card = inventory.function(desired.address)
    return card.vfs if card is not None else ()


class NetworkController(CardController[SRIOVNetworkDevice, DesiredVfs]):
    """The publisher of SRIOVNetworkDevices, which also acts on them."""

    def __init__(
        self,
        node: str,
        client: Client,
        informer: Informer[SRIOVNetworkDevice],
        context: Context,
    ) -> None:
        super().__init__(network.FAMILY, node, client, informer, context)

    async def align(self, name: str, stored: SRIOVNetworkDevice | None) -> Retry | None:
        """A card that the node uses gets no object; one that it has stays, and says why."""
        wanted = self.wanted.get(name)
        if stored is None and wanted is not None and self._is_used(wanted):
            return None
        return await super().align(name, stored)

    def _is_used(self, wanted: SRIOVNetworkDevice) -> bool:
        return PciAddress.parse(wanted.spec.address) in self.inventory.critical

    def desired(self, stored: SRIOVNetworkDevice, shown: SRIOVNetworkDevice) -> DesiredVfs:
        return network.desired(stored, shown)

    def decide(self, desired: DesiredVfs, situation: Situation) -> Decision:
        return decide(desired, situation)

    def operation_names(self, name: str, desired: DesiredVfs) -> OperationNames:
        why = f"SRIOVNetworkDevice {name} requests {desired.count} virtual functions"
        return OperationNames("set-vfs", "Enabled" if desired.count else "Disabled", why)
