"""The controllers that a manager runs where Laneway makes the machines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from laneway.controllers.cluster.leading import Leading
from laneway.kube.client import Client
from laneway.kube.events import EventRecorder
from laneway.vsphere.fleet.caches import VsphereCaches
from laneway.vsphere.fleet.fleet import Fleet
from laneway.vsphere.fleet.reservations import Reservations
from laneway.vsphere.machines.clusters import VsphereClusters
from laneway.vsphere.machines.retry_state import Pace
from laneway.vsphere.machines.vms import Vms
from laneway.vsphere.machines.vsphere_machines import VsphereMachines
from laneway.vsphere.machines.zones import VsphereZones


def _now() -> datetime:
    return datetime.now(UTC)


def parts(
    client: Client,
    caches: VsphereCaches,
    fleet: Fleet,
    reservations: Reservations,
    recorder: EventRecorder,
    *,
    pace: Pace | None = None,
    clock: Callable[[], datetime] = _now,
) -> Sequence[Leading[Any]]:
    """All of them; the fleet and the reservations are parts of their own."""
    return (
        VsphereClusters(client, caches, fleet, clock=clock),
        VsphereZones(client, caches, fleet, clock=clock),
        VsphereMachines(client, caches, recorder, clock=clock),
        Vms(client, caches, fleet, reservations, recorder, pace=pace, clock=clock),
    )
