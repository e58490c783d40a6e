"""Which VMs admission has not looked at."""

from __future__ import annotations

from typing import Any

import pytest

from laneway.api import decode
from laneway.controllers.cluster.unchecked import UncheckedCollector, is_unchecked
from laneway.kube.client import Client
from laneway.kube.cluster import Cluster, ClusterConfig
from laneway.kube.informer import Informer
from laneway.kube.kubevirt import (
    ANNOTATION_ADMITTED,
    VIRTUAL_MACHINES,
    VirtualMachine,
    mark_of,
)
from laneway.kube.resource import Key

CARD = {"name": "n1-000008000", "deviceName": "nvidia.com/GA107GL_A2"}
OTHER = {"name": "n1-000009000", "deviceName": "nvidia.com/GA107GL_A2"}


def vm(name: str, *devices: dict[str, str], mark: str | None = None) -> VirtualMachine:
    annotations = {} if mark is None else {ANNOTATION_ADMITTED: mark}
    spec = {"template": {"spec": {"domain": {"devices": {"hostDevices": list(devices)}}}}}
    metadata = {"name": name, "namespace": "d", "annotations": annotations}
    return decode(VirtualMachine, {"metadata": metadata, "spec": spec})


def mark(*devices: dict[str, str]) -> str:
    return mark_of(vm("x", *devices).spec.template.spec.domain.devices)


@pytest.mark.parametrize(
    ("one", "unchecked"),
    [
        (vm("no devices"), False),
        (vm("no devices any more", mark=mark(CARD)), False),
        (vm("never seen", CARD), True),
        (vm("seen", CARD, mark=mark(CARD)), False),
        (vm("edited unseen", CARD, OTHER, mark=mark(CARD)), True),
        (vm("spoilt", CARD, mark="yes"), True),
    ],
)
def test_the_mark_tells(one: VirtualMachine, unchecked: bool) -> None:
    assert is_unchecked(one) is unchecked


async def test_one_manager_tells_once_it_knows_the_vms() -> None:
    async with Client(ClusterConfig(Cluster("http://127.0.0.1:1"))) as client:
        vms: Informer[Any] = Informer(client, VIRTUAL_MACHINES)
        leading = True
        collector = UncheckedCollector(vms, lambda: leading)
        vms.store.put(vm("a", CARD))
        vms.store.put(vm("b", CARD, mark=mark(CARD)))
        vms.store.put(vm("c", OTHER))
        assert list(collector.collect()) == []
        vms.answered.set()
        [family] = collector.collect()
        [sample] = family.samples
        assert (sample.name, sample.value) == ("laneway_virtual_machines_unchecked", 2)
        vms.store.put(vm("a", CARD, mark=mark(CARD)))
        vms.store.put(vm("b", CARD, OTHER, mark=mark(CARD)))
        vms.store.put(vm("d", OTHER))
        vms.store.drop(Key("d", "c"))
        [family] = collector.collect()
        assert [sample.value for sample in family.samples] == [2]
        leading = False
        assert list(collector.collect()) == []
