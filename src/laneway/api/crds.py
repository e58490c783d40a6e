"""The CustomResourceDefinitions, generated from the Structs.

They accept every object of the contract and add to it: conditions, observation fields, address
patterns, and rules that keep an object pointing at the hardware it was made for. The columns of
the contract come in its order; ours are shown by `-o wide` only, after them, but before a column
that shows a list and is hundreds of characters wide.

The kind Node, which has no status in the contract, has one here: its conditions need it.
"""

from __future__ import annotations

from typing import Any

import yaml

from laneway.api.fields import FIXED, immutable
from laneway.api.registry import KINDS, SETTING, KindInfo
from laneway.api.schema import Schema, structural_schema

Columns = dict[str, str]

CATEGORY = "laneway"
"""For `kubectl get laneway`: the objects of all our kinds."""

_COLUMNS: dict[str, Columns] = {
    "PCIDevice": {
        "Address": ".status.address",
        "Vendor Id": ".status.vendorId",
        "Device Id": ".status.deviceId",
        "Node Name": ".status.nodeName",
        "Description": ".status.description",
        "Kernel Driver In Use": ".status.kernelDriverInUse",
    },
    "PCIDeviceClaim": {
        "Address": ".spec.address",
        "Node Name": ".spec.nodeName",
        "User Name": ".spec.userName",
        "Kernel Driver To Unbind": ".status.kernelDriverToUnbind",
        "Passthrough Enabled": ".status.passthroughEnabled",
    },
    "SRIOVNetworkDevice": {
        "Address": ".spec.address",
        "Node Name": ".spec.nodeName",
        "NumVFs": ".spec.numVFs",
        "VF Addresses": ".status.vfAddresses",
    },
    "Node": {},
    "SRIOVGPUDevice": {
        "Address": ".spec.address",
        "Node Name": ".spec.nodeName",
        "Enabled": ".spec.enabled",
        "VGPUDevices": ".status.vGPUDevices",
    },
    "VGPUDevice": {
        "Address": ".spec.address",
        "Node Name": ".spec.nodeName",
        "Enabled": ".spec.enabled",
        "UUID": ".status.uuid",
        "VGPUType": ".status.configureVGPUTypeName",
        "ParentGPUDevice": ".spec.parentGPUDeviceAddress",
    },
    "USBDevice": {
        "Vendor ID": ".status.vendorID",
        "Product ID": ".status.productID",
        "Node Name": ".status.nodeName",
        "Description": ".status.description",
        "Resource Name": ".status.resourceName",
        "PCI Address": ".status.pciAddress",
        "Enabled": ".status.enabled",
    },
    "USBDeviceClaim": {
        "Node Name": ".status.nodeName",
        "PCI Address": ".status.pciAddress",
        "User Name": ".spec.userName",
    },
    "MigConfiguration": {
        "Node Name": ".spec.nodeName",
        "Address": ".spec.gpuAddress",
        "Enabled": ".spec.enabled",
        "Status": ".status.status",
        "Message": ".status.message",
    },
    "VGPULayout": {
        "Mode": ".spec.mode",
        "GPUs": ".status.summary",
        "Ready": '.status.conditions[?(@.type=="Ready")].status',
    },
    "HostPolicy": {
        "Nodes": ".status.summary",
        "Ready": '.status.conditions[?(@.type=="Ready")].status',
        "Reason": '.status.conditions[?(@.type=="Ready")].reason',
    },
    "HostPreparation": {
        "Stage": ".status.stage",
        "Roll-out": ".spec.rollout.stage",
        "Boot Loader": ".status.bootLoader",
    },
    "Setting": {"Value": ".value"},
    "VCenter": {
        "Server": ".spec.server",
        "Version": ".status.version",
        "Hosts": ".status.hosts",
        "GPUs": ".status.gpus",
        "Ready": '.status.conditions[?(@.type=="Ready")].status',
    },
    "VSphereHost": {
        "VCenter": ".spec.vCenter",
        "Host": ".status.host",
        "Cluster": ".status.cluster",
        "Connected": ".status.connected",
        "Maintenance": ".status.maintenance",
    },
    "VSphereReservation": {
        "VCenter": ".spec.vCenter",
        "Host": ".spec.hostName",
        "VM": ".status.vm",
        "Ready": '.status.conditions[?(@.type=="Ready")].status',
    },
}

_WIDE_COLUMNS: dict[str, Columns] = {
    "PCIDevice": {
        "Resource Name": ".status.resourceName",
        "IOMMU Group": ".status.iommuGroup",
        "NUMA Node": ".status.numaNode",
        "Claimable": ".status.claimable",
    },
    "SRIOVGPUDevice": {"Mode": ".status.mode"},
    "PCIDeviceClaim": {"Held By": ".status.allocation.virtualMachine"},
    "USBDeviceClaim": {"Held By": ".status.allocation.virtualMachine"},
    "VGPUDevice": {
        "Desired": ".spec.vGPUTypeName",
        "Held By": ".status.allocation.virtualMachine",
        "Framework": ".status.framework",
    },
    "VSphereHost": {"Datacenter": ".status.datacenter", "Ref": ".spec.ref"},
}

_SELECTABLE = {"PCIDeviceClaim": (".spec.nodeName", ".status.resourceName")}
"""By which fields the server chooses among objects of a kind, which bear no label of their node.

Kubernetes before 1.31 drops this, and serves the kind without it.
"""

_LISTS = (".status.vGPUDevices", ".status.vfAddresses")
"""Each the last column of the contract."""

_READY_COLUMNS: Columns = {
    "Ready": '.status.conditions[?(@.type=="Ready")].status',
    "Reason": '.status.conditions[?(@.type=="Ready")].reason',
}

_AGE = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}

_STANDARD: dict[str, Schema] = {
    "apiVersion": {"type": "string", "description": "Version of this form of the object."},
    "kind": {"type": "string", "description": "Kind of the object."},
    "metadata": {"type": "object"},
}


def crds() -> list[dict[str, Any]]:
    """One CustomResourceDefinition per kind."""
    return [_crd(info) for info in KINDS]


def setting_crd() -> dict[str, Any]:
    """The definition of Harvester's kind Setting, for clusters that lack it."""
    return _crd(SETTING)


def crds_yaml() -> str:
    """The same as YAML documents, for `kubectl apply`."""
    return yaml.safe_dump_all(crds(), sort_keys=False, explicit_start=True, width=100)


def _crd(info: KindInfo) -> dict[str, Any]:
    schema = _object_schema(info)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{info.plural}.{info.group}"},
        "spec": {
            "group": info.group,
            "names": {
                "kind": info.kind,
                "listKind": f"{info.kind}List",
                "plural": info.plural,
                "singular": info.singular,
                **({"shortNames": list(info.short_names)} if info.short_names else {}),
                "categories": [CATEGORY],
            },
            "scope": "Namespaced" if info.namespaced else "Cluster",
            "versions": [
                {
                    "name": info.version,
                    "served": True,
                    "storage": True,
                    "additionalPrinterColumns": _columns(info.kind, schema),
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                    **_selectable(info.kind),
                }
            ],
        },
    }


def _selectable(kind: str) -> dict[str, Any]:
    paths = _SELECTABLE.get(kind, ())
    return {"selectableFields": [{"jsonPath": path} for path in paths]} if paths else {}


def _columns(kind: str, schema: Schema) -> list[dict[str, Any]]:
    # A kind without columns of its own would show its age, so the wide ones must not hide that.
    first = [_column(*item) for item in _COLUMNS[kind].items()] or [_AGE]
    shown = {column["name"] for column in first}
    judged = "conditions" in schema["properties"]["status"]["properties"]
    wide = _WIDE_COLUMNS.get(kind, {}) | (_READY_COLUMNS if judged else {})
    rest = (item for item in wide.items() if item[0] not in shown)
    ours = [_column(*item) | {"priority": 1} for item in rest]
    lists = [column for column in first if column["jsonPath"] in _LISTS]
    return [column for column in first if column not in lists] + ours + lists


def _column(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "type": "string", "jsonPath": path}


def _object_schema(info: KindInfo) -> Schema:
    schema = structural_schema(info.type)
    # Metadata is the API server's own; a CRD may only say that it is there.
    schema["properties"] |= _STANDARD
    spec = schema["properties"].get("spec", {}).get("properties", {})
    if fixed := [name for name, field in spec.items() if field.pop(FIXED, False)]:
        schema["x-kubernetes-validations"] = [immutable(name) for name in fixed]
    return schema
