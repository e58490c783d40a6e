"""What a VSphereVM says of itself: CAPV's conditions, and the one of its devices.

`Ready` is the sum of the others, devices included: a machine that lost a GPU is not ready. Faults
are reported with their type as the reason and vCenter's own text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from laneway.api import Condition, set_condition

READY = "Ready"
VCENTER = "VCenterAvailable"
PROVISIONED = "VirtualMachineProvisioned"
DEVICES = "PCIDevicesReady"
DETACHED = "PCIDevicesDetached"
"""CAPV's: False when a machine that is on lost a device, else not there."""
GUEST_OFF = "GuestSoftPowerOffSucceeded"

CLONING = "WaitingForClone"
"""Written before the clone is ordered: without a task, the answer may have been lost."""
NOT_PROVISIONED = "NotProvisioned"
POWERING_ON = "PoweringOn"
WAITING_FOR_ADDRESS = "WaitingForIPAddress"
NOT_FOUND = "NotFoundByBIOSUUID"
DELETING = "Deleting"
DONE = "Provisioned"
IN_PROGRESS = "InProgress"
UNREACHABLE = "VCenterUnreachable"


class Fact(msgspec.Struct, frozen=True):
    """One condition, without its time."""

    type: str
    holds: bool
    reason: str
    message: str = ""


def with_summary(facts: Iterable[Fact]) -> list[Fact]:
    """The facts and what they come to; that of the guest's shutdown does not count."""
    listed = [*facts]
    counted = [one for one in listed if one.type not in {DETACHED, GUEST_OFF}]
    wrong = [one for one in counted if not one.holds]
    if not wrong:
        return [*listed, Fact(READY, True, "Ready")]
    first = wrong[0]
    message = "; ".join(f"{one.type}: {one.message or one.reason}" for one in wrong)
    return [*listed, Fact(READY, False, first.reason, message)]


def conditions(
    before: Sequence[Condition], facts: Iterable[Fact], generation: int, now: str
) -> list[Condition]:
    """The facts as conditions; one that is as it was keeps its time. Others are left out."""
    found: list[Condition] = []
    for fact in facts:
        old = [one for one in before if one.type == fact.type]
        new = Condition(
            type=fact.type,
            status="True" if fact.holds else "False",
            reason=fact.reason,
            message=fact.message[:_LIMIT],
            observed_generation=generation,
        )
        found += set_condition(old, new, now)
    return found


_LIMIT = 32768
"""Of a condition's message."""
