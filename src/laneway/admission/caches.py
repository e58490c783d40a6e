"""The caches that the webhook answers from, and the world that they make up.

The webhook is ready once it knows every kind of Laneway's and every Node and pod: before that, what
it does not know would look like what does not exist, and it would refuse what is right. The kinds
of KubeVirt and for vSphere may be missing from a cluster, so for those the server's word is enough
that it has no such resource.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self

from laneway.admission.capv.known import HOSTS, RESERVATIONS, KnownHost, KnownReservation
from laneway.admission.indexes import INDEXERS
from laneway.admission.light import PCI_DEVICES, VGPUS
from laneway.admission.node_costs import NodeCosts
from laneway.admission.vms import claimed
from laneway.admission.world import World
from laneway.api import (
    CoreNode,
    MigConfiguration,
    PCIDevice,
    PCIDeviceClaim,
    SRIOVGPUDevice,
    SRIOVNetworkDevice,
    USBDevice,
    USBDeviceClaim,
    VCenter,
    VGPUDevice,
    VGPULayout,
)
from laneway.controllers.ledger.objects import PODS, Pod
from laneway.controllers.ledger.source import LedgerSource
from laneway.kube.capk import (
    KUBEVIRT_CLUSTERS,
    KUBEVIRT_TEMPLATES,
    KubevirtCluster,
    KubevirtMachineTemplate,
)
from laneway.kube.capv import (
    DEPLOYMENT_ZONES,
    FAILURE_DOMAINS,
    VSPHERE_CLUSTERS,
    VSPHERE_TEMPLATES,
    VSphereCluster,
    VSphereDeploymentZone,
    VSphereFailureDomain,
    VSphereMachineTemplate,
)
from laneway.kube.client import Client
from laneway.kube.clusterapi import (
    CONTROL_PLANES,
    MACHINE_DEPLOYMENTS,
    MACHINE_SETS,
    MACHINES,
    KubeadmControlPlane,
    Machine,
    MachineDeployment,
    MachineSet,
)
from laneway.kube.devices import GPUS, PCI_CLAIMS
from laneway.kube.errors import ForbiddenError
from laneway.kube.informer import Informer
from laneway.kube.kubevirt import (
    KUBEVIRTS,
    KubeVirt,
    VirtualMachine,
    VirtualMachineInstance,
)
from laneway.kube.nodes import node
from laneway.kube.resource import KubeObject, Resource, T, served
from laneway.kube.vms import INSTANCES, VIRTUAL_MACHINES


@dataclass(frozen=True)
class Informers:
    """One for each kind; named as the stores of a `World` are."""

    nodes: Informer[CoreNode]
    pci_devices: Informer[PCIDevice]
    claims: Informer[PCIDeviceClaim]
    cards: Informer[SRIOVNetworkDevice]
    gpus: Informer[SRIOVGPUDevice]
    vgpus: Informer[VGPUDevice]
    migs: Informer[MigConfiguration]
    layouts: Informer[VGPULayout]
    usb_devices: Informer[USBDevice]
    usb_claims: Informer[USBDeviceClaim]
    vms: Informer[VirtualMachine]
    instances: Informer[VirtualMachineInstance]
    installations: Informer[KubeVirt]
    pods: Informer[Pod]
    vcenters: Informer[VCenter]
    vsphere_hosts: Informer[KnownHost]
    vsphere_reservations: Informer[KnownReservation]
    vsphere_templates: Informer[VSphereMachineTemplate]
    vsphere_clusters: Informer[VSphereCluster]
    vsphere_zones: Informer[VSphereDeploymentZone]
    vsphere_domains: Informer[VSphereFailureDomain]
    kubevirt_templates: Informer[KubevirtMachineTemplate]
    kubevirt_clusters: Informer[KubevirtCluster]
    cluster_machines: Informer[Machine]
    cluster_sets: Informer[MachineSet]
    cluster_deployments: Informer[MachineDeployment]
    cluster_control_planes: Informer[KubeadmControlPlane]

    @classmethod
    def of(cls, client: Client) -> Self:
        """Caches that are filled once their informers run."""

        def informer(name: str, resource: Resource[T]) -> Informer[T]:
            return Informer(client, resource, indexers=INDEXERS.get(name))

        return cls(
            nodes=informer("nodes", replace(served(CoreNode), decoder=node)),
            pci_devices=informer("pci_devices", PCI_DEVICES),
            claims=informer("claims", PCI_CLAIMS),
            cards=informer("cards", served(SRIOVNetworkDevice)),
            gpus=informer("gpus", GPUS),
            vgpus=informer("vgpus", VGPUS),
            migs=informer("migs", served(MigConfiguration)),
            layouts=informer("layouts", served(VGPULayout)),
            usb_devices=informer("usb_devices", served(USBDevice)),
            usb_claims=informer("usb_claims", served(USBDeviceClaim)),
            vms=informer("vms", VIRTUAL_MACHINES),
            instances=informer("instances", INSTANCES),
            installations=informer("installations", KUBEVIRTS),
            pods=informer("pods", PODS),
            vcenters=informer("vcenters", served(VCenter)),
            vsphere_hosts=informer("vsphere_hosts", HOSTS),
            vsphere_reservations=informer("vsphere_reservations", RESERVATIONS),
            vsphere_templates=informer("vsphere_templates", VSPHERE_TEMPLATES),
            vsphere_clusters=informer("vsphere_clusters", VSPHERE_CLUSTERS),
            vsphere_zones=informer("vsphere_zones", DEPLOYMENT_ZONES),
            vsphere_domains=informer("vsphere_domains", FAILURE_DOMAINS),
            kubevirt_templates=informer("kubevirt_templates", KUBEVIRT_TEMPLATES),
            kubevirt_clusters=informer("kubevirt_clusters", KUBEVIRT_CLUSTERS),
            cluster_machines=informer("cluster_machines", MACHINES),
            cluster_sets=informer("cluster_sets", MACHINE_SETS),
            cluster_deployments=informer("cluster_deployments", MACHINE_DEPLOYMENTS),
            cluster_control_planes=informer("cluster_control_planes", CONTROL_PLANES),
        )

    @property
    def all(self) -> Mapping[str, Informer[KubeObject]]:
        """Every informer by a name for people."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True)
class AdmissionCaches:
    """What the webhook knows. Run `run` in a task, and answer once nothing is waited for."""

    informers: Informers
    source: LedgerSource
    world: World

    @classmethod
    def of(
        cls,
        client: Client,
        trusted: Iterable[str] = (),
        *,
        vsphere_refuses: bool = False,
        hints: bool = True,
    ) -> Self:
        """Caches of a cluster; `trusted` are the usernames of Laneway's agent and manager.

        `hints`: whether pods with vGPUs are to prefer nodes.
        """
        known = Informers.of(client)
        source = LedgerSource(known)
        costs = NodeCosts()
        if hints:
            known.vgpus.subscribe(costs.changed)
            known.gpus.subscribe(costs.changed)
        stores: dict[str, Any] = {name: one.store for name, one in known.all.items()}
        world = World(
            **stores,
            ledger=source.current,
            node_costs=costs.of if hints else None,
            trusted=frozenset(trusted),
            vsphere_refuses=vsphere_refuses,
        )
        known.vgpus.follow(lambda _: claimed.keep_up(world))
        for claims in (known.claims, known.usb_claims):
            claims.follow(lambda claim: claimed.keep_up(world, claim.status.resource_name))
        return cls(known, source, world)

    def waiting_for(self) -> list[str]:
        """The kinds of which not everything is known yet, and the ledger that follows from them."""
        missing = [name for name, one in self.informers.all.items() if not _known(name, one)]
        return missing or ([] if self.source.known.is_set() else ["ledger"])

    async def run(self) -> None:
        """Keep the caches until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in self.informers.all.values():
                tasks.create_task(informer.run())
            tasks.create_task(self.source.run())


_PERHAPS = (
    *("vms", "instances", "installations"),
    *("vcenters", "vsphere_hosts", "vsphere_reservations", "vsphere_templates", "vsphere_clusters"),
    *("vsphere_zones", "vsphere_domains", "kubevirt_templates", "kubevirt_clusters"),
    *("cluster_machines", "cluster_sets", "cluster_deployments", "cluster_control_planes"),
)
"""Of kinds that a cluster need not have."""
_GRANTED_LATER = ("kubevirt_templates", "kubevirt_clusters")
"""Of kinds that an older chart does not let the webhook read. Nothing is refused for want of them,
and a webhook that is newer than its chart judges everything else."""


def _known(name: str, informer: Informer[KubeObject]) -> bool:
    if name in _GRANTED_LATER and isinstance(informer.problem, ForbiddenError):
        return True
    return (informer.answered if name in _PERHAPS else informer.synced).is_set()
