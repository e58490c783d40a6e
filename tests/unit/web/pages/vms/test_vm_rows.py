"""The table of VMs shows each VM as its objects are now, in which order they ever come and go."""

from __future__ import annotations

from typing import Any, cast

import pytest

from laneway.api import ObjectMeta
from laneway.kube.client import Client
from laneway.kube.cluster import Cluster, ClusterConfig
from laneway.kube.kubevirt import (
    DeviceRequest,
    Devices,
    Domain,
    InstanceSpec,
    InstanceStatus,
    Template,
    VirtualMachine,
    VirtualMachineInstance,
    VirtualMachineSpec,
)
from laneway.kube.resource import Key, KubeObject, key_of
from laneway.web.caches import Caches, Change
from laneway.web.pages.vms import rows
from laneway.web.rendering import Rendering, Texts
from laneway.web.tables.rows import Rows
from laneway.web.visit import Site

VGPU, NIC = "nvidia.com/NVIDIA_A2-4Q", "intel.com/I350"


class Known:
    """A cluster that is never asked, and the rows of its VMs, which were asked for before any."""

    def __init__(self) -> None:
        self._caches = Caches.of(Client(ClusterConfig(Cluster("http://127.0.0.1:1"))))
        unused = cast(Any, None)
        self._site = Site(self._caches, unused, Rendering(Texts()), unused)
        self.rows: Rows[Any] = rows.keep(self._site)

    def put(self, kind: str, obj: KubeObject) -> None:
        before = self._caches.all[kind].store.put(obj)
        self._site.changed(Change(kind, key_of(obj), before, obj))

    def drop(self, kind: str, key: Key) -> None:
        before = self._caches.all[kind].store.drop(key)
        self._site.changed(Change(kind, key, before, None))

    def shown(self) -> list[tuple[str, ...]]:
        """Name, state, node and requests of each row."""
        found = [entry.item for entry in self.rows.all()]
        return [(one.name, one.state, one.node, *rows.resources(one)) for one in found]


@pytest.fixture
def known() -> Known:
    return Known()


def spec(resource: str) -> InstanceSpec:
    devices = Devices(host_devices=[DeviceRequest(name="one", device_name=resource)])
    return InstanceSpec(domain=Domain(devices=devices))


def vm(name: str, resource: str, namespace: str = "default") -> VirtualMachine:
    return VirtualMachine(
        metadata=ObjectMeta(namespace=namespace, name=name),
        spec=VirtualMachineSpec(template=Template(spec=spec(resource))),
    )


def instance(name: str, node: str, namespace: str = "default") -> VirtualMachineInstance:
    return VirtualMachineInstance(
        metadata=ObjectMeta(namespace=namespace, name=name),
        spec=spec(VGPU),
        status=InstanceStatus(phase="Running", node_name=node),
    )


def test_a_vm_is_followed_from_its_first_instance_to_its_end(known: Known) -> None:
    known.put("vms", vm("desk", VGPU))
    assert known.shown() == [("desk", "", "", VGPU)]
    known.put("instances", instance("desk", "n1"))
    assert known.shown() == [("desk", "Running", "n1", VGPU)]
    known.put("vms", vm("desk", NIC))
    assert known.shown() == [("desk", "Running", "n1", NIC)]
    assert (known.rows.count("resource", VGPU), known.rows.count("resource", NIC)) == (0, 1)
    known.put("instances", instance("desk", "n2"))
    assert (known.rows.count("node", "n1"), known.rows.count("node", "n2")) == (0, 1)
    known.drop("vms", Key("default", "desk"))
    # What was made without a VirtualMachine, or has outlived it, is a VM as well.
    assert known.shown() == [("desk", "Running", "n2", VGPU)]
    known.drop("instances", Key("default", "desk"))
    assert known.shown() == []
    assert known.rows.values("namespace") == []


def test_vms_of_one_name_are_told_apart_by_their_namespaces(known: Known) -> None:
    known.put("vms", vm("desk10", VGPU))
    known.put("vms", vm("desk9", VGPU))
    known.put("vms", vm("desk9", NIC, "a-team"))
    known.put("instances", instance("desk9", "n1", "a-team"))
    assert known.shown() == [
        ("desk9", "Running", "n1", NIC),
        ("desk9", "", "", VGPU),
        ("desk10", "", "", VGPU),
    ]
    seen = known.rows.only(rows.NAMESPACE, {"default"})
    assert [entry.item.name for entry in seen.all()] == ["desk9", "desk10"]
    assert seen.values("resource") == [VGPU]
    assert seen.values("node") == [""]
