"""Which devices the objects of a node request."""

from __future__ import annotations

from typing import Any

from laneway.api import (
    ObjectMeta,
    PCIDevice,
    PCIDeviceClaim,
    PCIDeviceClaimSpec,
    PCIDeviceStatus,
    VGPUDevice,
    VGPUDeviceSpec,
)
from laneway.controllers.device_plugin.desired import Asked
from laneway.core import keys
from laneway.core.inventory import Inventory
from laneway.core.names import pci_object_name
from laneway.core.pci import PciAddress
from laneway.kube.resource import key_of
from laneway.roles.node_caches import NodeCaches
from laneway.sim.spec import build, parse_spec

NOBODY: Any = None
"""No API server is asked: what is judged is the caches."""


def test_a_claim_of_another_node_requests_nothing_here() -> None:
    found = NodeCaches(NOBODY, "node1", has_kubelet=False)
    for node, address in (("node1", "0000:17:00.1"), ("node2", "0000:17:00.0")):
        spec = PCIDeviceClaimSpec(address=address, node_name=node)
        metadata = ObjectMeta(name=pci_object_name(node, PciAddress.parse(address)))
        found.claims.store.put(PCIDeviceClaim(metadata=metadata, spec=spec))
    asked = Asked("node1", build(parse_spec("plain"), "node1"), found.for_device_plugin())
    asked.subscribe(lambda: None)

    functions = asked.desired_states(Inventory()).functions
    assert [str(one.address) for one in functions] == ["0000:17:00.1"]


def _vgpu(address: str, profile: str, *, enabled: bool = True) -> VGPUDevice:
    return VGPUDevice(
        metadata=ObjectMeta(name=pci_object_name("node1", PciAddress.parse(address))),
        spec=VGPUDeviceSpec(
            address=address,
            node_name="node1",
            parent_gpu_device_address="0000:17:00.0",
            enabled=enabled,
            vgpu_type_name=profile,
        ),
    )


def _pci(address: str, resource: str) -> PCIDevice:
    annotations = {keys.ANNOTATION_RESOURCE_NAME: resource} if resource else {}
    name = pci_object_name("node1", PciAddress.parse("0000:17:00.1"))
    return PCIDevice(
        metadata=ObjectMeta(name=name, annotations=annotations),
        status=PCIDeviceStatus(address=address, node_name="node1"),
    )


def test_what_is_requested_follows_each_change_of_an_object() -> None:
    found = NodeCaches(NOBODY, "node1", has_kubelet=False)
    host = build(parse_spec("plain"), "node1")
    asked = Asked("node1", host, found.for_device_plugin())
    first, second = "0000:17:00.4", "0000:17:00.5"

    def profiles() -> dict[str, str]:
        states = asked.desired_states(Inventory())
        return {str(address): profile for address, profile in states.profiles.items()}

    def resources() -> dict[str, str]:
        states = asked.desired_states(Inventory())
        return {str(address): name for address, name in states.annotations.items()}

    assert (profiles(), resources()) == ({}, {})
    store = found.vgpus.store
    store.put(_vgpu(first, "NVIDIA A2-4Q"))
    store.put(_vgpu(second, "NVIDIA A2-8Q", enabled=False))
    assert profiles() == {first: "NVIDIA A2-4Q"}
    store.put(_vgpu(second, "NVIDIA A2-8Q"))
    assert profiles() == {first: "NVIDIA A2-4Q", second: "NVIDIA A2-8Q"}
    store.put(_vgpu(first, "NVIDIA A2-4Q", enabled=False))
    store.put(_vgpu(second, "NVIDIA A2-2Q"))
    assert profiles() == {second: "NVIDIA A2-2Q"}
    store.drop(key_of(_vgpu(second, "")))
    assert profiles() == {}

    found.pcis.store.put(_pci("0000:17:00.1", "nvidia.com/MINE"))
    assert resources() == {"0000:17:00.1": "nvidia.com/MINE"}
    found.pcis.store.put(_pci("0000:17:00.1", ""))
    assert resources() == {}


def test_only_what_decides_is_told() -> None:
    found = NodeCaches(NOBODY, "node1", has_kubelet=False)
    asked = Asked("node1", build(parse_spec("plain"), "node1"), found.for_device_plugin())
    told: list[str] = []
    asked.subscribe(lambda: told.append("changed"))

    def turns(before: PCIDevice | None, after: PCIDevice | None) -> int:
        told.clear()
        found.pcis._notify(before, after)
        return len(told)

    made, observed = _pci("", ""), _pci("0000:17:00.1", "")
    named_early, named = _pci("", "nvidia.com/MINE"), _pci("0000:17:00.1", "nvidia.com/MINE")
    assert turns(None, made) == turns(made, observed) == turns(observed, None) == 0
    assert turns(observed, named) == turns(named, observed) == turns(named, None) == 1
    assert turns(named_early, named) == 1  # Now it is known of which function it speaks.
