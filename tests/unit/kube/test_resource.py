"""Where resources are served, and how their objects are named."""

from __future__ import annotations

import pytest

from laneway.api import KINDS, CoreNode, DeviceNode, ObjectMeta, PCIDevice
from laneway.kube.resource import Key, Resource, key_of, served


@pytest.mark.parametrize("info", KINDS, ids=lambda info: f"{info.plural}.{info.group}")
def test_our_own_kinds_are_served_where_their_description_says(info) -> None:
    resource = served(info.type)

    assert resource.path() == info.path
    assert resource.kind == info.kind
    assert resource.namespaced == info.namespaced


def test_paths() -> None:
    pods = Resource("", "v1", "pods", True, CoreNode)

    assert pods.path() == "/api/v1/pods"
    assert pods.path("a", "b", "status") == "/api/v1/namespaces/a/pods/b/status"
    assert served(CoreNode).path("ignored", "n1") == "/api/v1/nodes/n1"


def test_an_object_is_referred_to_by_its_kind() -> None:
    node = DeviceNode(metadata=ObjectMeta(name="n", uid="u", resource_version="3"))

    ref = served(DeviceNode).ref(node)

    assert ref == ("devices.harvesterhci.io/v1beta1", "Node", "", "n", "u", "3")
    assert Resource("g", "v2", "pcidevices", False, PCIDevice).ref(PCIDevice()).kind == "PCIDevice"


def test_keys_read_like_kubectl_shows_them() -> None:
    node = DeviceNode(metadata=ObjectMeta(name="n"))

    assert str(key_of(node)) == "n"
    assert str(Key("team", "n")) == "team/n"


def test_our_own_kinds_are_decoded_tolerantly() -> None:
    device = served(PCIDevice).decode(b'{"metadata": {"name": "a", "labels": null}, "spec": null}')

    assert device.metadata.labels == {}
