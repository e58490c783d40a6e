"""What a VSphereMachine waits for before its VM can be made."""

from __future__ import annotations

from laneway.kube.capv import VSphereMachine
from laneway.kube.clusterapi import Cluster, Machine
from laneway.vsphere.machines.conditions import NOT_FOUND
from laneway.vsphere.machines.ownership import Owners

WAITING_FOR_OWNER = "WaitingForOwner"
WAITING_FOR_CLUSTER = "WaitingForClusterInfrastructureReady"
WAITING_FOR_DATA = "WaitingForBootstrapData"
WAITING_FOR_ZONE = "WaitingForFailureDomain"


def unmet_precondition(
    machine: VSphereMachine, above: Machine, cluster: Cluster, owners: Owners
) -> tuple[str, str] | None:
    """The reason and the words; None: nothing is in the way."""
    if machine.status.initialization.provisioned:
        return NOT_FOUND, "The VSphereVM was deleted; delete the Machine"
    if not cluster.status.initialization.infrastructure_provisioned:
        return WAITING_FOR_CLUSTER, "The infrastructure of the Cluster is not provisioned yet"
    if not above.spec.bootstrap.data_secret_name:
        return WAITING_FOR_DATA, "The bootstrap provider has not created the bootstrap data yet"
    domain = above.spec.failure_domain
    if domain and (owners.zone is None or owners.domain is None):
        missing = "VSphereDeploymentZone" if owners.zone is None else "VSphereFailureDomain"
        return WAITING_FOR_ZONE, f"There is no {missing} for the failure domain {domain!r}"
    return None
