"""What the manager knows of vSphere's objects: one cache of each kind, for all of its parts.

Kept only by managers that manage vSphere. No reconciler may wait for the kinds of Cluster API and
its provider, which a cluster need not have: those that need them name them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from laneway.api.vsphere import VCenter, VSphereHost, VSphereReservation
from laneway.kube import capv, clusterapi
from laneway.kube.client import Client
from laneway.kube.informer import Informer
from laneway.kube.resource import KubeObject, served

OF_VCENTER = "vcenter"
"""The index of hosts and reservations by the name of their vCenter."""


@dataclass(frozen=True)
class VsphereCaches:
    """An informer of each kind."""

    vcenters: Informer[VCenter]
    hosts: Informer[VSphereHost]
    reservations: Informer[VSphereReservation]
    vms: Informer[capv.VSphereVM]
    vsphere_machines: Informer[capv.VSphereMachine]
    vsphere_clusters: Informer[capv.VSphereCluster]
    templates: Informer[capv.VSphereMachineTemplate]
    zones: Informer[capv.VSphereDeploymentZone]
    domains: Informer[capv.VSphereFailureDomain]
    machines: Informer[clusterapi.Machine]
    clusters: Informer[clusterapi.Cluster]

    @classmethod
    def of(cls, client: Client) -> VsphereCaches:
        """Caches that are filled once their informers run."""
        return cls(
            vcenters=Informer(client, served(VCenter)),
            hosts=Informer(
                client,
                served(VSphereHost),
                indexers={OF_VCENTER: lambda host: [host.spec.vcenter]},
            ),
            reservations=Informer(client, served(VSphereReservation)),
            vms=Informer(client, capv.VSPHERE_VMS),
            vsphere_machines=Informer(client, capv.VSPHERE_MACHINES),
            vsphere_clusters=Informer(client, capv.VSPHERE_CLUSTERS),
            templates=Informer(client, capv.VSPHERE_TEMPLATES),
            zones=Informer(client, capv.DEPLOYMENT_ZONES),
            domains=Informer(client, capv.FAILURE_DOMAINS),
            machines=Informer(client, clusterapi.MACHINES),
            clusters=Informer(client, clusterapi.CLUSTERS),
        )

    @property
    def all(self) -> Mapping[str, Informer[KubeObject]]:
        """Every informer by a name for people."""
        return {field.name: getattr(self, field.name) for field in fields(self)}
