"""How it stands with the devices of a machine: what was asked, what is there, where, and its state.

One judgement for the machine's condition, the reservation's status and events. A machine that is on
and lacks a device is not ready, whatever it was before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from laneway.api.vsphere import (
    DEVICE_ATTACHED,
    DEVICE_IN_USE,
    DEVICE_MISSING,
    DEVICE_REFUSED,
    DEVICE_RESERVED,
    DeviceState,
    DeviceStatus,
)
from laneway.controllers.ledger.vsphere import allocated_item, request_text
from laneway.core.phrases import quoted
from laneway.core.refusals.base import Refusal
from laneway.core.vsphere.inventory.vms import (
    Attached,
    DynamicBacking,
    Fault,
    FixedBacking,
    VgpuBacking,
    VmState,
)
from laneway.core.vsphere.placement.reservation import Reservation
from laneway.core.vsphere.provisioning.matching import NO_PARTS, match
from laneway.core.vsphere.spec.requests import DeviceRequest, PassthroughRequest, Requested

MISSING = "PCIDevicesMissing"
UNKNOWN = "PCIDevicesUnknown"


class DevicesStatus(NamedTuple):
    """The devices of one machine."""

    devices: tuple[DeviceStatus, ...]
    ready: bool
    """All are attached, and can be had; of a machine that is on, in use."""
    reason: str
    message: str


def devices_status(
    requested: Requested,
    reservation: Reservation | None,
    state: VmState | None,
    *,
    host_name: str = "",
    parts: Mapping[str, int] = NO_PARTS,
    refusal: Refusal | None = None,
    fault: Fault | None = None,
) -> DevicesStatus:
    """Judge. `host_name` is that of the reserved host; `fault` is why a device is not attached.

    `parts`: of how many devices the groups are that it requests.
    """
    found = match(requested, state.devices if state is not None else (), parts)
    on = state is not None and state.on
    why = fault_words(fault) if fault is not None else refusal.words if refusal is not None else ""
    lost = on and fault is None
    devices = tuple(
        _device_status(
            request,
            attached,
            state=_state(attached, on=on, lost=lost, reserved=reservation is not None and not why),
            host=(state.host_name if state is not None and (attached or on) else host_name),
            message=why,
        )
        for request, attached in zip(requested.devices, found.allocations, strict=True)
    )
    refused = refusal is not None and not on
    ready = not found.missing and not refused
    reason, message = _summary(found.missing, found.surplus, reservation, on=on, host=host_name)
    if not ready and fault is not None:
        reason, message = fault.type, why
    elif refusal is not None and refused:
        reason, message = refusal.reason, why
    return DevicesStatus(devices, ready, reason, message)


def fault_words(fault: Fault) -> str:
    """What vCenter says, with the name that no language changes."""
    return f"{fault.text} ({fault.type})" if fault.text else fault.type


def _device_status(
    request: DeviceRequest,
    attached: Attached | None,
    *,
    state: DeviceState,
    host: str,
    message: str,
) -> DeviceStatus:
    label = request.label if isinstance(request, PassthroughRequest) else ""
    return DeviceStatus(
        asked=request_text(request),
        label=label,
        state=state,
        attached=_backing(attached) if attached is not None else "",
        key=attached.key if attached is not None else 0,
        host=host,
        message=message if attached is None else "",
    )


def _state(attached: Attached | None, *, on: bool, lost: bool, reserved: bool) -> DeviceState:
    if attached is not None:
        return DEVICE_IN_USE if on else DEVICE_ATTACHED
    if lost:
        return DEVICE_MISSING
    return DEVICE_RESERVED if reserved else DEVICE_REFUSED


def _backing(attached: Attached) -> str:
    match attached.backing:
        case VgpuBacking(profile):
            return profile
        case DynamicBacking(allowed, _, assigned):
            return assigned or request_text(PassthroughRequest(allowed))
        case FixedBacking(id):
            return id


def _summary(
    missing: Sequence[DeviceRequest],
    surplus: Sequence[Attached],
    reservation: Reservation | None,
    *,
    on: bool,
    host: str,
) -> tuple[str, str]:
    more = f"; {len(surplus)} attached that the Machine does not request" if surplus else ""
    if not missing:
        if on:
            return DEVICE_IN_USE, f"The VM is on with all of its devices{more}"
        return DEVICE_ATTACHED, f"All devices are attached{more}"
    names = ", ".join(_named(one) for one in missing)
    if on:
        return MISSING, f"The VM is on without {names}"
    if reservation is not None and reservation.host:
        return (
            DEVICE_RESERVED,
            f"Reserved on host {host or reservation.host}, not attached yet: {names}",
        )
    return UNKNOWN, f"Not attached, and not reserved yet: {names}"


def _named(request: DeviceRequest) -> str:
    allocation = allocated_item(request)
    label = f" labelled {quoted(allocation.label)}" if allocation.label else ""
    return f"{allocation.type} {allocation.asked}{label}"
