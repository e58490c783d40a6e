"""What the form of a VM's devices means, and which field a refusal is about."""

from __future__ import annotations

import pytest

from laneway.admission.indexes import INDEXERS
from laneway.admission.world import World
from laneway.api import (
    ObjectMeta,
    PCIDeviceClaim,
    PCIDeviceClaimStatus,
    VGPUDevice,
    VGPUDeviceSpec,
    VGPUDeviceStatus,
)
from laneway.core.ledger.build import build
from laneway.core.ledger.facts import DeviceFact, Facts
from laneway.kube.kubevirt import DeviceRequest
from laneway.kube.store import Store
from laneway.web.pages.vms.fields import Typed
from laneway.web.pages.vms.form import field_of
from laneway.web.pages.vms.resources import FAMILIES, choices, devices, requested

MDEV, NIC = "nvidia.com/NVIDIA_A2-4Q", "intel.com/I350"
PINNED = "intel.com/n1-000004001"
LEDGER = build(
    Facts(
        (
            DeviceFact("n1", MDEV, "n1-000008004"),
            DeviceFact("n2", MDEV, "n2-000008004"),
            DeviceFact("n1", PINNED, "n1-000004001"),
        )
    )
)

ALL = frozenset(FAMILIES)


@pytest.fixture
def world() -> World:
    """A mediated vGPU on each of two nodes, and a network card that is not pooled."""
    found = World(
        vgpus=Store(INDEXERS["vgpus"]),
        claims=Store(INDEXERS["claims"]),
        pci_devices=Store(INDEXERS["pci_devices"]),
        usb_devices=Store(INDEXERS["usb_devices"]),
        usb_claims=Store(INDEXERS["usb_claims"]),
    )
    for node in ("n1", "n2"):
        found.vgpus.put(
            VGPUDevice(
                metadata=ObjectMeta(name=f"{node}-000008004"),
                spec=VGPUDeviceSpec(node_name=node),
                status=VGPUDeviceStatus(
                    framework="mdev",
                    resource_name=MDEV,
                    configure_vgpu_type_name="NVIDIA A2-4Q",
                ),
            )
        )
    claim = PCIDeviceClaimStatus(resource_name=PINNED)
    found.claims.put(PCIDeviceClaim(metadata=ObjectMeta(name="n1-000004001"), status=claim))
    return found


def test_fields_are_read_as_far_as_they_can_be() -> None:
    typed = Typed(
        (
            (f"count:{MDEV}", " 2 "),
            (f"count:{NIC}", "0"),
            ("count:a.b/none", ""),
            ("count:a.b/many", "65"),
            ("count:a.b/word", "two"),
            ("count:a.b/huge", "9" * 5000),
            ("device", "x"),
            ("device", "x"),
            ("device", ""),
        )
    )
    assert typed.numbers == [(MDEV, 2)]
    assert set(typed.wrong) == {"count:a.b/many", "count:a.b/word", "count:a.b/huge"}
    assert typed.all("device") == ("x",)


def test_entries_have_names_of_their_own_and_stand_in_the_list_of_their_kind(
    world: World,
) -> None:
    found = requested([(MDEV, 2), (NIC, 1)], ["n1-000004001", "gone"], ["a2-4q-1"], world)
    assert list(found.gpus) == [
        DeviceRequest(name="a2-4q-2", device_name=MDEV),
        DeviceRequest(name="a2-4q-3", device_name=MDEV),
    ]
    assert list(found.host_devices) == [
        DeviceRequest(name="i350-1", device_name=NIC),
        DeviceRequest(name="n1-000004001", device_name=PINNED),
    ]


def test_a_device_of_a_pool_and_one_alone_are_told_apart(world: World) -> None:
    [pool] = choices(LEDGER, world, ALL)
    assert (pool.kind.title, pool.total, pool.free, pool.most) == ("A2-4Q", 2, 2, 1)
    found, more = devices(LEDGER, world, ALL, node="n1", text="", chosen=["n2-000008004"])
    assert not more
    assert [(one.entry.device.name, one.kind.exact, one.others) for one in found] == [
        ("n2-000008004", False, 1),
        ("n1-000004001", True, 0),
        ("n1-000008004", False, 1),
    ]
    named, _ = devices(LEDGER, world, ALL, node="", text="a2-4q N2", chosen=[])
    assert [one.entry.device.name for one in named] == ["n2-000008004"]


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("metadata.name", "name"),
        ("spec.template.spec.domain.cpu.cores", "cores"),
        ("spec.template.spec.domain.resources.requests.memory", "memory"),
        ("spec.template.spec.domain.devices.gpus[0].deviceName", "devices"),
        ("spec.template.spec.volumes[0].containerDisk", "disk"),
        ("spec.instancetype", ""),
    ],
)
def test_a_refused_field_of_a_vm_is_a_field_of_the_form(path: str, field: str) -> None:
    assert field_of(path) == field
