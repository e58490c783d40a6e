"""Reservations are written whatever else is written about them in the same moment."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from prometheus_client import CollectorRegistry

from laneway.api.vsphere import VSphereReservation, VSphereReservationSpec
from laneway.kube.client import Client
from laneway.kube.informer import Informer
from laneway.kube.resource import Resource, key_of
from laneway.vsphere.fleet.metrics import FleetMetrics
from laneway.vsphere.fleet.reservation_cache import RESERVATIONS, ReservationCache
from laneway.vsphere.fleet.reservation_writer import ReservationWriter

ITEM = {"vGPUProfile": "grid_t4-16q"}


class Contested:
    """A client with which a status is written before each other patch of the same object."""

    def __init__(self, client: Client) -> None:
        self.create, self.get, self._patch = client.create, client.get, client.patch

    async def patch(
        self, resource: Resource[Any], name: str, body: Any, namespace: str, *, subresource: str
    ) -> Any:
        said = {"status": {"vm": f"vm-for-{body['spec']['host']}"}}
        await self._patch(resource, name, said, namespace, subresource="status")
        return await self._patch(resource, name, body, namespace, subresource=subresource)


async def test_a_status_that_is_written_meanwhile_keeps_no_device_where_it_was(
    site: Any, vcenter: Any
) -> None:
    vm = await site.vm("one", vcenter, ITEM)
    known = ReservationCache(Informer(site.client, RESERVATIONS))  # shows nothing by itself
    metrics = FleetMetrics(CollectorRegistry())
    client: Any = Contested(site.client)
    writer = ReservationWriter(client, known, metrics, lambda: datetime.now(UTC))
    await writer.write(vm, VSphereReservationSpec(host="host-1"))
    # The same status once more changes nothing, so only the first attempt is of another version.
    await writer.write(vm, VSphereReservationSpec(host="host-2"))
    stored = await site.get(VSphereReservation, "one", "default")
    assert (stored.spec.host, stored.status.vm) == ("host-2", "vm-for-host-2")
    found = known.get(key_of(vm))
    assert found is not None
    assert found.spec.host == "host-2"
