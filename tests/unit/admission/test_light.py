"""What admission keeps of devices: what rules read, and what is equal only once."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
import pytest

from laneway.admission.light import PCI_DEVICES, VGPUS
from laneway.api import PCIDevice, VGPUDevice, decode, to_builtins
from laneway.controllers.devices import pci, vgpu
from laneway.host.scan import scan
from laneway.kube.resource import Resource
from laneway.sim.spec import build, parse_spec

READ_OF_PCI = [
    "address",
    "vendor_id",
    "device_id",
    "class_id",
    "subsystem_device_id",
    "iommu_group",
    "node_name",
    "resource_name",
    "description",
    "kernel_driver_in_use",
    "physical_function",
    "sriov",
    "boot_vga",
    "claimable",
]
READ_OF_VGPU = [
    "vgpu_status",
    "configure_vgpu_type_name",
    "framework",
    "resource_name",
    "allocation",
    "placement",
]


def stored(obj: Any, number: int) -> bytes:
    """An object as a server has it."""
    body = to_builtins(obj)
    body["metadata"] |= {"uid": f"u{number}", "resourceVersion": str(number), "generation": 3}
    for condition in body["status"].get("conditions", []):
        condition["lastTransitionTime"] = f"2026-01-01T00:00:{number % 60:02}Z"
    return msgspec.json.encode(body)


def timeless(conditions: Any) -> list[Any]:
    return [msgspec.structs.replace(one, last_transition_time="") for one in conditions]


def published(spec: str, family: Any) -> list[bytes]:
    objects = family.wanted(scan(build(parse_spec(spec), "n1")), "n1").values()
    return [stored(obj, number) for number, obj in enumerate(objects)]


@pytest.mark.parametrize("spec", ["a2", "a100", "workstation"])
def test_a_pci_device_reads_as_it_is(spec: str) -> None:
    for raw in published(spec, pci):
        light, whole = PCI_DEVICES.decode(raw), decode(PCIDevice, raw)
        for name in READ_OF_PCI:
            assert getattr(light.status, name) == getattr(whole.status, name)
        for name in ("bars", "critical"):
            assert list(getattr(light.status, name)) == list(getattr(whole.status, name))
        assert list(light.status.conditions) == timeless(whole.status.conditions)
        of = "harvesterhci.io/parentSRIOVGPUDevice"
        assert light.metadata.labels.get(of) == whole.metadata.labels.get(of)
        assert light.metadata.name == whole.metadata.name
        assert light.metadata.resource_version == whole.metadata.resource_version


def test_a_vgpu_reads_as_it_is() -> None:
    for raw in published("a2", vgpu):
        light, whole = VGPUS.decode(raw), decode(VGPUDevice, raw)
        assert light.spec == whole.spec
        for name in READ_OF_VGPU:
            assert getattr(light.status, name) == getattr(whole.status, name)
        assert light.status.available_types == whole.status.available_types
        assert light.metadata.labels.items() <= whole.metadata.labels.items()


@pytest.mark.parametrize(("resource", "family"), [(PCI_DEVICES, pci), (VGPUS, vgpu)])
def test_what_is_equal_is_there_once(resource: Resource[Any], family: Any) -> None:
    raw = published("a2", family)[-1]
    one, other = resource.decode(raw), resource.decode(raw)
    for name in ("conditions", "bars", "available_types", "resource_name"):
        if hasattr(one.status, name):
            assert getattr(one.status, name) is getattr(other.status, name)
    assert one.metadata.labels is other.metadata.labels


@pytest.mark.parametrize(("resource", "kind"), [(PCI_DEVICES, PCIDevice), (VGPUS, VGPUDevice)])
def test_a_light_object_is_small(resource: Resource[Any], kind: type[Any]) -> None:
    """Of all that an object holds itself, the parts that neighbours share left out."""
    [raw, *_] = published("a2", pci if kind is PCIDevice else vgpu)
    resource.decode(raw)
    light = resource.decode(raw)
    own = [light, light.metadata, light.spec, light.status]
    own += [light.metadata.name, light.metadata.uid, light.metadata.resource_version]
    assert sum(map(sys.getsizeof, own)) < 1000


@pytest.mark.parametrize("resource", [PCI_DEVICES, VGPUS])
@pytest.mark.parametrize(
    "body",
    [
        b'{"metadata": {"name": "x"}}',
        b'{"metadata": {"name": "x", "labels": null}, "spec": null, "status": null}',
        b'{"metadata": {"name": "x"}, "status": {"conditions": null, "availableTypes": null}}',
        b'{"metadata": {"name": "x"}, "status": {"bars": [], "nobody": "knows this"}}',
    ],
)
def test_an_odd_object_can_be_read(resource: Resource[Any], body: bytes) -> None:
    assert resource.decode(body).metadata.name == "x"
