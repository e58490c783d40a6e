"""USBDeviceClaims: a claim has the name of the USB device that it is about."""

from __future__ import annotations

from collections.abc import Iterable

from laneway.admission.json_patch import PatchOperation
from laneway.admission.request import Access, Request
from laneway.admission.rules import ownership
from laneway.admission.rules.common import Case, Findings, Parts, fixed, pci_name, rules
from laneway.admission.rules.keeping import kept_for
from laneway.admission.users import users_of
from laneway.admission.world import World
from laneway.api import USBDeviceClaim, USBDeviceClaimSpec, find_condition
from laneway.core.refusals import (
    NotClaimable,
    UsbClaimInUse,
    UsbControllerClaimed,
    UsbDeviceNotFound,
)

KIND = "usbdeviceclaim"
RESOURCE = f"{KIND}s"


def mutate(request: Request[USBDeviceClaim]) -> tuple[PatchOperation, ...]:
    """A claim that names no user is the requester's."""
    return ownership.in_the_name_of(request, USBDeviceClaimSpec())


def node_of(claim: USBDeviceClaim, world: World) -> str:
    """Only the status tells, and before there is one the device."""
    device = world.usb_devices.get(claim.metadata.name)
    return claim.status.node_name or (device.status.node_name if device else "")


def _asks(request: Request[USBDeviceClaim], world: World) -> Iterable[Access]:
    return ownership.asked(RESOURCE, request, world)


def _create(case: Case[USBDeviceClaim], new: USBDeviceClaim) -> Findings:
    yield from ownership.made_for_other(case, KIND, new.spec.user_name)
    device = case.world.usb_devices.get(case.name)
    if device is None:
        yield UsbDeviceNotFound(case.name)
        return
    claimable = find_condition(device.status.conditions, "Claimable")
    if claimable is not None and claimable.status == "False":
        yield NotClaimable("usbdevice", case.name, claimable.message or claimable.reason)
    controller = pci_name(device.status.node_name, device.status.pci_address)
    if controller and case.world.claims.get(controller) is not None:
        yield UsbControllerClaimed(case.name, controller)


def _update(case: Case[USBDeviceClaim], old: USBDeviceClaim, new: USBDeviceClaim) -> Findings:
    if ownership.is_changed(old, new):
        yield from ownership.of_other(case, KIND, old.spec.user_name, "changed")
    user = ("username", "spec.userName", old.spec.user_name, new.spec.user_name)
    yield from fixed(KIND, case.name, [user])


def _delete(case: Case[USBDeviceClaim], old: USBDeviceClaim) -> Findings:
    yield from ownership.of_other(case, KIND, old.spec.user_name, "deleted")
    if users := users_of(case.world, case.name):
        yield UsbClaimInUse(case.name, users)
    else:
        yield from kept_for(case.world, case.name, node_of(old, case.world), old.status)


def _collect(case: Case[USBDeviceClaim], _old: USBDeviceClaim) -> Findings:
    """A device that has gone itself cannot be used."""
    users = users_of(case.world, case.name)
    if users and case.world.usb_devices.get(case.name) is not None:
        yield UsbClaimInUse(case.name, users)


RULES = rules(
    Parts(
        node_of=node_of,
        create=_create,
        update=_update,
        delete=_delete,
        collect=_collect,
        asks=_asks,
    )
)
