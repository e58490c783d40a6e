"""What caches keep of devices, VMs and nodes reads as it is; what is equal is kept once."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from laneway.api import CoreNode, decode
from laneway.controllers.devices import gpu, pci, vgpu
from laneway.host.scan import scan
from laneway.kube import kubevirt
from laneway.kube.devices import GPUS, PCI_CLAIMS, PCI_DEVICES, VGPUS
from laneway.kube.nodes import node
from laneway.kube.resource import Resource, served
from laneway.kube.vms import INSTANCES, VIRTUAL_MACHINES
from laneway.sim.spec import build, parse_spec

RECORD, MARK = "harvesterhci.io/deviceAllocationDetails", kubevirt.ANNOTATION_ADMITTED
CLAIM = {
    "metadata": {
        "name": "n1-000008000",
        "labels": {"nodename": "n1"},
        "annotations": {"pcidevices.harvesterhci.io/skip-vfio-binding": "true"},
        "finalizers": ["keeps/it"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "VGPUDevice", "name": "n", "uid": "u"}],
        "creationTimestamp": "2026-01-01T00:00:00Z",
    },
    "spec": {"address": "0000:08:00.0", "nodeName": "n1", "userName": "anna"},
    "status": {
        "passthroughEnabled": True,
        "resourceName": "r/x",
        "gpuUUID": "GPU-1",
        "allocation": {"namespace": "d", "pod": "p", "virtualMachine": "vm-a"},
        "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        ],
    },
}
DOMAIN = {
    "devices": {
        "gpus": [{"name": "g", "deviceName": "r/x"}],
        "hostDevices": [{"name": "h", "deviceName": "r/y"}],
    },
    "cpu": {"cores": 8},
    "memory": {"guest": "16Gi"},
    "resources": {"limits": {"cpu": 8, "memory": "17Gi"}},
}
SPEC = {"domain": DOMAIN, "nodeSelector": {"zone": "a"}, "evictionStrategy": "LiveMigrate"}
META = {"name": "vm-a", "namespace": "d", "uid": "u1", "resourceVersion": "7"}
CONDITION = {"type": "Ready", "status": "True", "reason": "Up"}
VM = {
    "metadata": {
        **META,
        "labels": {"team": "x"},
        "annotations": {RECORD: "{}", MARK: "0", "others.example/document": "x" * 4000},
    },
    "spec": {"runStrategy": "Always", "preference": {"name": "linux"}, "template": {"spec": SPEC}},
    "status": {"created": True, "printableStatus": "Running", "conditions": [CONDITION]},
}
INSTANCE = {
    "metadata": META,
    "spec": SPEC,
    "status": {"phase": "Running", "nodeName": "n1", "conditions": [CONDITION]},
}


NODES = replace(served(CoreNode), decoder=node)
NODE = {
    "metadata": {
        "name": "n1",
        "labels": {f"feature.example/number-{n}": "true" for n in range(90)},
        "annotations": {"sriovgpu.harvesterhci.io/custom-driver": "x"},
    },
    "spec": {"unschedulable": True},
    "status": {"conditions": [CONDITION]},
}


def published(family: Any, spec: str) -> list[bytes]:
    objects = family.wanted(scan(build(parse_spec(spec), "n1")), "n1").values()
    return [msgspec.json.encode(one) for one in objects]


def read(obj: Any) -> Any:
    """All that an object says, field by field."""
    if isinstance(obj, msgspec.Struct):
        return {name: read(getattr(obj, name)) for name in obj.__struct_fields__}
    if isinstance(obj, (list, tuple)):
        return [read(each) for each in obj]
    return obj


@pytest.mark.parametrize("spec", ["a2", "a100", "workstation"])
@pytest.mark.parametrize(("resource", "family"), [(PCI_DEVICES, pci), (VGPUS, vgpu), (GPUS, gpu)])
def test_a_device_reads_as_it_is(resource: Resource[Any], family: Any, spec: str) -> None:
    for raw in published(family, spec):
        assert read(resource.decode(raw)) == read(decode(resource.type, raw))


@pytest.mark.parametrize(("resource", "obj"), [(PCI_CLAIMS, CLAIM), (NODES, NODE)])
def test_a_claim_or_node_reads_as_it_is(resource: Resource[Any], obj: Any) -> None:
    raw = msgspec.json.encode(obj)
    assert read(resource.decode(raw)) == read(decode(resource.type, raw))


@pytest.mark.parametrize(("resource", "obj"), [(VIRTUAL_MACHINES, VM), (INSTANCES, INSTANCE)])
def test_a_vm_reads_as_it_is_but_for_annotations_of_others(
    resource: Resource[Any], obj: Any
) -> None:
    raw = msgspec.json.encode(obj)
    kept, whole = read(resource.decode(raw)), read(decode(resource.type, raw))
    whole["metadata"]["annotations"].pop("others.example/document", None)
    assert kept == whole


@pytest.mark.parametrize(
    ("resource", "obj", "most"),
    [
        (PCI_CLAIMS, CLAIM, 1100),
        (VIRTUAL_MACHINES, VM, 1500),
        (INSTANCES, INSTANCE, 1200),
        (NODES, NODE, 6000),
    ],
)
def test_objects_that_are_alike_have_most_in_common(
    resource: Resource[Any], obj: Any, most: int
) -> None:
    raw = msgspec.json.encode(obj)
    first: set[int] = set()
    known = resource.decode(raw)
    size(known, first)
    assert size(resource.decode(raw), first) < most


def size(value: Any, seen: set[int]) -> int:
    """Bytes of a value and its parts, those that were seen left out."""
    if id(value) in seen:
        return 0
    seen.add(id(value))
    inner: list[Any] = []
    if isinstance(value, msgspec.Struct):
        inner = [getattr(value, name) for name in value.__struct_fields__]
    elif isinstance(value, dict):
        inner = [*value, *value.values()]
    elif isinstance(value, (list, tuple)):
        inner = list(value)
    return sys.getsizeof(value) + sum(size(one, seen) for one in inner)


@pytest.mark.parametrize(
    "resource", [PCI_DEVICES, PCI_CLAIMS, VGPUS, GPUS, VIRTUAL_MACHINES, INSTANCES, NODES]
)
@pytest.mark.parametrize(
    "body",
    [
        b'{"metadata": {"name": "x"}}',
        b'{"metadata": {"name": "x", "labels": null}, "spec": null, "status": null}',
        b'{"metadata": {"name": "x"}, "status": {"conditions": null, "nobody": "knows this"}}',
    ],
)
def test_an_odd_object_can_be_read(resource: Resource[Any], body: bytes) -> None:
    assert resource.decode(body).metadata.name == "x"
