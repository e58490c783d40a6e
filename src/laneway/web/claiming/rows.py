"""A device that can be claimed, with its claim, and how it is.

A claim can outlive its device: of a USB device that is unplugged, or a card that is taken out. Such
a claim is shown where its device was, because a user has to remove it.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from laneway.admission.indexes import INDEXERS
from laneway.admission.rules.ownership import vgpu_of
from laneway.admission.users import VmState, users_of
from laneway.admission.world import DEVICE_NAME
from laneway.api import (
    USB_ORPHANED,
    Allocation,
    PCIDevice,
    PCIDeviceClaim,
    USBDevice,
    USBDeviceClaim,
    find_condition,
)
from laneway.changes.claims import answer
from laneway.core.passthrough.usability import ReasonKind
from laneway.views.order import natural
from laneway.web import holders
from laneway.web.caches import Change
from laneway.web.holders import Holder
from laneway.web.judged import world_of
from laneway.web.tables.table import FEW, Option
from laneway.web.visit import Visit

_SIGNS: Mapping[str, str] = {
    "failed": "danger",
    "gone": "warning",
    "progress": "working",
    "releasing": "working",
    "held": "success",
    "claimed": "success",
    "free": "off",
    "needed": "info",
    "blocked": "off",
    "unknown": "working",
}
"""The icon of each state."""
STATES = tuple(_SIGNS)
"""How a device can be, what needs attention first."""

AnyDevice = PCIDevice | USBDevice
AnyClaim = PCIDeviceClaim | USBDeviceClaim


class Row(NamedTuple):
    """A device and its claim; one of them can be missing."""

    name: str
    device: AnyDevice | None
    claim: AnyClaim | None
    state: str
    """One of `STATES`."""

    @property
    def sign(self) -> str:
        """The icon of the state."""
        return _SIGNS[self.state]

    @property
    def node(self) -> str:
        if self.device is not None:
            return self.device.status.node_name
        if isinstance(self.claim, PCIDeviceClaim):
            return self.claim.spec.node_name
        return self.claim.status.node_name if self.claim is not None else ""

    @property
    def description(self) -> str:
        return self.device.status.description if self.device is not None else ""

    @property
    def resource(self) -> str:
        """What VMs request to get the device."""
        claimed = self.claim.status.resource_name if self.claim is not None else ""
        return claimed or (self.device.status.resource_name if self.device is not None else "")

    @property
    def allocation(self) -> Allocation | None:
        """The VM or pod that the kubelet has allocated the device to."""
        return self.claim.status.allocation if self.claim is not None else None

    @property
    def claimed_by(self) -> str:
        """The user of the claim; empty where there is no claim, or it names no user."""
        return self.claim.spec.user_name if self.claim is not None else ""

    @property
    def vgpu(self) -> str:
        """The VGPUDevice that Laneway claimed the device for."""
        return vgpu_of(self.claim) if self.claim is not None else ""

    @property
    def is_exact(self) -> bool:
        """Whether VMs get this device alone."""
        claim = self.claim
        return isinstance(claim, USBDeviceClaim) or (
            isinstance(claim, PCIDeviceClaim) and claim.spec.disable_resource_pooling
        )


def row(name: str, device: AnyDevice | None, claim: AnyClaim | None) -> Row | None:
    """A device by what there is of it; None where there is nothing."""
    if device is None and claim is None:
        return None
    return Row(name, device, claim, _state(device, claim))


def _state(device: AnyDevice | None, claim: AnyClaim | None) -> str:
    if claim is not None and claim.metadata.deletion_timestamp:
        return "releasing"
    if device is None or is_orphaned(device):
        return "gone"
    if claim is None:
        return _unclaimed(device)
    if claim.status.allocation is not None:
        return "held"
    found = answer(claim, claim.metadata.generation)
    return {"done": "claimed", "refused": "failed"}.get(found.kind, "progress")


def is_orphaned(device: AnyDevice) -> bool:
    """Whether a USB device is claimed and no longer plugged in."""
    return isinstance(device, USBDevice) and device.status.status == USB_ORPHANED


def why(row: Row) -> str:
    """What is to be said about the state; empty where the state says it all."""
    claim, device = row.claim, row.device
    if claim is not None:
        ready = find_condition(claim.status.conditions, "Ready")
        if ready is not None and ready.status != "True":
            return ready.message or ready.reason
        return device.status.message if isinstance(device, USBDevice) else ""
    if isinstance(device, PCIDevice) and device.status.critical:
        return "; ".join(device.status.critical)
    said = find_condition(device.status.conditions, "Claimable") if device is not None else None
    return (said.message or said.reason) if said is not None and said.status == "False" else ""


def brief(row: Row) -> str:
    """The same within a row of a list: in full where a user has to act, else by its reason."""
    is_, device = row.state, row.device
    if is_ == "needed" and isinstance(device, PCIDevice) and device.status.critical:
        first, *others = device.status.critical
        return f"{first} (+{len(others)})" if others else first
    if is_ in ("failed", "gone", "needed"):
        return why(row)
    of = row.claim or device
    name = {"progress": "Ready", "blocked": "Claimable"}.get(is_, "")
    said = find_condition(of.status.conditions, name) if of is not None and name else None
    return said.reason if said is not None else ""


def _unclaimed(device: AnyDevice) -> str:
    if isinstance(device, PCIDevice) and device.status.critical:
        return "needed"
    said = find_condition(device.status.conditions, "Claimable")
    if said is None:
        claimable = device.status.claimable if isinstance(device, PCIDevice) else True
        return "unknown" if claimable is None else "free" if claimable else "blocked"
    if said.status == "True":
        return "free"
    return "needed" if said.reason == ReasonKind.CRITICAL else "blocked"


def users(visit: Visit, row: Row) -> list[Holder]:
    """The holders of a device, and the stopped VMs that it is reserved for."""
    return [
        holders.of_consumer(visit, use.consumer, is_stopped=use.state is not VmState.RUNS)
        for use in users_of(world_of(visit), row.name)
    ]


async def load_users(visit: Visit, rows: Iterable[Row]) -> None:
    """Ask which holders of these devices the user may see."""
    world = world_of(visit)
    found = (use.consumer for row in rows for use in users_of(world, row.name))
    await holders.load_consumers(visit, found)


def speaks_of(change: Change, names: Collection[str]) -> bool:
    """Whether a VM or an instance of one names, or named, one of these devices."""
    index = INDEXERS[change.kind][DEVICE_NAME]
    seen = (one for one in (change.before, change.after) if one is not None)
    return any(name in names for one in seen for name in index(one))


def options(names: Iterable[str]) -> list[Option]:
    """Names to choose from. Of many nothing is shown, so these need no order."""
    found = list(names)
    return [
        Option(one, one) for one in (sorted(found, key=natural) if len(found) <= FEW else found)
    ]


@functools.lru_cache(maxsize=4096)
def by_name(name: str) -> list[tuple[int, str]]:
    """The place of a name of which many rows have the same one."""
    return natural(name)
