"""A device is described in the words by which claims choose, and never in words that are none."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.device_plugin.offer import Form, Offer, Owner
from laneway.core.dra.device import TAINT_HELD, TAINT_UNHEALTHY, Taint, device, device_name
from laneway.core.inventory import ConfiguredVgpu, Inventory, VgpuFunction
from laneway.core.pci import PciAddress, PciFunction
from support import devices
from support.devices import function_offer

PORT = PciAddress(0, 0, 1, 0)
GPU = PciAddress(0, 8, 0, 0)
VF = PciAddress(0, 8, 0, 4)
UUID = "11111111-2222-3333-4444-555555555555"


def function(address: PciAddress, **facts: Any) -> PciFunction:
    return devices.function(address, **({"iommu_group": 7} | facts))


def offer(form: Form = Form.PCI, **facts: Any) -> Offer:
    known = {"resource": "nvidia.com/GA107GL_A2_A16", "group": 7, "numa_node": 1}
    return function_offer(GPU, form=form, **(known | facts))


BRIDGE = function(PORT, vendor="8086", class_code="060400", iommu_group=1)
INVENTORY = Inventory(
    functions=(
        BRIDGE,
        function(GPU, upstream=PORT, subsystem_device="157e"),
        function(VF, upstream=PORT, physfn=GPU),
    ),
    vgpus=(
        VgpuFunction(
            address=VF,
            parent=GPU,
            framework="vendor-vfio",
            supported=(),
            creatable=(),
            configured=ConfiguredVgpu("1145", "NVIDIA A2-4Q", UUID),
        ),
    ),
)


def test_a_whole_gpu_says_where_and_what_it_is() -> None:
    found = device(offer(), INVENTORY, None)
    assert found.name == "pci-0000-08-00-0"
    assert found.attributes == {
        "deviceID": "25b6",
        "form": "pci",
        "iommuGroup": 7,
        "object": "node1-000008000",
        "productName": "GA107GL [A2 / A16]",
        "resource.kubernetes.io/numaNode": 1,
        "resource.kubernetes.io/pciBusID": "0000:08:00.0",
        "resource.kubernetes.io/pcieRoot": "pci0000:00",
        "resourceName": "nvidia.com/GA107GL_A2_A16",
        "vendorID": "10de",
    }
    assert found.memory == "16Gi"
    assert found.taints == ()


def test_a_mediated_device_is_known_by_its_uuid_alone() -> None:
    """Several can be on one function, so that its address is not theirs."""
    one = offer(Form.MDEV, id=UUID, resource="nvidia.com/NVIDIA_A2-4Q", address=VF)
    found = device(one, INVENTORY, None)
    assert found.name == f"mdev-{UUID}"
    assert found.attributes["mdevUUID"] == UUID
    assert found.attributes["profile"] == "NVIDIA A2-4Q"
    assert found.attributes["parentPCIAddress"] == str(GPU)
    assert "resource.kubernetes.io/pciBusID" not in found.attributes
    assert found.memory == "4Gi"


def test_a_vgpu_on_a_function_is_known_by_its_address() -> None:
    found = device(offer(id=str(VF), address=VF), INVENTORY, None)
    assert found.attributes["resource.kubernetes.io/pciBusID"] == str(VF)
    assert found.attributes["parentPCIAddress"] == str(GPU)
    assert found.memory == "4Gi"


def test_what_is_not_known_is_not_said() -> None:
    one = offer(group=None, numa_node=None, resource="example.com/" + "x" * 60)
    found = device(one, Inventory(functions=(function(GPU, upstream=PORT),)), None)
    assert found.attributes.keys().isdisjoint(
        {"iommuGroup", "resource.kubernetes.io/numaNode", "resource.kubernetes.io/pcieRoot"}
    )
    assert "resourceName" not in found.attributes, "cut off it would name another resource"


def test_a_device_that_a_claim_must_not_get_is_tainted() -> None:
    owner = Owner(namespace="default", pod="virt-launcher-a")
    found = device(offer(unhealthy="it is gone"), INVENTORY, owner)
    assert found.taints == (Taint(TAINT_HELD, "virt-launcher-a"), Taint(TAINT_UNHEALTHY))
    long = device(offer(), INVENTORY, Owner(namespace="default", pod="p" * 62 + ".a" * 9))
    assert long.taints[0].value == "p" * 62


@pytest.mark.parametrize(
    ("one", "name"),
    [
        (offer(Form.USB, id="n-046d-c52b-003011", usb=(3, 11), address=None), "usb-003-011"),
        (offer(Form.USB, id="n-046d-c52b-003011", address=None), "usb-n-046d-c52b-003011"),
    ],
)
def test_usb_devices_are_named_after_their_place(one: Offer, name: str) -> None:
    assert device_name(one) == name


@given(st.sampled_from(Form), st.text(max_size=300))
def test_every_name_is_a_label(form: Form, text: str) -> None:
    name = device_name(offer(form, id=text, address=None))
    assert re.fullmatch("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", name)
