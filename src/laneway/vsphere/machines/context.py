"""What it takes to bring a machine further."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from laneway.kube.capv import VSphereVM
from laneway.kube.client import Client
from laneway.kube.events import EventRecorder
from laneway.kube.resource import Key
from laneway.vsphere.fleet.caches import VsphereCaches
from laneway.vsphere.fleet.fleet import Fleet
from laneway.vsphere.fleet.reservations import Reservations
from laneway.vsphere.machines.latest import Latest
from laneway.vsphere.machines.retry_state import Pace
from laneway.vsphere.port import VCenter
from laneway.vsphere.status import Statuses


class Context(NamedTuple):
    """Given to every attempt."""

    client: Client
    caches: VsphereCaches
    fleet: Fleet
    reservations: Reservations
    recorder: EventRecorder
    pace: Pace
    clock: Callable[[], datetime]
    latest: Latest[VSphereVM]
    statuses: Statuses
    watch: Callable[[Key, VCenter, str], None]
    """Have a machine looked at again when a task ends."""
