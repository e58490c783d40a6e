"""USB devices as a family of devices that users claim, and which one could be another again."""

from __future__ import annotations

from typing import NamedTuple

from laneway.api import USBDevice, USBDeviceClaim
from laneway.kube.resource import served
from laneway.web.caches import NODE, Caches
from laneway.web.claiming.family import Family
from laneway.web.claiming.rows import Row, is_orphaned, row
from laneway.web.visit import Visit


def row_of(caches: Caches, name: str) -> Row | None:
    """A device by name."""
    return row(name, caches.usb.store.get(name), caches.usb_claims.store.get(name))


FAMILY = Family("usb", served(USBDeviceClaim), row_of)


class Identity(NamedTuple):
    """What a device keeps when it is plugged in elsewhere."""

    vendor: str
    product: str
    serial: str


def identity_of(one: Row) -> Identity:
    """Of a device that has gone, its claim remembers it."""
    for found in (one.claim, one.device):
        if isinstance(found, USBDevice | USBDeviceClaim) and found.status.vendor_id:
            return Identity(found.status.vendor_id, found.status.product_id, found.status.serial)
    return Identity("", "", "")


def port_of(one: Row) -> str:
    """Where it is plugged in, or was."""
    for found in (one.device, one.claim):
        if isinstance(found, USBDevice | USBDeviceClaim) and found.status.port:
            return found.status.port
    return ""


def successors(visit: Visit, gone: Row) -> list[Row]:
    """Unclaimed devices of the same model on the node; those first that it could be."""
    known = identity_of(gone)
    if not known.vendor:
        return []
    found = []
    for device in visit.caches.usb.store.by(NODE, gone.node):
        one = row_of(visit.caches, device.metadata.name)
        if one is None or one.claim is not None or is_orphaned(device) or one.name == gone.name:
            continue
        if identity_of(one)[:2] == known[:2]:
            found.append(one)
    return sorted(found, key=lambda one: (identity_of(one).serial != known.serial, port_of(one)))
