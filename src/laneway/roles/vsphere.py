"""The manager's parts for vSphere, alongside CAPV or in its place.

This module is loaded only by a manager that has them: pyVmomi is large and slow to load.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prometheus_client import CollectorRegistry

from laneway.controllers.cluster.leading import Leading
from laneway.kube.client import Client
from laneway.kube.events import EventRecorder
from laneway.kube.informer import Informer
from laneway.kube.resource import KubeObject
from laneway.vsphere import machines
from laneway.vsphere.alongside.capv_vms import CapvVms
from laneway.vsphere.fleet.caches import VsphereCaches
from laneway.vsphere.fleet.connection import Connect, Timing
from laneway.vsphere.fleet.fleet import Fleet
from laneway.vsphere.fleet.metrics import FleetMetrics
from laneway.vsphere.fleet.publishing import Publishing
from laneway.vsphere.fleet.reservations import Reservations
from laneway.vsphere.node_checks.reconciler import NodeChecks
from laneway.vsphere.templates import Templates
from laneway.vsphere.vcenter import connect

_OWN = ("vcenters", "hosts", "reservations")
"""Caches of Laneway's kinds; those of Cluster API's a cluster need not have."""


class Vsphere:
    """Caches, and what is done with them by the manager that leads."""

    def __init__(
        self,
        client: Client,
        registry: CollectorRegistry,
        recorder: EventRecorder,
        *,
        standalone: bool = False,
        check_nodes: bool = False,
        check_image: str = "",
        timing: Timing | None = None,
        connect: Connect = connect,
    ) -> None:
        """`standalone`: in CAPV's place, else alongside it; `check_nodes`: look at nodes, too.

        `check_image`: what adds vectors there; empty: NVIDIA's own. `connect` logs in at a vCenter.
        """
        self.caches = VsphereCaches.of(client)
        metrics = FleetMetrics(registry)
        self.fleet = Fleet(client, self.caches, connect, timing=timing)
        self.reservations = Reservations(client, self.caches, self.fleet, metrics)
        self.parts: list[Leading[Any]] = [
            self.fleet,
            Publishing(client, self.caches, self.fleet, metrics),
            self.reservations,
            Templates(client, self.caches, self.fleet),
        ]
        if standalone:
            self.parts += machines.parts(
                client, self.caches, self.fleet, self.reservations, recorder
            )
        else:
            self.parts.append(CapvVms(client, self.caches, self.fleet, self.reservations, recorder))
        if check_nodes:
            self.parts.append(NodeChecks(client, self.caches, recorder, image=check_image))

    @property
    def needed(self) -> Mapping[str, Informer[KubeObject]]:
        """The caches that a manager must have to be ready."""
        return {name: self.caches.all[name] for name in _OWN}
