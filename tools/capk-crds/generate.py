"""Make the definitions of Cluster API's provider for KubeVirt that a simulated CAPK installs.

Reads the unchanged copies in tests/data/crds and writes one compressed file. Left out are the
descriptions of the fields. Added are the labels by which Cluster API finds a provider's kinds, as
clusterctl and the project's kustomization add them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from shipping import ROOT, copied, ship, without_descriptions

GROUP = "infrastructure.cluster.x-k8s.io"
KINDS = tuple(
    f"{GROUP}_{plural}"
    for plural in ("kubevirtclusters", "kubevirtmachines", "kubevirtmachinetemplates")
)
TARGET = ROOT / "src/laneway/simcluster/clusterapi/kubevirt/crds.json.xz"


def definition(kind: str) -> dict[str, Any]:
    """One CustomResourceDefinition, as it is shipped."""
    crd = copied(kind)
    crd["spec"]["versions"] = [
        {**version, "schema": without_descriptions(version["schema"])}
        for version in crd["spec"]["versions"]
    ]
    crd["metadata"]["labels"] = {
        "cluster.x-k8s.io/provider": "infrastructure-kubevirt",
        "cluster.x-k8s.io/v1beta1": "v1alpha1",
    }
    return crd


if __name__ == "__main__":
    ship([definition(kind) for kind in KINDS], TARGET)
