"""For which card a desired state was made, and whether that card is where the desired state is.

A desired state speaks of an address and is made for the card that sits there; `status.gpuUUID` of
the GPU's object says which that was. Where another one is found, nothing is done about the desired
state: either it follows its card, or, once that is gone, the user must say that it is meant for the
new one. Any change of the GPU's spec in view of that answer says so. Where nothing is desired there
is nothing to follow, and the card that is there is taken as it is.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from laneway.api import MigConfiguration, SRIOVGPUDevice, VGPUDevice, find_condition
from laneway.controllers.devices import mig
from laneway.controllers.devices.vgpu import last
from laneway.core import keys, names
from laneway.core.inventory import Inventory
from laneway.core.pci import PciAddress
from laneway.core.reasons.former import renamed
from laneway.core.refusals import CardReplaced, reason_of
from laneway.core.renumbering import DesiredOn, DesiredState, Move, moves
from laneway.kube.informer import Informer

Stored = SRIOVGPUDevice | VGPUDevice | MigConfiguration

_PLACE = frozenset({"address", "gpuAddress", "parentGPUDeviceAddress", "nodeName"})
"""Fields of a spec that say where it is."""


class CardIdentity:
    """The cards of one node, as its objects and the last scan know them."""

    def __init__(
        self,
        node: str,
        *,
        gpus: Informer[SRIOVGPUDevice],
        vgpus: Informer[VGPUDevice],
        migs: Informer[MigConfiguration],
    ) -> None:
        self.moving: frozenset[PciAddress] = frozenset()
        """GPUs whose objects are being rewritten."""
        self._node = node
        self._gpus = gpus
        self._vgpus = vgpus
        self._migs = migs
        self._inventory = Inventory()
        self._places: dict[str, PciAddress] = {}

    def observed(self, inventory: Inventory) -> None:
        """Take a new inventory, before anybody decides by it."""
        self._inventory = inventory
        self._places = {card: address for address, card in inventory.identities.items()}

    # ------------------------------------------------------------------------ who may do what

    def is_moving(self, stored: object) -> bool:
        """Whether an object may be written half."""
        return gpu_of(stored) in self.moving

    def other(self, stored: object) -> CardReplaced | None:
        """What is wrong where another card than the spec is meant for sits in its place."""
        address = gpu_of(stored)
        own = self._gpus.store.get(names.pci_object_name(self._node, address)) if address else None
        if address is None or own is None:
            return None
        meant, found = _meant(own), self._inventory.identities.get(address, "")
        place = self._places.get(meant)
        if meant in ("", found) or not self.is_desired(own):
            return None
        # The driver does not know a card before it is asked something, and then it nearly always
        # does. One that stays unknown is taken for the one that was there.
        if not found and place is None and address not in self._inventory.unasked:
            return None
        return CardReplaced(str(address), meant, found, str(place) if place else "")

    def card(self, stored: SRIOVGPUDevice) -> str:
        """The card for which everything is meant that is desired of a GPU."""
        if self.other(stored):
            return stored.status.gpu_uuid
        address = gpu_of(stored)
        found = self._inventory.identities.get(address, "") if address else ""
        return found or stored.status.gpu_uuid

    def awaits(self, stored: SRIOVGPUDevice) -> bool:
        """Whether a desired state may still follow its card, although nothing is in its place."""
        meant = _meant(stored)
        known = meant in self._places or bool(self._without_identity())
        return bool(meant) and known and self.is_desired(stored)

    # -------------------------------------------------------------------------------- what moves

    def moves(self) -> tuple[Move, ...]:
        """The cards whose desired states are to follow them now."""
        own = {
            address: stored
            for stored in self._gpus.store
            if (address := self._own_address(stored)) is not None
        }
        if all(self._places.get(_meant(own[here]), here) == here for here in own):
            return ()  # As nearly always: asked with every change of an object.
        desired = (DesiredOn(here, _meant(own[here])) for here in own if self.is_desired(own[here]))
        return moves(desired, self._inventory.identities, self._without_identity())

    def desired_states(self) -> list[DesiredState]:
        """All that is desired of GPUs, and every GPU's object."""
        found = []
        for stored in (*self._gpus.store, *self._vgpus.store, *self._migs.store):
            address, gpu = self._own_address(stored), gpu_of(stored)
            if address is None or gpu is None:
                continue
            note = stored.metadata.annotations.get(keys.ANNOTATION_REQUESTED_BY)
            spec = _spec(stored)
            match stored:
                case SRIOVGPUDevice():
                    card: dict[str, object] = {"gpuUUID": _meant(stored)}
                    found.append(DesiredState("SRIOVGPUDevice", gpu, address, spec, card, note))
                case VGPUDevice() if stored.spec.enabled or stored.spec.vgpu_type_name:
                    profile, placement = last(stored)
                    ran: dict[str, object] = {}
                    if profile:
                        ran = {"lastTypeName": profile, "lastPlacement": placement}
                    found.append(DesiredState("VGPUDevice", gpu, address, spec, ran, note))
                case MigConfiguration() if mig.is_desired_state(stored):
                    found.append(DesiredState("MigConfiguration", gpu, address, spec, {}, note))
        return found

    # ----------------------------------------------------------------------------------- look-ups

    def _without_identity(self) -> Collection[PciAddress]:
        """GPUs whose identity is not known."""
        known = self._inventory.identities
        functions = self._inventory.functions
        return [one.address for one in functions if one.sriov_gpu and one.address not in known]

    def is_desired(self, gpu: SRIOVGPUDevice) -> bool:
        """Whether anything is desired of a GPU or on it."""
        configuration = self._migs.store.get(gpu.metadata.name)
        return (
            gpu.spec.enabled
            or gpu.spec.mode != ""
            or (configuration is not None and mig.is_desired_state(configuration))
            or any(
                vgpu.spec.enabled and vgpu.spec.parent_gpu_device_address == gpu.spec.address
                for vgpu in self._vgpus.store
            )
        )

    def _own_address(self, stored: Stored) -> PciAddress | None:
        """The function that an object is named for; None where name and spec disagree."""
        text = (
            stored.spec.gpu_address if isinstance(stored, MigConfiguration) else stored.spec.address
        )
        address = _parsed(text)
        named = names.pci_object_name(self._node, address) if address else ""
        ours = stored.spec.node_name in ("", self._node)
        return address if ours and named == stored.metadata.name else None


def gpu_of(stored: object) -> PciAddress | None:
    """The GPU that an object is about; None for what is about none, or names none."""
    match stored:
        case SRIOVGPUDevice():
            return _parsed(stored.spec.address)
        case VGPUDevice():
            return _parsed(stored.spec.parent_gpu_device_address)
        case MigConfiguration():
            return _parsed(stored.spec.gpu_address)
    return None


def _meant(stored: SRIOVGPUDevice) -> str:
    """The card that the specs were made for; empty where they are for whichever is there."""
    answer = find_condition(stored.status.conditions, "Ready")
    reported = answer is not None and renamed(answer.reason) == reason_of(CardReplaced)
    if reported and stored.status.observed_generation != stored.metadata.generation:
        return ""  # The desired state has changed since the other card was reported.
    return stored.status.gpu_uuid


def _spec(stored: Stored) -> dict[str, object]:
    return {
        field.encode_name: msgspec.to_builtins(getattr(stored.spec, field.name))
        for field in msgspec.structs.fields(stored.spec)
        if field.encode_name not in _PLACE
    }


def _parsed(text: str) -> PciAddress | None:
    try:
        return PciAddress.parse(text)
    except ValueError:
        return None
