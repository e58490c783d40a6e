"""Make the definitions of KubeVirt's kinds that `laneway up --simulate` installs.

Reads the unchanged copies in tests/data/crds and writes one compressed file. Left out is what a
simulation does not need and every start would pay for: the older version v1alpha3, which has the
same fields, and the descriptions of the fields, three quarters of the text.

Of migrations there is no copy: their definition is written here, with the parts that KubeVirt's
instances have as well taken from the copy of those.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from shipping import ROOT, copied, ship, without_descriptions

INSTANCES, MIGRATIONS = "virtualmachineinstances", "virtualmachineinstancemigrations"
KINDS = ("kubevirts", MIGRATIONS, INSTANCES, "virtualmachines")
TARGET = ROOT / "src/laneway/simcluster/kubevirt/crds.json.xz"


def definition(kind: str) -> dict[str, Any]:
    """One CustomResourceDefinition, as it is shipped."""
    if kind == MIGRATIONS:
        return migrations()
    crd = copied(f"{kind}.kubevirt.io")
    crd["spec"]["versions"] = [
        {**version, "schema": without_descriptions(version["schema"])}
        for version in crd["spec"]["versions"]
        if version["name"] == "v1"
    ]
    return crd


def migrations() -> dict[str, Any]:
    """The definition of VirtualMachineInstanceMigration, as far as one cluster is concerned."""
    instances = definition(INSTANCES)
    schema = instances["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    status = schema["properties"]["status"]["properties"]
    shared = ("conditions", "migrationState", "phase", "phaseTransitionTimestamps")
    text = {"type": "string"}
    spec = {
        "addedNodeSelector": {"type": "object", "additionalProperties": text},
        "priority": text,
        "vmiName": text,
    }
    properties = {
        "apiVersion": text,
        "kind": text,
        "metadata": {"type": "object"},
        "spec": {"type": "object", "properties": spec},
        "status": {"type": "object", "properties": {name: status[name] for name in shared}},
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
            {"name": "VMI", "type": "string", "jsonPath": ".spec.vmiName"},
        ],
        "schema": {
            "openAPIV3Schema": {"type": "object", "required": ["spec"], "properties": properties}
        },
    }
    names = {
        "categories": ["all"],
        "kind": "VirtualMachineInstanceMigration",
        "plural": MIGRATIONS,
        "shortNames": ["vmim", "vmims"],
        "singular": "virtualmachineinstancemigration",
    }
    return {
        "apiVersion": instances["apiVersion"],
        "kind": instances["kind"],
        "metadata": {"labels": {"kubevirt.io": ""}, "name": f"{MIGRATIONS}.kubevirt.io"},
        "spec": {
            "group": "kubevirt.io",
            "names": names,
            "scope": "Namespaced",
            "versions": [version],
        },
    }


if __name__ == "__main__":
    ship([definition(kind) for kind in KINDS], TARGET)
