"""Make the definitions of Cluster API's kinds and of its provider for vSphere that Laneway ships.

Reads the unchanged copies in tests/data/crds and writes one compressed file. Left out are the older
version v1beta1 and the descriptions of the fields. Added is what Laneway understands beyond CAPV:
further ways to request a device, the proposal's spellings, what became of each device, the failure
domain of a machine, and what the machines of a template will have. Only fields are added, so every
object of CAPV's is taken.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from laneway.api.schema import structural_schema
from laneway.api.vsphere import VSphereReservationStatus

sys.path.insert(0, str(Path(__file__).parents[1]))
from shipping import ROOT, copied, ship, without_descriptions

CORE = "cluster.x-k8s.io"
PROVIDER = "infrastructure.cluster.x-k8s.io"
KINDS = (
    f"{CORE}_clusters",
    f"{CORE}_machinedeployments",
    f"{CORE}_machines",
    f"{CORE}_machinesets",
    f"{PROVIDER}_vsphereclusters",
    f"{PROVIDER}_vspheredeploymentzones",
    f"{PROVIDER}_vspherefailuredomains",
    f"{PROVIDER}_vspheremachines",
    f"{PROVIDER}_vspheremachinetemplates",
    f"{PROVIDER}_vspherevms",
)
VERSION = "v1beta2"
TARGET = ROOT / "src/laneway/simcluster/clusterapi/crds.json.xz"

Schema = dict[str, Any]


def definition(kind: str) -> dict[str, Any]:
    """One CustomResourceDefinition, as it is shipped."""
    crd = copied(kind)
    crd["spec"]["versions"] = [
        {**version, "schema": without_descriptions(version["schema"])}
        for version in crd["spec"]["versions"]
        if version["name"] == VERSION
    ]
    # By this label Cluster API finds the version of a kind that keeps its contract.
    labels = {f"{CORE}/{VERSION}": VERSION}
    if kind.startswith(PROVIDER):
        labels[f"{CORE}/provider"] = "infrastructure-vsphere"
    crd["metadata"]["labels"] = labels
    [version] = crd["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]["properties"]
    match kind.removeprefix(f"{PROVIDER}_"):
        case "vspheremachines" | "vspherevms":
            _ask_for_more(schema["spec"])
            schema["status"]["properties"]["pciDevices"] = _devices()
            if kind.endswith("machines"):
                # Cluster API's contract has it, and shows it of the Machine.
                schema["status"]["properties"]["failureDomain"] = {
                    "type": "string",
                    "maxLength": 256,
                    "description": "The failure domain in which the machine is.",
                }
        case "vspheremachinetemplates":
            template = schema["spec"]["properties"]["template"]["properties"]
            _ask_for_more(template["spec"])
            schema["status"] = _capacity()
            version["subresources"] = {"status": {}}
        case _:
            pass
    return crd


def _ask_for_more(spec: Schema) -> None:
    """Every way to request devices; all lists take all of them, so nothing is dropped unseen."""
    fields = spec["properties"]
    listed = fields["pciDevices"]
    listed["items"]["properties"] |= _ITEM
    for name in ("pcidevices", "vgpudevices"):
        fields[name] = {**listed, "description": "An older spelling of pciDevices."}
    fields["peerToPeer"] = {
        "type": "boolean",
        "description": "The devices shall reach each other without the processor (GPUDirect).",
    }


def _devices() -> Schema:
    """What became of each item of the list, as a VSphereReservation has it."""
    devices: Schema = structural_schema(VSphereReservationStatus)["properties"]["devices"]
    return devices


def _capacity() -> Schema:
    quantity = {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
        r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
        "x-kubernetes-int-or-string": True,
    }
    return {
        "type": "object",
        "properties": {
            "capacity": {
                "type": "object",
                "description": "What a machine of this template will have, GPUs included. "
                "The cluster autoscaler reads it where there is no such machine yet.",
                "additionalProperties": quantity,
            }
        },
    }


def _number(description: str) -> Schema:
    return {"type": "integer", "format": "int32", "description": description}


def _text(description: str) -> Schema:
    return {"type": "string", "minLength": 1, "maxLength": 1024, "description": description}


_ITEM: Schema = {
    "deviceGroupName": _text("Vendor device group of the host, all of it (vSphere 8)."),
    "profileName": _text("An older spelling of vGPUProfile."),
    "allowedDevices": {
        "type": "array",
        "maxItems": 128,
        "x-kubernetes-list-type": "atomic",
        "description": "Any one of these devices.",
        "items": {
            "type": "object",
            "properties": {
                "vendorId": _number("PCI vendor id, as a decimal number."),
                "deviceId": _number("PCI device id, as a decimal number."),
                "subVendorId": _number("Vendor id of the card's maker, as a decimal number."),
                "subDeviceId": _number("Device id of the card's maker, as a decimal number."),
                "revisionId": _number("Revision, as a decimal number."),
            },
        },
    },
}


if __name__ == "__main__":
    ship([definition(kind) for kind in KINDS], TARGET)
