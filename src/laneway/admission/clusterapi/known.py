"""How the Machines of a set are found."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from laneway.kube.clusterapi import Machine

SET = "set"
"""Index of Machines by namespace, label and name of the MachineDeployment, MachineSet or control
plane that they are of."""
LABEL_DEPLOYMENT = "cluster.x-k8s.io/deployment-name"
LABEL_SET = "cluster.x-k8s.io/set-name"
LABEL_CONTROL_PLANE = "cluster.x-k8s.io/control-plane-name"


def of_set(machine: Machine) -> Iterable[Hashable]:
    """Indexer: `SET`."""
    meta = machine.metadata
    for label in (LABEL_DEPLOYMENT, LABEL_SET, LABEL_CONTROL_PLANE):
        if name := meta.labels.get(label):
            yield meta.namespace, label, name
