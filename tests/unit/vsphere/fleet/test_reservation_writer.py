"""Reservations are written whatever else is written about them in the same moment."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from typing import Any

from prometheus_client import CollectorRegistry

from laneway.api.vsphere import VSphereReservation, VSphereReservationSpec
from laneway.core.raw import JsonObject
from laneway.kube.client import Client
from laneway.kube.errors import ConflictError
from laneway.kube.informer import Informer
from laneway.kube.resource import Resource, key_of
from laneway.vsphere.fleet.metrics import FleetMetrics
from laneway.vsphere.fleet.reservation_cache import RESERVATIONS, ReservationCache
from laneway.vsphere.fleet.reservation_writer import ReservationWriter

ITEM = {"vGPUProfile": "grid_t4-16q"}


class Contested:
    """A client with which something else is written before each patch of a spec."""

    def __init__(self, client: Client, subresource: str, change: JsonObject) -> None:
        self.create, self.get, self._patch = client.create, client.get, client.patch
        self._subresource, self._change = subresource, change

    async def patch(
        self, resource: Resource[Any], name: str, body: Any, namespace: str, *, subresource: str
    ) -> Any:
        await self._patch(resource, name, self._change, namespace, subresource=self._subresource)
        return await self._patch(resource, name, body, namespace, subresource=subresource)


async def written_twice(site: Any, vcenter: Any, client: Any) -> VSphereReservation:
    """What is stored after a machine got a reservation on one host, and then on another."""
    vm = await site.vm("one", vcenter, ITEM)
    known = ReservationCache(Informer(site.client, RESERVATIONS))  # shows nothing by itself
    metrics = FleetMetrics(CollectorRegistry())
    writer = ReservationWriter(client, known, metrics, lambda: datetime.now(UTC))
    await writer.write(vm, VSphereReservationSpec(host="host-1"))
    # The same change once more changes nothing, so only the first attempt is of another version.
    with contextlib.suppress(ConflictError):
        await writer.write(vm, VSphereReservationSpec(host="host-2"))
    stored: VSphereReservation = await site.get(VSphereReservation, "one", "default")
    assert known.get(key_of(vm)) == stored
    return stored


async def test_a_status_that_is_written_meanwhile_keeps_no_device_where_it_was(
    site: Any, vcenter: Any
) -> None:
    client = Contested(site.client, "status", {"status": {"vm": "vm-7"}})
    stored = await written_twice(site, vcenter, client)
    assert (stored.spec.host, stored.status.vm) == ("host-2", "vm-7")


async def test_what_another_manager_has_decided_meanwhile_stays(site: Any, vcenter: Any) -> None:
    client = Contested(site.client, "", {"spec": {"host": "host-3"}})
    stored = await written_twice(site, vcenter, client)
    assert stored.spec.host == "host-3"
