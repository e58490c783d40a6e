"""What vCenters have and have reserved, as admission keeps it: read once, when it changes.

A vCenter has hundreds of hosts with devices, and every one of them matters for every machine.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import Any, cast

import msgspec

from laneway.api import ObjectMeta, VSphereHost, VSphereReservation, decode
from laneway.controllers.ledger.vsphere import host_of, reservation_of
from laneway.core.vsphere.inventory.hosts import Host
from laneway.core.vsphere.placement.reservation import Reservation
from laneway.kube.resource import Resource, served

VCENTER = "vCenter"
"""Index of hosts and reservations by the name of their vCenter."""


class KnownHost(msgspec.Struct, frozen=True):
    """A host of a vCenter."""

    metadata: ObjectMeta
    vcenter: str
    host: Host


class KnownReservation(msgspec.Struct, frozen=True):
    """What a machine has reserved."""

    metadata: ObjectMeta
    vcenter: str
    reservation: Reservation


def _host(_: type[KnownHost], raw: bytes | msgspec.Raw) -> KnownHost:
    whole = decode(VSphereHost, raw)
    return KnownHost(whole.metadata, whole.spec.vcenter, host_of(whole))


def _reservation(_: type[KnownReservation], raw: bytes | msgspec.Raw) -> KnownReservation:
    whole = decode(VSphereReservation, raw)
    return KnownReservation(whole.metadata, whole.spec.vcenter, reservation_of(whole))


HOSTS = cast(
    "Resource[KnownHost]",
    replace(cast("Any", served(VSphereHost)), type=KnownHost, decoder=_host),
)
RESERVATIONS = cast(
    "Resource[KnownReservation]",
    replace(cast("Any", served(VSphereReservation)), type=KnownReservation, decoder=_reservation),
)


def of_vcenter(known: KnownHost | KnownReservation) -> Iterable[Hashable]:
    """Indexer: `VCENTER`."""
    return (known.vcenter,)
