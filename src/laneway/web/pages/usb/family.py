"""USB devices as a family of devices that users claim, and which one could be another again."""

from __future__ import annotations

from typing import NamedTuple

from laneway.api import USBDevice, USBDeviceClaim
from laneway.kube.resource import served
from laneway.web.caches import NODE
from laneway.web.claiming.family import Family
from laneway.web.claiming.rows import Row, is_orphaned
from laneway.web.visit import Visit


def row_of(visit: Visit, name: str) -> Row | None:
    """A device by name."""
    caches = visit.caches
    device, claim = caches.usb.store.get(name), caches.usb_claims.store.get(name)
    return None if device is None and claim is None else Row(name, device, claim)


FAMILY = Family("usb", "USBDevice", served(USBDeviceClaim), row_of)


class Identity(NamedTuple):
    """What a device keeps when it is plugged in elsewhere."""

    vendor: str
    product: str
    serial: str


def identity_of(row: Row) -> Identity:
    """Of a device that has gone, its claim remembers it."""
    for one in (row.claim, row.device):
        if isinstance(one, USBDevice | USBDeviceClaim) and one.status.vendor_id:
            return Identity(one.status.vendor_id, one.status.product_id, one.status.serial)
    return Identity("", "", "")


def port_of(row: Row) -> str:
    """Where it is plugged in, or was."""
    for one in (row.device, row.claim):
        if isinstance(one, USBDevice | USBDeviceClaim) and one.status.port:
            return one.status.port
    return ""


def successors(visit: Visit, row: Row) -> list[Row]:
    """Unclaimed devices of the same model on the node; those first that it could be."""
    gone = identity_of(row)
    if not gone.vendor:
        return []
    claims, found = visit.caches.usb_claims.store, []
    for device in visit.caches.usb.store.by(NODE, row.node):
        other = Row(device.metadata.name, device, claims.get(device.metadata.name))
        is_free = other.claim is None and not is_orphaned(device) and other.name != row.name
        if is_free and identity_of(other)[:2] == gone[:2]:
            found.append(other)
    return sorted(found, key=lambda one: (identity_of(one).serial != gone.serial, port_of(one)))
