"""A family of devices that users claim, as its pages speak of it: PCI or USB."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from laneway.admission.rules import claims as pci_rules
from laneway.admission.rules import usb_claims as usb_rules
from laneway.admission.verdict import ALLOWED, Verdict
from laneway.admission.world import World
from laneway.api import (
    ObjectMeta,
    PCIDevice,
    PCIDeviceClaim,
    PCIDeviceClaimSpec,
    USBDevice,
    USBDeviceClaim,
    USBDeviceClaimSpec,
)
from laneway.changes.claims import Device, device_of
from laneway.kube.resource import KubeObject, Resource, served
from laneway.kube.store import Store
from laneway.web import judged
from laneway.web.access import Question, question
from laneway.web.caches import NODE, Caches
from laneway.web.claiming.rows import Row
from laneway.web.place import link
from laneway.web.visit import Visit


class Family(NamedTuple):
    """One of the two."""

    path: str
    """The first part of its addresses."""
    claims: Resource[KubeObject]
    row: Callable[[Caches, str], Row | None]
    """A device by name."""
    together: Callable[[Visit, Row], Sequence[Row]] = lambda _visit, _row: ()
    """The other devices that leave the node with one."""

    @property
    def create(self) -> Question:
        return question("create", self.claims)

    @property
    def delete(self) -> Question:
        return question("delete", self.claims)

    @property
    def administer(self) -> Question:
        """The right to release what others have claimed."""
        return judged.administers(self.claims.plural)

    @property
    def rights(self) -> tuple[Question, ...]:
        """What the buttons depend on."""
        return (self.create, self.delete, self.administer)

    def url(self, row: Row) -> str:
        return link(self.path, row.name)

    def target(self, row: Row) -> Device:
        """What is written of a device; of one that has gone, only the claim is known."""
        if row.device is not None:
            return device_of(row.device)
        return Device(row.name, row.node, row.name, self.claims)


def claiming(visit: Visit, row: Row, along: Sequence[Row] = ()) -> Verdict:
    """What admission says if the user claims a device, and others along with it.

    Raises ValueError: there is no device.
    """
    device = row.device
    if isinstance(device, PCIDevice):
        world = _after_claiming(visit, [row, *along]) if along else None
        claim = _claim_of(visit, device)
        return judged.creation(visit, pci_rules.RULES, row.name, claim, world)
    if isinstance(device, USBDevice):
        spec = USBDeviceClaimSpec(user_name=visit.user.name)
        usb = USBDeviceClaim(metadata=ObjectMeta(name=row.name), spec=spec)
        return judged.creation(visit, usb_rules.RULES, row.name, usb)
    raise ValueError(f"no device {row.name}")


def _claim_of(visit: Visit, device: PCIDevice) -> PCIDeviceClaim:
    at, user = device.status, visit.user.name
    spec = PCIDeviceClaimSpec(address=at.address, node_name=at.node_name, user_name=user)
    return PCIDeviceClaim(metadata=ObjectMeta(name=device.metadata.name), spec=spec)


def _after_claiming(visit: Visit, rows: Sequence[Row]) -> World:
    """As it is once these are claimed; of the claims, those of their nodes."""
    claims: Store[PCIDeviceClaim] = Store()
    for node in dict.fromkeys(row.node for row in rows):
        for claim in visit.caches.claims.store.by(NODE, node):
            claims.put(claim)
    for row in rows:
        if isinstance(row.device, PCIDevice) and row.claim is None:
            claims.put(_claim_of(visit, row.device))
    return replace(judged.world_of(visit), claims=claims)


def releasing(visit: Visit, row: Row) -> Verdict:
    """What admission says if the user deletes the claim; nothing while no cache has one."""
    if isinstance(row.claim, PCIDeviceClaim):
        return judged.deletion(visit, pci_rules.RULES, row.name, row.claim)
    if isinstance(row.claim, USBDeviceClaim):
        return judged.deletion(visit, usb_rules.RULES, row.name, row.claim)
    return ALLOWED


def refused(visit: Visit, row: Row, *, release: bool) -> list[str]:
    """Why the user cannot claim or release a device now."""
    asked = question("delete" if release else "create", _claims_of(row))
    verdict = releasing(visit, row) if release else claiming(visit, row)
    return judged.against(visit, asked, verdict)


def _claims_of(row: Row) -> Resource[KubeObject]:
    kinds = (USBDevice, USBDeviceClaim)
    is_usb = isinstance(row.device or row.claim, kinds)
    return served(USBDeviceClaim) if is_usb else served(PCIDeviceClaim)
